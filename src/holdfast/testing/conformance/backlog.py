"""How many runs wait for workers, by workflow and queue."""

from __future__ import annotations

from typing import cast

from holdfast.model.backlog import Backlog
from holdfast.ports.inspection import InspectedStore
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.harness import Harness, needs
from holdfast.testing.conformance.limits import close, manage, start, take


async def backlog(harness: Harness, ns: str = "default") -> list[Backlog]:
    """Return what waits."""
    return await cast("InspectedStore", harness.store).backlog(ns)


@needs("counts")
async def test_runs_that_wait_for_a_worker_are_counted_by_workflow_and_queue(
    harness: Harness,
) -> None:
    assert await backlog(harness) == []
    first = await harness.start("a1", queue="a")
    harness.clock.advance()
    await harness.start("a2", queue="a", priority=1)
    other = await harness.start("b1", queue="b", workflow="other")
    assert await backlog(harness) == [
        Backlog("other", "b", 1, 0, other.created_at),
        Backlog("w", "a", 2, 0, first.created_at),
    ]
    assert await backlog(harness, ns="elsewhere") == []


@needs("counts")
async def test_runs_in_hand_closed_or_waiting_for_a_message_are_not_counted(
    harness: Harness,
) -> None:
    await harness.held("held")
    await harness.closed("closed")
    await harness.park(await harness.held("parked"))
    await harness.in_status("paused", "paused")
    assert await backlog(harness) == []


@needs("counts")
async def test_runs_that_wait_for_a_time_are_counted_apart_until_it_comes(
    harness: Harness,
) -> None:
    wake_at = harness.clock() + 5 * SECOND
    await harness.park(await harness.held(queue="q"), wake_at)
    assert await backlog(harness) == [Backlog("w", "q", 0, 1, 0)]
    harness.clock.advance(5 * SECOND)
    assert await backlog(harness) == [Backlog("w", "q", 1, 0, wake_at)]


@needs("counts")
async def test_runs_that_wait_for_a_slot_are_counted_apart_until_they_may_begin_or_are_overdue(
    harness: Harness,
) -> None:
    await manage(harness, concurrency=1)
    deadline = harness.clock() + 9 * SECOND
    await start(harness, "a1", "a2", "a3", timeout=9 * SECOND)
    assert await backlog(harness) == [Backlog("w", "q", 0, 0, 0, 3)]
    assert await take(harness) == ["a1"]
    assert await backlog(harness) == [Backlog("w", "q", 0, 0, 0, 2)]
    await close(harness, "a1")
    assert await take(harness) == ["a2"]
    await harness.park(await harness.row("a2"), deadline + SECOND)
    assert await backlog(harness) == [Backlog("w", "q", 0, 1, 0, 1)]
    harness.clock.advance(9 * SECOND)
    assert await backlog(harness) == [Backlog("w", "q", 1, 1, deadline, 0)]
