"""Turns that only go on: the row of the run lags, and nobody is told so; one statement is all."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from holdfast.errors import OutcomeUnknown, StoreFull
from holdfast.kernel.dispatch import decide
from holdfast.model.run import Run
from holdfast.model.writes import Filter, Page
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.writer import LONELY
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.harness import answer, event

ALONE = LONELY + 2
"""Turns after which the next is written by itself."""


@asynccontextmanager
async def going_on(path: Path) -> AsyncIterator[tuple[Harness, Run, sqlite3.Connection]]:
    """Open a store with a run that went on for a while, one turn after the other."""
    async with Harness(lambda clock: SqliteStore(path / "hf.db", clock=clock)) as harness:
        assert isinstance(harness.store, SqliteStore)
        run = await harness.held("r")
        for n in range(ALONE):
            harness.clock.advance(1)
            assert await harness.commit(run, answer(f"a#{n}")) == "applied"
            run = run._replace(seq=run.seq + 1)
        yield harness, run, harness.store._writer._transactions.connection


def stored(connection: sqlite3.Connection) -> tuple[int, int]:
    found = connection.execute("SELECT seq, updated_at FROM runs WHERE id = 'r'").fetchone()
    return int(found[0]), int(found[1])


async def test_the_row_of_a_run_that_goes_on_lags_and_nobody_sees_it(tmp_path):
    async with going_on(tmp_path) as (harness, run, connection):
        assert stored(connection) == (1, run.updated_at)
        row = await harness.row("r")
        assert (row.seq, row.updated_at) == (run.seq, harness.store.now())
        [found] = await harness.store.find(Filter(), Page(10))
        assert found == row


@pytest.mark.parametrize("events", [1, 2, 3])
async def test_one_event_or_two_are_one_statement(tmp_path, events):
    async with going_on(tmp_path) as (harness, run, connection):
        told: list[str] = []
        connection.set_trace_callback(told.append)
        added = [event("step.started", "b#1"), answer("b#1"), answer("c#1")][-events:]
        assert await harness.commit(run, *added) == "applied"
        assert len(told) == (1 if events < 3 else 2 + events)
        assert (await harness.row("r")).seq == run.seq + events


async def parks(harness: Harness, run: Run) -> None:
    await harness.park(run)


async def ends(harness: Harness, run: Run) -> None:
    await harness.end(run)


async def is_terminated(harness: Harness, run: Run) -> None:
    await harness.move("terminate", run.id)


async def gets_a_message(harness: Harness, run: Run) -> None:
    await harness.signal("m1", run.id)


async def loses_its_worker(harness: Harness, run: Run) -> None:
    await harness.reap(known_dead=True)


@pytest.mark.parametrize("happens", [parks, ends, is_terminated, gets_a_message, loses_its_worker])
async def test_who_writes_the_row_brings_it_up_to_date(
    tmp_path: Path, happens: Callable[[Harness, Run], Awaitable[None]]
) -> None:
    async with going_on(tmp_path) as (harness, run, connection):
        await happens(harness, run)
        row = await harness.row("r")
        assert row.seq == run.seq + (happens in (ends, is_terminated))
        assert stored(connection) == (row.seq, row.updated_at)


async def test_a_turn_that_does_not_fit_is_refused(tmp_path):
    """Alone, too: at a place that is taken, behind a gap, and in a run that was taken away."""
    async with going_on(tmp_path) as (harness, run, _):
        for seq in (run.seq - 1, run.seq + 1):
            for events in ([answer("z#1")], [event("step.started", "z#1"), answer("z#1")]):
                assert await harness.commit(run._replace(seq=seq), *events) == "moved"
        stale = run._replace(epoch=run.epoch - 1)
        assert await harness.commit(stale, answer("z#1")) == "lost"
        assert (await harness.row("r")).seq == run.seq
        assert await harness.commit(run, answer("b#1")) == "applied"


async def test_a_suspect_that_goes_on_is_none_any_more(tmp_path):
    async with going_on(tmp_path) as (harness, run, connection):
        connection.execute("UPDATE runs SET strikes = 1 WHERE id = 'r'")
        assert await harness.commit(run, answer("b#1")) == "applied"
        row = await harness.row("r")
        assert (row.strikes, row.seq) == (0, run.seq + 1)


async def test_a_lone_turn_waits_for_a_program_that_writes_without_our_lock(tmp_path):
    async with going_on(tmp_path) as (harness, run, _):
        with closing(sqlite3.connect(tmp_path / "hf.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            reply = harness.store.write([decide(harness.turn(run, answer("b#1")))])
            other.execute("ROLLBACK")
        [outcome] = await reply
        assert outcome.applied


async def test_a_lone_turn_without_room_says_so_and_nothing_is_written(tmp_path):
    async with going_on(tmp_path) as (harness, run, connection):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        large = answer("b#1", payload=b"1" * 100_000)
        with pytest.raises(StoreFull):
            await harness.commit(run, large)
        assert (await harness.row("r")).seq == run.seq
        connection.execute(f"PRAGMA max_page_count = {pages + 100}")
        assert await harness.commit(run, large) == "applied"


async def test_a_lone_turn_that_breaks_off_is_not_guessed(tmp_path):
    async with going_on(tmp_path) as (harness, run, connection):
        connection.set_progress_handler(lambda: 1, 1)
        with pytest.raises(OutcomeUnknown):
            await harness.commit(run, answer("b#1"))
        connection.set_progress_handler(None, 1)
        assert (await harness.row("r")).seq == run.seq
        assert await harness.commit(run, answer("b#1")) == "applied"
