"""Turns that only go on: the row of the run lags, and nobody is told so; one statement is all."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from holdfast.errors import OutcomeUnknown, StoreFull
from holdfast.kernel.dispatch import decide
from holdfast.model.commands import RerunRun
from holdfast.model.events import Event
from holdfast.model.filters import parse
from holdfast.model.labels import Labels
from holdfast.model.run import Run
from holdfast.model.writes import Filter, Page, Reap
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
        run = await harness.held("r", labels=Labels(("old",)))
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
        tagged = parse("tag:old", harness.store.now())
        for wanted in (Filter(), Filter(ids=("r",)), Filter(terms=tagged)):
            assert await harness.store.find(wanted, Page(10)) == [row]


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
        assert (await harness.row("r")).seq == run.seq
        assert await harness.commit(run, answer("b#1")) == "applied"


@pytest.fixture(params=[1, 2, 3])
def turn(request: pytest.FixtureRequest) -> list[Event]:
    """Events of a turn: one or two are written by a statement of their own."""
    return [event("step.started", "z#1"), answer("z#1"), answer("y#1")][-request.param :]


async def test_a_turn_of_a_former_holder_is_refused(tmp_path, turn):
    async with going_on(tmp_path) as (harness, run, _):
        assert await harness.commit(run._replace(epoch=run.epoch - 1), *turn) == "lost"
        await harness.reap(known_dead=True)
        [taken] = (await harness.claim("B")).runs
        assert await harness.commit(run, *turn) == "lost"
        assert await harness.row("r") == taken


async def test_a_turn_of_a_run_that_nobody_holds_is_refused(tmp_path, turn):
    async with going_on(tmp_path) as (harness, run, _):
        parked = await harness.park(run)
        assert await harness.commit(run, *turn) == "lost"
        assert await harness.row("r") == parked


async def test_a_turn_that_does_not_take_the_cancel_it_may_know_of_is_refused(tmp_path, turn):
    async with going_on(tmp_path) as (harness, run, _):
        await harness.cancel()
        row = await harness.row("r")
        for known in (run, row):
            assert await harness.commit(known, *turn) == "cancel"
            assert await harness.commit(known, event("run.failed"), status="failed") == "cancel"
        assert await harness.row("r") == row


async def test_a_turn_is_told_of_what_came_meanwhile(tmp_path, turn):
    async with going_on(tmp_path) as (harness, run, _):
        await harness.signal("m1")
        [outcome] = await harness.store.write([decide(harness.turn(run, *turn))])
        assert (outcome.applied, outcome.inbox_seq) == (True, run.inbox_seq + 1)


async def test_a_suspect_that_goes_on_is_none_any_more(tmp_path, turn):
    async with going_on(tmp_path) as (harness, run, connection):
        connection.execute("UPDATE runs SET strikes = 1 WHERE id = 'r'")
        assert await harness.commit(run, *turn) == "applied"
        row = await harness.row("r")
        assert (row.strikes, row.seq) == (0, run.seq + len(turn))


async def test_who_takes_over_what_lags_knows_how_long_it_is(tmp_path):
    async with going_on(tmp_path) as (harness, run, _):
        dead = Reap("A", known_dead=True)
        [taken] = (await harness.claim("B", reaps=(dead,))).runs
        assert (taken.seq, taken.epoch) == (run.seq, run.epoch + 1)
        assert await harness.row("r") == taken


async def test_what_lags_can_be_rerun(tmp_path):
    """By who has read its history, and guards the move by that."""
    async with going_on(tmp_path) as (harness, run, _):
        row, events, *_ = await harness.load("r")
        back = RerunRun("default", "r", row.generation, events, harness.store.now(), None)
        moved = await harness.send(back)
        assert moved is not None
        assert (moved.seq, moved.status) == (run.seq + 1, "pending")


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
