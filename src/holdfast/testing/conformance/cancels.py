"""Cancels: a state of the run, which its next commit must take."""

from __future__ import annotations

from holdfast.errors import RunClosed
from holdfast.model.run import CANCEL_DELIVERED, CANCEL_REQUESTED
from holdfast.model.status import ASIDE, CLOSED
from holdfast.testing.conformance.harness import Harness, answer, event, ids, refused


async def test_a_cancel_marks_the_run_and_waits_in_the_inbox(harness: Harness) -> None:
    await harness.start("r")
    assert await harness.cancel("r", id="c1")
    loaded = await harness.load("r")
    assert loaded.run.cancel == CANCEL_REQUESTED
    assert [(message.kind, message.id) for message in loaded.mail] == [("cancel", "c1")]


async def test_a_second_cancel_changes_nothing(harness: Harness) -> None:
    await harness.start("r")
    await harness.cancel("r", id="c1")
    before = await harness.load("r")
    assert not await harness.cancel("r", id="c1")
    assert not await harness.cancel("r", id="c2")
    assert await harness.load("r") == before


async def test_two_cancels_in_one_batch_are_one(harness: Harness) -> None:
    await harness.start("r")
    both = [harness.cancelling("c1"), harness.cancelling("c2")]
    assert await harness.send_all(both) == [True, False]
    assert (await harness.row("r")).inbox_seq == 1


async def test_a_cancel_wakes_a_waiting_run(harness: Harness) -> None:
    await harness.park(await harness.held("r"))
    await harness.cancel("r")
    assert ids((await harness.claim("B")).runs) == ["r"]


async def test_nothing_is_recorded_before_the_cancel_is_taken(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.cancel("r")
    before = await harness.load("r")
    assert await harness.commit(run, answer()) == "cancel"
    assert await harness.commit(run, event("run.completed"), status="completed") == "cancel"
    assert await harness.commit(run, status="waiting", inbox_seq=1) == "cancel"
    assert await harness.load("r") == before


async def test_the_turn_that_takes_the_cancel_is_recorded(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.cancel("r")
    assert await harness.commit(run, event("cancel.requested"), inbox_read=1) == "applied"
    taken = await harness.row("r")
    assert (taken.cancel, taken.has_mail) == (CANCEL_DELIVERED, False)
    assert await harness.commit(taken, answer("clean_up#1")) == "applied"
    assert await harness.kinds("r") == ["run.started", "cancel.requested", "step.completed"]


async def test_a_cancel_after_the_first_was_taken_changes_nothing(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.cancel("r", id="c1")
    await harness.commit(run, event("cancel.requested"), inbox_read=1)
    before = await harness.load("r")
    assert not await harness.cancel("r", id="c2")
    assert await harness.load("r") == before


async def test_a_closed_run_refuses_a_cancel(harness: Harness) -> None:
    for status in CLOSED:
        before = await harness.in_status(status, id=status)
        with refused(RunClosed):
            await harness.cancel(status)
        assert await harness.row(status) == before


async def test_a_cancel_of_a_run_that_a_cancel_closed_is_a_repeat(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.cancel("r", id="c1")
    turn = (event("cancel.requested"), event("run.cancelled"))
    assert await harness.commit(run, *turn, status="cancelled", inbox_read=1) == "applied"
    assert not await harness.cancel("r", id="c2")


async def test_a_cancel_outlives_the_worker_that_did_not_take_it(harness: Harness) -> None:
    await harness.held("r", worker="A")
    await harness.cancel("r")
    await harness.reap("A", known_dead=True)
    [run] = (await harness.claim("B")).runs
    assert (run.cancel, run.has_mail) == (CANCEL_REQUESTED, True)
    assert await harness.commit(run, answer()) == "cancel"


async def test_a_cancel_puts_a_run_that_is_set_aside_back_into_the_queue(harness: Harness) -> None:
    for status in sorted(ASIDE):
        before = await harness.in_status(status, id=status)
        assert await harness.cancel(status)
        now = await harness.row(status)
        assert (now.status, now.wake_at, now.epoch) == (
            "waiting",
            harness.store.now(),
            before.epoch,
        )
    assert ids((await harness.claim("B")).runs) == sorted(ASIDE)


async def test_a_signal_leaves_a_run_that_is_set_aside_where_it_is(harness: Harness) -> None:
    for status in sorted(ASIDE):
        await harness.in_status(status, id=status)
        assert await harness.signal(f"s-{status}", status)
        assert (await harness.row(status)).status == status
    assert (await harness.claim("B")).runs == ()


async def test_a_cancel_gives_new_credit(harness: Harness) -> None:
    await harness.held("r", worker="A")
    await harness.reap("A", known_dead=True)
    await harness.cancel("r")
    assert (await harness.row("r")).strikes == 0
