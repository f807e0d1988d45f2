"""Reads happen on the writer's connection; while that is busy, on one that is opened for them."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.model.writes import Claim, Notice, Reap, Renew
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite import store as module
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.harness import LEASE


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[Harness, SqliteStore]]:
    async with Harness(lambda clock: SqliteStore(path / "hf.db", clock=clock)) as harness:
        assert isinstance(harness.store, SqliteStore)
        yield harness, harness.store


def has_own(store: SqliteStore) -> bool:
    """Tell whether a connection was opened for reading."""
    return vars(store)["_reads"] is not None


class Slow:
    """Work that keeps the writer busy until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, _: sqlite3.Connection, now: int) -> tuple[None, list[Notice]]:
        self.begun.set()
        self.go_on.wait(30)
        return None, []


@asynccontextmanager
async def busy(store: SqliteStore) -> AsyncIterator[None]:
    slow = Slow()
    job = store._writer.submit_code(slow)
    await asyncio.to_thread(slow.begun.wait, 30)
    try:
        yield
    finally:
        slow.go_on.set()
        await job


async def test_a_quiet_store_has_one_connection(tmp_path: Path) -> None:
    async with opened(tmp_path) as (harness, store):
        await harness.start("r")
        [run] = (await harness.claim("A", eager=True)).runs
        loaded = await store.load(run.ns, run.id)
        assert loaded is not None
        assert [event.kind for event in loaded.events] == ["run.started"]
        assert not has_own(store)


async def test_reads_do_not_wait_for_a_commit(tmp_path: Path) -> None:
    async with opened(tmp_path) as (harness, store):
        await harness.start("r")
        async with busy(store):
            assert await store.load("default", "r") is not None
        assert has_own(store)
        assert await store.load("default", "r") is not None


async def test_other_threads_have_the_other_connection(tmp_path: Path) -> None:
    async with opened(tmp_path) as (harness, store):
        await harness.start("r")
        loaded = await asyncio.to_thread(lambda: asyncio.run(store.load("default", "r")))
        assert loaded is not None
        assert has_own(store)


async def test_what_comes_from_other_loops_during_a_read_is_written_after_it(
    tmp_path: Path,
) -> None:
    """Such as the renewal of a lease: nobody else would see that it waits. Not by the loop, which
    may be kept by whoever read: a body that is replayed."""
    async with opened(tmp_path) as (_, store):
        renewed = threading.Event()

        async def renew() -> None:
            await store.write([Renew("A", LEASE)])
            renewed.set()

        thread = threading.Thread(target=lambda: asyncio.run(renew()), daemon=True)

        def read(_: sqlite3.Connection) -> None:
            thread.start()
            waiting = vars(store._writer)["_foreign"]
            while not waiting:
                assert thread.is_alive()

        store._read(read)
        assert renewed.wait(30)
        thread.join()


async def test_a_lent_connection_is_given_back_after_an_error(tmp_path: Path) -> None:
    async with opened(tmp_path) as (harness, store):
        with pytest.raises(StoreUnavailable):
            store._read(lambda reads: reads.execute("SELECT nonsense"))
        await harness.start("r")
        assert not has_own(store)


async def test_who_finds_the_file_locked_waits_on_the_other_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers wait elsewhere, so their connection gives up at once."""
    async with opened(tmp_path) as (_, store):
        asked: list[sqlite3.Connection] = []
        connect: Callable[..., sqlite3.Connection] = vars(module)["connect"]
        other = connect(tmp_path / "hf.db", writes=False)
        monkeypatch.setattr(module, "connect", lambda *_, **__: other)

        def read(reads: sqlite3.Connection) -> Any:
            asked.append(reads)
            if len(asked) == 1:
                raise locked()
            return reads.execute("SELECT 1").fetchone()[0]

        assert store._read(read) == 1
        assert asked[1] is other


def locked() -> sqlite3.OperationalError:
    """Return the error of a database that somebody else keeps locked."""
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


def reaping(dead: str, **fields: Any) -> Claim:
    given: dict[str, Any] = {"worker": "B", "workflows": ("w",), "limit": 100, **fields}
    return Claim(ns="default", lease=LEASE, reaps=(Reap(dead, True),), **given)


async def test_a_claim_that_takes_all_from_the_dead_leaves_the_look_for_later(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as (harness, store):
        await harness.held("r", worker="A")
        heard: list[Notice] = []
        store.listen(heard.extend, near=True)
        claimed = await store.claim(reaping("A"))
        assert [run.id for run in claimed.runs] == ["r"]
        assert (claimed.reaped, claimed.held) == ((("A", 1),), None)
        assert not any(notice.what == "ready" for notice in heard)


@pytest.mark.parametrize("fields", [{"limit": 1}, {"queues": ("default",)}], ids=["room", "queues"])
async def test_others_are_told_of_what_may_be_left_of_the_dead(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    async with opened(tmp_path) as (harness, store):
        await harness.held("r", worker="A")
        await harness.held("s", worker="A")
        heard: list[Notice] = []
        store.listen(heard.extend, near=True)
        claimed = await store.claim(reaping("A", **fields))
        assert claimed.reaped == (("A", 2),)
        assert any(notice.what == "ready" for notice in heard)
