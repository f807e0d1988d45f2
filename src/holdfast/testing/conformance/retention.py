"""Retention: closed runs are forgotten, oldest first, whole."""

from __future__ import annotations

from holdfast.model.commands import PruneRuns
from holdfast.model.status import OPEN
from holdfast.model.writes import Filter, Page
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.harness import Harness, answer, ids


async def prune(harness: Harness, before: int, limit: int = 100, ns: str = "default") -> int:
    """Forget runs; return how many."""
    return int(await harness.send(PruneRuns(ns, before, limit)))


async def left(harness: Harness) -> list[str]:
    """Return the ids of the runs that are still there, sorted."""
    return sorted(ids(await harness.store.find(Filter(), Page(1_000))))


async def test_old_closed_runs_are_forgotten(harness: Harness) -> None:
    await harness.closed("old")
    moment = harness.clock.advance()
    await harness.closed("new")
    assert await prune(harness, moment) == 1
    assert await left(harness) == ["new"]
    assert await harness.store.load("default", "old") is None
    assert await prune(harness, moment) == 0


async def test_what_closed_at_that_very_moment_stays(harness: Harness) -> None:
    closed = await harness.closed("r")
    assert closed.closed_at is not None
    assert await prune(harness, closed.closed_at) == 0
    assert await prune(harness, closed.closed_at + 1) == 1


async def test_open_runs_are_never_forgotten(harness: Harness) -> None:
    for status in OPEN:
        await harness.in_status(status, id=status)
    harness.clock.advance(SECOND)
    assert await prune(harness, harness.store.now()) == 0
    assert await left(harness) == sorted(OPEN)


async def test_the_oldest_go_first(harness: Harness) -> None:
    for id in ("c", "a", "b"):
        await harness.closed(id)
        harness.clock.advance()
    assert await prune(harness, harness.store.now(), limit=2) == 2
    assert await left(harness) == ["b"]


async def test_a_reopened_run_is_kept(harness: Harness) -> None:
    await harness.in_status("failed")
    moment = harness.clock.advance()
    await harness.retry("r")
    assert await prune(harness, moment) == 0


async def test_a_forgotten_run_leaves_nothing_to_the_next_of_its_id(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.signal("s1")
    await harness.commit(run, answer())
    await harness.end(await harness.row("r"))
    await prune(harness, harness.clock.advance())
    again = await harness.start("r", input=b"other")
    loaded = await harness.load("r")
    assert (loaded.run, loaded.mail) == (again, ())
    assert [each.payload for each in loaded.events] == [b"other"]
    assert await harness.signal("s1")


async def test_one_batch_per_interval_is_let_through(harness: Harness) -> None:
    for id in ("a", "b", "c"):
        await harness.closed(id)
    before = harness.clock.advance()
    batch = PruneRuns("default", before, limit=1, every=10 * SECOND)
    assert await harness.send(batch) == 1
    harness.clock.advance(9 * SECOND)
    assert await harness.send(batch) == 0
    assert await harness.send(batch._replace(ns="other")) == 0
    assert await harness.send(batch._replace(every=0)) == 1, "a person's own does not wait"
    harness.clock.advance(10 * SECOND)
    assert await harness.send(batch) == 1
    assert await left(harness) == []


async def test_a_look_that_forgets_nothing_does_not_hold_up_the_next(harness: Harness) -> None:
    batch = PruneRuns("default", harness.store.now() + SECOND, limit=10, every=10 * SECOND)
    assert await harness.send(batch) == 0
    await harness.closed("r")
    assert await harness.send(batch) == 1
