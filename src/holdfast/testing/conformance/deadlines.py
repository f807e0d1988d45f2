"""Deadlines: a run that must have ended by then is claimed then, wherever it waits."""

from __future__ import annotations

from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.continuations import go_on
from holdfast.testing.conformance.forks import fork
from holdfast.testing.conformance.harness import Harness, event, ids

TIMEOUT = 10 * SECOND


async def test_a_deadline_counts_from_the_start(harness: Harness) -> None:
    run = await harness.start("r", timeout=TIMEOUT)
    assert run.deadline == run.created_at + TIMEOUT
    assert await harness.row("r") == run
    assert (await harness.start("other")).deadline is None


async def test_a_repeated_start_does_not_move_the_deadline(harness: Harness) -> None:
    first = await harness.start("r", timeout=TIMEOUT)
    harness.clock.advance()
    again = await harness.start("r", timeout=2 * TIMEOUT)
    assert again.deadline == first.deadline


async def test_a_delayed_start_is_claimed_at_its_deadline(harness: Harness) -> None:
    later = harness.store.now() + 5 * TIMEOUT
    await harness.start("r", timeout=TIMEOUT, wake_at=later)
    await expect_at_deadline(harness)


async def test_a_paused_run_is_claimed_at_its_deadline(harness: Harness) -> None:
    run = await harness.held("r", timeout=TIMEOUT)
    mark = event("run.paused")
    assert await harness.commit(run, mark, status="paused", wake_at=run.deadline) == "applied"
    await expect_at_deadline(harness)


async def test_a_blocked_run_is_claimed_at_its_deadline(harness: Harness) -> None:
    run = await harness.held("r", timeout=TIMEOUT)
    mark = event("run.blocked")
    assert await harness.commit(run, mark, status="blocked", wake_at=run.deadline) == "applied"
    await expect_at_deadline(harness)


async def expect_at_deadline(harness: Harness) -> None:
    """Hold that "r" can be claimed at its deadline, not before, and that a claim says when."""
    found = await harness.claim("B")
    assert (found.runs, found.next_wake_at) == ((), harness.store.now() + TIMEOUT)
    harness.clock.advance(TIMEOUT - 1)
    assert (await harness.claim("B")).runs == ()
    harness.clock.advance(1)
    [run] = (await harness.claim("B")).runs
    assert (run.id, run.status, run.wake_at) == ("r", "running", None)


async def test_the_deadline_passes_by_the_clock_of_the_store(harness: Harness) -> None:
    run = await harness.held("r", timeout=TIMEOUT)
    assert run.deadline is not None
    passed = event("deadline.passed", payload=b'{"due": 0}')
    before = await harness.load("r")
    assert await harness.commit(run, passed, due=run.deadline) == "early"
    assert await harness.load("r") == before
    harness.clock.advance(TIMEOUT)
    assert await harness.commit(run, passed, due=run.deadline) == "applied"


async def test_moves_leave_the_deadline_alone(harness: Harness) -> None:
    run = await harness.held("r", timeout=TIMEOUT)
    assert await harness.commit(run, event("run.paused"), status="paused") == "applied"
    assert (await harness.move("resume")).deadline == run.deadline
    assert (await harness.move("quarantine")).deadline == run.deadline
    assert (await harness.retry("r")).deadline == run.deadline


async def test_a_retry_of_a_timed_out_run_gives_it_as_long_again(harness: Harness) -> None:
    run = await harness.held("r", timeout=TIMEOUT)
    for _ in range(2):
        harness.clock.advance(TIMEOUT)
        closing = event("run.timed_out", payload=b'{"type":"E","message":"m"}')
        passed = event("deadline.passed")
        ended = await harness.commit(run, passed, closing, status="timed_out", due=run.deadline)
        assert ended == "applied"
        harness.clock.advance()
        reopened = await harness.retry("r")
        assert reopened.deadline == harness.store.now() + TIMEOUT
        assert "deadline.passed" not in await harness.kinds("r")
        [run] = (await harness.claim("A")).runs


async def test_a_run_that_continued_has_as_long_again_as_from_its_start(harness: Harness) -> None:
    run = await harness.held("r", timeout=TIMEOUT)
    harness.clock.advance(TIMEOUT - SECOND)
    assert await go_on(harness, run) == "applied"
    run = await harness.row("r")
    assert run.deadline == run.created_at + TIMEOUT, "it stays"
    harness.clock.advance(SECOND)
    closing = event("run.timed_out", payload=b'{"type":"E","message":"m"}')
    passed = event("deadline.passed")
    ended = await harness.commit(run, passed, closing, status="timed_out", due=run.deadline)
    assert ended == "applied"
    forked = await fork(harness, 2)
    assert forked.deadline == harness.store.now() + TIMEOUT
    assert (await harness.retry("r")).deadline == harness.store.now() + TIMEOUT


async def test_a_run_without_a_deadline_stays_paused(harness: Harness) -> None:
    await harness.in_status("paused")
    harness.clock.advance(100 * TIMEOUT)
    assert ids((await harness.claim("B")).runs) == []
