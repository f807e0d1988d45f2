"""Queues and priorities: only served queues are taken from, and in which order."""

from __future__ import annotations

import asyncio

from holdfast.model.queues import DEFAULT_PRIORITY, DEFAULT_QUEUE, NEGLECTED, PRIORITIES
from holdfast.model.run import Run
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.claims import suspect
from holdfast.testing.conformance.harness import LEASE, Harness, answer, ids, needs


def place(run: Run) -> tuple[str, int]:
    """Return where a run waits."""
    return run.queue, run.priority


async def test_a_run_is_on_the_usual_queue_unless_it_says_otherwise(harness: Harness) -> None:
    assert place(await harness.start("usual")) == (DEFAULT_QUEUE, DEFAULT_PRIORITY)
    assert place(await harness.start("other", queue="gpu", priority=1)) == ("gpu", 1)
    for id in ("usual", "other"):
        assert await harness.row(id) == await harness.start(id)


async def test_a_second_start_finds_the_run_where_it_was_put_first(harness: Harness) -> None:
    first = await harness.start("r", queue="gpu", priority=2)
    assert await harness.start("r", queue="cpu", priority=5) == first


async def test_only_served_queues_are_taken_from(harness: Harness) -> None:
    for queue in ("a", "b", "c"):
        await harness.start(f"on {queue}", queue=queue)
    assert ids((await harness.claim(queues=("b",))).runs) == ["on b"]
    assert ids((await harness.claim(queues=("nobody's",))).runs) == []
    assert ids((await harness.claim(queues=("c", "a"))).runs) == ["on a", "on c"]


async def test_who_names_no_queue_serves_all(harness: Harness) -> None:
    for queue in ("", "a", "b", DEFAULT_QUEUE, "ü", "😀"):
        await harness.start(f"on {queue}", queue=queue)
    taken = (await harness.claim(queues=None)).runs
    assert {run.queue for run in taken} == {"", "a", "b", DEFAULT_QUEUE, "ü", "😀"}


async def test_a_higher_priority_goes_first_however_late_it_came(harness: Harness) -> None:
    for priority in reversed(PRIORITIES):
        await harness.start(f"p{priority}", priority=priority)
        harness.clock.advance()
    assert ids((await harness.claim(limit=2)).runs) == ["p1", "p2"]
    assert ids((await harness.claim()).runs) == ["p3", "p4", "p5"]


async def test_priority_counts_before_the_order_of_queues(harness: Harness) -> None:
    await harness.start("slow a", queue="a", priority=4)
    harness.clock.advance()
    await harness.start("quick b", queue="b", priority=2)
    assert ids((await harness.claim(queues=("a", "b"))).runs) == ["quick b", "slow a"]


async def test_of_equal_runs_that_goes_first_which_was_due_first(harness: Harness) -> None:
    now = harness.store.now()
    for id, wait in (("c", 1), ("b", 3), ("a", 3), ("d", 2)):
        await harness.start(id, wake_at=now + wait, queue="q", priority=2)
    harness.clock.advance()
    assert ids((await harness.claim(queues=("q",))).runs) == ["c", "d", "a", "b"]


async def test_of_equal_queues_that_goes_first_whose_first_run_waited_longest(
    harness: Harness,
) -> None:
    now = harness.store.now()
    for id, queue, wait in (("b1", "b", 1), ("a2", "a", 2), ("b3", "b", 3), ("a4", "a", 4)):
        await harness.start(id, queue=queue, wake_at=now + wait)
    harness.clock.advance()
    for expected in ("b1", "a2", "b3", "a4"):
        assert ids((await harness.claim(queues=("a", "b"), limit=1)).runs) == [expected]


async def test_a_limit_is_filled_from_the_next_queue(harness: Harness) -> None:
    now = harness.store.now()
    for id, queue, wait in (("a1", "a", 1), ("b2", "b", 2), ("a3", "a", 3), ("b4", "b", 4)):
        await harness.start(id, queue=queue, wake_at=now + wait)
    harness.clock.advance()
    assert ids((await harness.claim(limit=3)).runs) == ["a1", "a3", "b2"]
    assert ids((await harness.claim(limit=3)).runs) == ["b4"]


async def test_a_run_that_wakes_keeps_its_queue_and_its_priority(harness: Harness) -> None:
    later = harness.store.now() + SECOND
    await harness.park(await harness.held("timer", queue="a", priority=1), wake_at=later)
    await harness.park(await harness.held("signal", queue="a", priority=2))
    await harness.start("new", queue="a", priority=3)
    harness.clock.advance()
    await harness.signal("s1", run="signal")
    assert (await harness.claim("B", queues=("b",))).runs == ()
    taken = (await harness.claim("B", queues=("a",))).runs
    assert [(run.id, *place(run)) for run in taken] == [
        ("timer", "a", 1), ("signal", "a", 2), ("new", "a", 3),
    ]  # fmt: skip


async def test_a_reaped_run_returns_to_its_queue_with_its_priority(harness: Harness) -> None:
    await harness.held("r", worker="A", queue="a", priority=1)
    await harness.start("older", queue="a")
    harness.clock.advance(LEASE)
    assert await harness.reap("A") == 1
    assert (await harness.claim("B", queues=("b",))).runs == ()
    taken = (await harness.claim("B", queues=("a",))).runs
    assert [(run.id, *place(run)) for run in taken] == [("r", "a", 1), ("older", "a", 3)]


async def test_moves_and_turns_leave_queue_and_priority_alone(harness: Harness) -> None:
    run = await harness.held("r", queue="a", priority=5)
    assert await harness.commit(run, answer()) == "applied"
    await harness.end(await harness.row("r"), "failed", b'{"type":"E","message":"m"}')
    assert place(await harness.retry("r")) == ("a", 5)
    assert place(await harness.move("quarantine", "r")) == ("a", 5)
    await harness.cancel("r")
    [taken] = (await harness.claim("B", queues=("a",))).runs
    assert place(taken) == ("a", 5)


async def test_the_next_wake_up_is_that_of_a_served_queue(harness: Harness) -> None:
    now = harness.store.now()
    await harness.start("first", queue="a", wake_at=now + 1)
    await harness.start("second", queue="b", wake_at=now + 2, priority=5)
    await harness.start("third", queue="b", wake_at=now + 3, priority=1)
    assert (await harness.claim(queues=("b",))).next_wake_at == now + 2
    assert (await harness.claim(queues=("c",))).next_wake_at is None
    assert (await harness.claim()).next_wake_at == now + 1


async def test_unknown_workflows_are_told_of_served_queues_only(harness: Harness) -> None:
    await harness.start("mine", queue="a", workflow="x", priority=5)
    await harness.start("theirs", queue="b", workflow="y")
    assert (await harness.claim(queues=("a",))).unregistered == ("x/1",)
    assert (await harness.claim()).unregistered == ("x/1", "y/1")


async def test_a_queue_that_is_not_served_is_told_once_its_runs_wait_long(harness: Harness) -> None:
    await harness.start("mine", queue="a", workflow="x")
    await harness.start("theirs", queue="b", priority=5)
    await harness.start("later", queue="c", wake_at=harness.store.now() + 2 * NEGLECTED)
    harness.clock.advance(NEGLECTED - 1)
    assert (await harness.claim(queues=("a",))).unserved == ()
    harness.clock.advance(1)
    assert (await harness.claim(queues=("a",))).unserved == ("b",)
    assert (await harness.claim(queues=("nobody's",))).unserved == ("a", "b")
    assert (await harness.claim(limit=0)).unserved == ()


async def test_suspects_stand_in_the_same_order(harness: Harness) -> None:
    for id in ("s1", "s2"):
        await suspect(harness, id)
    harness.clock.advance()
    await harness.start("late", priority=1)
    await harness.start("last", priority=5)
    claimed = await harness.claim(limit=3, suspects=1)
    assert ids(claimed.runs) == ["late", "s1", "last"]


async def test_suspects_of_other_queues_are_left_alone(harness: Harness) -> None:
    await suspect(harness, "s1")
    claimed = await harness.claim("B", queues=("a",), strikes=2)
    assert (claimed.runs, claimed.convicts) == ((), ())
    claimed = await harness.claim("B", queues=(DEFAULT_QUEUE,), strikes=2)
    assert (claimed.runs, ids(claimed.convicts)) == ((), ["s1"])


async def test_convicts_are_named_up_to_the_last_that_is_taken(harness: Harness) -> None:
    await suspect(harness, "s1")
    await harness.start("first", priority=1)
    claimed = await harness.claim("B", limit=1, strikes=2)
    assert (ids(claimed.runs), ids(claimed.convicts)) == (["first"], [])
    await harness.start("last", priority=5)
    claimed = await harness.claim("B", limit=1, strikes=2)
    assert (ids(claimed.runs), ids(claimed.convicts)) == (["last"], ["s1"])


async def test_claims_of_many_queues_at_the_same_time_never_share_a_run(harness: Harness) -> None:
    for n in range(40):
        await harness.start(f"r{n:02}", queue="ab"[n % 2], priority=1 + n % 5)
    served = (("a",), ("b",), ("a", "b"), None)
    asked = [harness.claim(f"W{n}", limit=5, queues=served[n % 4]) for n in range(16)]
    claims = await asyncio.gather(*asked)
    for n, claimed in enumerate(claims):
        assert all(run.queue in (served[n % 4] or "ab") for run in claimed.runs)
    taken = [run.id for claimed in claims for run in claimed.runs]
    assert len(taken) == len(set(taken)) == 40


@needs("durable")
async def test_queue_and_priority_outlive_the_store(harness: Harness) -> None:
    await harness.start("r", queue="a", priority=1)
    await harness.reopen()
    assert place(await harness.row("r")) == ("a", 1)
    assert ids((await harness.claim(queues=("a",))).runs) == ["r"]
