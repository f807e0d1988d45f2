"""Lines of managed queues: keys in turn, who joins, who leaves, who may no longer begin."""

from __future__ import annotations

from holdfast.errors import IllegalMove, RunClosed
from holdfast.model.commands import ExpireRun, ImportRun
from holdfast.model.events import Event
from holdfast.model.exports import document_of, export_of
from holdfast.model.limits import Place
from holdfast.model.run import Run
from holdfast.model.writes import Claimed, Free
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.forks import exported, fork
from holdfast.testing.conformance.harness import Harness, ids, refused
from holdfast.testing.conformance.limits import close, manage, pause, start, state, take, ticket


async def test_keys_take_turns_however_many_runs_one_has(harness: Harness) -> None:
    await manage(harness, concurrency=4)
    await start(harness, *(f"b{n}" for n in range(1, 7)))
    harness.clock.advance()
    await start(harness, "a1", "a2", "c1")
    assert await take(harness, 4) == ["a1", "b1", "c1", "a2"]
    for id in ("a1", "b1", "c1", "a2"):
        await close(harness, id)
    harness.clock.advance()
    await start(harness, "a3", "c2")
    assert await take(harness, 2) == ["b2", "c2"]
    assert await take(harness, 2, worker="B") == ["a3", "b3"]


async def test_a_full_key_is_passed_over(harness: Harness) -> None:
    await manage(harness, concurrency=9, key_concurrency=2)
    await start(harness, "a1", "a2", "a3", "b1", "c1", "c2", "c3")
    assert await take(harness) == ["a1", "b1", "c1", "a2", "c2"]
    assert await take(harness) == []


async def test_in_line_a_higher_priority_goes_first(harness: Harness) -> None:
    await manage(harness, concurrency=2)
    await start(harness, "a1", priority=4)
    harness.clock.advance()
    await start(harness, "a2", priority=2)
    await start(harness, "b1", priority=3)
    assert await take(harness) == ["a2", "b1"]


async def test_lines_and_other_queues_go_by_priority_and_age(harness: Harness) -> None:
    await manage(harness, concurrency=9)
    for id, queue, priority in (
        ("free1", "free", 3), ("line1", "q", 3), ("line2", "q", 2), ("free2", "other", 2),
    ):  # fmt: skip
        await harness.start(id, queue=queue, priority=priority)
        harness.clock.advance()
    assert await take(harness) == ["line2", "free2", "free1", "line1"]


async def test_only_served_lines_are_taken_from(harness: Harness) -> None:
    await manage(harness, "q", concurrency=2)
    await manage(harness, "p", concurrency=2)
    await start(harness, "a1", queue="q")
    await start(harness, "a2", queue="p")
    assert await take(harness, queues=("p",)) == ["a2"]
    assert await take(harness, queues=("nobody's",)) == []


async def test_a_workflow_that_the_worker_does_not_know_is_passed_over(harness: Harness) -> None:
    await manage(harness, concurrency=2)
    await start(harness, "a1", workflow="x")
    await start(harness, "a2", "b1")
    assert await take(harness) == ["a2", "b1"]
    await close(harness, "a2")
    assert await take(harness) == []
    assert await take(harness, workflows=("x/1",)) == ["a1"]


async def test_a_worker_holds_only_so_many(harness: Harness) -> None:
    await manage(harness, worker_concurrency=2)
    await start(harness, "a1", "a2", "a3", "a4", "a5")
    assert await take(harness) == ["a1", "a2"]
    assert await take(harness) == []
    assert await take(harness, worker="B") == ["a3", "a4"]
    await harness.park(await harness.row("a1"))
    assert await take(harness) == ["a5"]
    await harness.signal("s1", run="a1")
    assert await take(harness) == []
    await close(harness, "a5")
    assert await take(harness) == ["a1"]


async def test_a_delayed_run_joins_the_line_when_it_is_due(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    at = harness.store.now() + SECOND
    await start(harness, "a1", wake_at=at)
    assert (await ticket(harness, "a1")).state == "new"
    claimed = await harness.claim()
    assert (claimed.runs, claimed.next_wake_at) == ((), at)
    harness.clock.advance(SECOND)
    await start(harness, "b1")
    assert await take(harness) == ["a1"]
    assert await take(harness) == []


async def test_a_cancelled_run_leaves_the_line_at_once(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await start(harness, "a1", "a2")
    assert await take(harness) == ["a1"]
    await harness.cancel("a2")
    claimed = await harness.claim()
    assert (ids(claimed.runs), [*claimed.ticketed]) == (["a2"], ["a2"])
    assert ((await state(harness)).held, (await state(harness)).waiting) == (1, 0)
    assert (await ticket(harness, "a2")).state == "new"


async def test_a_delayed_run_that_is_cancelled_ends_at_once(harness: Harness) -> None:
    await harness.start("r", wake_at=harness.store.now() + SECOND)
    await harness.cancel("r")
    assert await take(harness) == ["r"]


async def test_a_run_past_its_deadline_leaves_the_line(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await start(harness, "a1")
    await start(harness, "a2", timeout=SECOND)
    assert await take(harness) == ["a1"]
    assert (await harness.claim()).next_wake_at == harness.store.now() + SECOND
    harness.clock.advance(SECOND)
    assert await take(harness) == ["a2"]
    assert (await state(harness)).held == 1


async def test_a_run_that_is_late_already_does_not_stand_in_line(harness: Harness) -> None:
    await pause(harness, True)
    await start(harness, "a1", timeout=0)
    await harness.start("b1", queue="q", place=Place("b", 0))
    claimed = await harness.claim()
    assert (ids(claimed.runs), [each.run for each in claimed.overdue]) == (["a1"], ["b1"])


async def test_a_run_that_leaves_the_line_to_end_is_taken_once(harness: Harness) -> None:
    await manage(harness, concurrency=5)
    await start(harness, "a1", timeout=0)
    await start(harness, "a2")
    await harness.cancel("a2")
    assert sorted(await take(harness)) == ["a1", "a2"]
    assert (await state(harness)).held == 0


async def test_a_run_that_may_begin_and_has_to_end_is_taken_once(harness: Harness) -> None:
    await manage(harness, concurrency=5)
    await start(harness, "a1", "a2", timeout=5 * SECOND)
    harness.clock.advance(6 * SECOND)
    assert sorted(await take(harness)) == ["a1", "a2"]


async def test_a_message_to_a_run_in_line_wakes_nobody(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await start(harness, "a1", "a2")
    assert await take(harness) == ["a1"]
    await harness.signal("s1", run="a2")
    assert await take(harness) == []
    await close(harness, "a1")
    [run] = (await harness.claim()).runs
    assert (run.id, run.has_mail) == ("a2", True)


async def test_a_message_does_not_cost_a_reopened_run_its_place(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await start(harness, "a1")
    [run] = (await harness.claim()).runs
    failed = Event("run.failed", 0, payload=b'{"type":"E","message":"m"}')
    await harness.commit(run, failed, status="failed", sends=(Free("default", "a1"),))
    await pause(harness, True)
    await harness.retry("a1")
    assert await take(harness) == []
    due_at = (await ticket(harness, "a1")).due_at
    harness.clock.advance()
    await start(harness, "a2")
    await harness.signal("s1", run="a1")
    assert await take(harness) == []
    assert (await ticket(harness, "a1")).due_at == due_at
    await pause(harness, False)
    assert await take(harness) == ["a1"]


async def expire(harness: Harness, claimed: Claimed) -> Run:
    """Do what a worker does with the one run that may no longer begin."""
    [found] = claimed.overdue
    run: Run = await harness.send(ExpireRun(found.ns, found.run, harness.store.now(), found.queue))
    return run


async def test_a_run_that_may_no_longer_begin_is_named(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await start(harness, "a1")
    await harness.start("b1", queue="q", place=Place("b", SECOND))
    assert await take(harness) == ["a1"]
    claimed = await harness.claim()
    assert (claimed.overdue, claimed.next_wake_at) == ((), harness.store.now() + SECOND)
    harness.clock.advance(SECOND)
    await close(harness, "a1")
    claimed = await harness.claim()
    assert claimed.runs == ()
    run = await expire(harness, claimed)
    assert (run.status, run.closed_at) == ("timed_out", harness.store.now())
    assert (await harness.claim()).overdue == ()
    assert (await ticket(harness, "b1")).state == "done"


async def test_a_run_that_began_in_time_does_not_expire(harness: Harness) -> None:
    await harness.start("a1", queue="q", place=Place("", SECOND))
    assert await take(harness) == ["a1"]
    harness.clock.advance(SECOND)
    assert (await harness.claim()).overdue == ()


async def test_a_run_that_begins_meanwhile_is_not_ended(harness: Harness) -> None:
    await harness.start("a1", queue="q", place=Place("", SECOND))
    at = harness.store.now()
    assert await take(harness) == ["a1"]
    with refused(IllegalMove):
        await harness.send(ExpireRun("default", "a1", at, "q"))
    await close(harness, "a1")
    with refused(RunClosed):
        await harness.send(ExpireRun("default", "a1", at, "q"))


async def test_a_run_that_is_cancelled_after_its_time_in_line_ends_as_cancelled(
    harness: Harness,
) -> None:
    await manage(harness, concurrency=1)
    await start(harness, "a1")
    await harness.start("b1", queue="q", place=Place("b", SECOND))
    assert await take(harness) == ["a1"]
    assert await take(harness) == []
    harness.clock.advance(2 * SECOND)
    await harness.cancel("b1")
    assert await take(harness) == ["b1"], "it needs no slot to end"


async def test_a_run_may_wait_so_long_from_when_it_is_due(harness: Harness) -> None:
    later = harness.store.now() + SECOND
    await harness.start("a1", queue="q", place=Place("", SECOND), wake_at=later)
    harness.clock.advance(2 * SECOND - 1)
    assert (await harness.claim(limit=0)).overdue == ()
    harness.clock.advance(1)
    assert [each.run for each in (await harness.claim(limit=0)).overdue] == ["a1"]


async def test_a_fork_takes_turns_as_its_origin_does(harness: Harness) -> None:
    await manage(harness, concurrency=9, key_concurrency=1)
    await start(harness, "a1")
    assert await take(harness) == ["a1"]
    await fork(harness, None, "a2", of="a1")
    await fork(harness, None, "a3", of="a1", input=b"[2]")
    assert await take(harness) == [], "one of the key holds a slot"
    assert {(await ticket(harness, id)).key for id in ("a2", "a3")} == {"a"}
    await close(harness, "a1")
    assert await take(harness) == ["a2"]
    assert (await exported(harness, "a2")).queue_key == "a"


async def test_a_run_from_a_file_takes_turns_as_it_did(harness: Harness) -> None:
    await start(harness, "a1", "a2")
    assert await take(harness) == ["a1", "a2"]
    await close(harness, "a1")
    for id in ("a1", "a2"):
        read = export_of(document_of(await exported(harness, id)))
        await harness.send(ImportRun("default", f"{id}-copy", read, harness.store.now()))
    await manage(harness, key_concurrency=1)
    closed, opened = [await ticket(harness, f"{id}-copy") for id in ("a1", "a2")]
    assert (closed.key, closed.state) == ("a", "done")
    assert (opened.key, opened.state) == ("a", "new")
    await harness.move("resume", "a2-copy")
    assert await take(harness) == [], "one of the key holds a slot"
    await close(harness, "a2")
    assert await take(harness) == ["a2-copy"]


async def test_a_queue_is_managed_once_a_run_with_a_key_is_brought_in(harness: Harness) -> None:
    await start(harness, "a1")
    export = (await exported(harness, "a1"))._replace(queue_key="b")
    elsewhere = export._replace(run=export.run._replace(queue="new"))
    await harness.send(ImportRun("default", "copy", elsewhere, harness.store.now()))
    assert (await state(harness, "new")).waiting == 0
    await harness.move("resume", "copy")
    assert "copy" in await take(harness)
