"""Which commits wait for the disk: all that somebody is told of. Claims and leases need not."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.kernel.dispatch import decide
from holdfast.model.writes import Reap, Renew
from holdfast.stores.processes import boot
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.harness import LEASE, answer


class Levels:
    """Tells how the commits since the last question were made: `soft` ones leave the log to the
    next that is `hard`."""

    def __init__(self, store: SqliteStore) -> None:
        self._told: list[str] = []
        self._level = "hard"
        store._writer._transactions.connection.set_trace_callback(self._hear)

    def _hear(self, statement: str) -> None:
        if statement.startswith("PRAGMA synchronous = "):
            self._level = {"FULL": "hard", "NORMAL": "soft"}[statement.split()[-1]]
        elif statement == "COMMIT":
            self._told.append(self._level)

    def __call__(self) -> list[str]:
        told, self._told = self._told, []
        return told


@asynccontextmanager
async def opened(path) -> AsyncIterator[tuple[Harness, Levels]]:
    async with Harness(lambda clock: SqliteStore(path / "hf.db", clock=clock)) as harness:
        assert isinstance(harness.store, SqliteStore)
        yield harness, Levels(harness.store)


async def test_only_claims_and_leases_are_soft(tmp_path):
    async with opened(tmp_path) as (harness, levels):
        await harness.start("r")
        assert levels() == ["hard"]
        [run] = (await harness.claim("A")).runs
        assert levels() == ["soft"]
        await harness.commit(run, answer())
        assert levels() == ["hard"]
        await harness.store.write([Renew("A", LEASE)])
        assert levels() == ["soft"]
        await harness.start("s")
        assert levels() == ["hard"]


@pytest.mark.parametrize(
    ("began", "level"),
    [(boot(), "soft"), ("another life", "hard"), ("", "hard"), (None, "hard")],
)
async def test_strikes_outlive_the_machine(tmp_path, began, level):
    """Else a run that takes the whole machine down would never be convicted.

    What a worker left that only it went down with is there, and the machine is up.
    """
    async with opened(tmp_path) as (harness, levels):
        await harness.start("r")
        await harness.claim("A")
        levels()
        if began is not None:  # it had a bell, and nobody holds it now
            (tmp_path / "hf.db-workers" / "A").write_text(f"w@nowhere\n{began}")
        reaps = () if began is not None else (Reap("A", True),)
        [run] = (await harness.claim("B", eager=True, reaps=reaps)).runs
        assert (run.strikes, levels()) == (1, [level])


async def test_a_soft_commit_leaves_the_log_alone(tmp_path):
    """To copy it into the file would wait for the disk."""
    async with opened(tmp_path) as (harness, _):
        await harness.start("r")
        assert isinstance(harness.store, SqliteStore)
        connection = harness.store._writer._transactions.connection
        pages = connection.execute("PRAGMA wal_autocheckpoint").fetchone()
        told: list[str] = []
        connection.set_trace_callback(told.append)
        await harness.claim("A")
        kept = [each for each in told if each == "COMMIT" or "autocheckpoint" in each]
        assert kept[:2] == ["PRAGMA wal_autocheckpoint = 0", "COMMIT"]
        assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == pages


async def test_one_hard_job_makes_its_group_hard(tmp_path):
    async with opened(tmp_path) as (harness, levels):
        renewal = harness.store.write([Renew("A", LEASE)])
        start = harness.store.write([decide(harness.starting("r"))])
        await asyncio.gather(renewal, start)
        assert levels() == ["hard"]


async def test_what_follows_a_failed_claim_is_hard(tmp_path):
    async with opened(tmp_path) as (harness, levels):
        await harness.start("r")
        levels()
        with pytest.raises(OverflowError):
            await harness.store.write([Renew("A", 1 << 80)])  # no such integer in SQLite
        await harness.start("s")
        assert levels() == ["hard"]


async def test_what_follows_a_claim_that_could_not_begin_is_hard(tmp_path, monkeypatch):
    """Somebody writes to the file without our lock, for longer than we wait."""
    monkeypatch.setattr("holdfast.stores.sqlite.transactions.BUSY_SECONDS", 0.0)
    async with opened(tmp_path) as (harness, levels):
        await harness.start("r")
        with closing(sqlite3.connect(tmp_path / "hf.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable):
                await harness.store.write([Renew("A", LEASE)])
        levels()
        await harness.start("s")
        assert levels() == ["hard"]
