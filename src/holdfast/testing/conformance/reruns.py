"""Reruns: a run goes back in its history, its messages go back into its inbox."""

from __future__ import annotations

from typing import Any

from holdfast.errors import IllegalMove, RunNotFound, UnknownKey
from holdfast.model.annotations import Annotations, Progress
from holdfast.model.commands import AnnotateRun, RerunRun
from holdfast.model.run import Run
from holdfast.model.status import RUN_MOVES, movable_to
from holdfast.testing.conformance.harness import Harness, answer, event, ids, refused


async def rerun(harness: Harness, key: str | None, run: str = "r", **fields: Any) -> Run | None:
    """Take a run back, as it stands now."""
    row, events, *_ = await harness.load(run)
    given: dict[str, Any] = {"deadline": row.deadline, **fields}
    command = RerunRun("default", run, row.generation, events, harness.store.now(), key, **given)
    found: Run | None = await harness.send(command)
    return found


async def done(harness: Harness) -> Run:
    """Make a completed run: `pay#1` and its sibling `look#1`, then `ship#1`."""
    run = await harness.held("r")
    turn = (
        answer("first#1", asked_seq=1),  # 2
        event("step.retrying", "pay#1", asked_seq=2),  # 3
        answer("pay#1", asked_seq=2),  # 4
        event("note.patched", "early", payload=b"{}", asked_seq=2),  # 5
        event("note.patched", "late", payload=b"{}", asked_seq=4),  # 6
        answer("look#1", asked_seq=2),  # 7: a sibling, asked for with pay#1
        answer("ship#1", asked_seq=4),  # 8
    )
    assert await harness.commit(run, *turn) == "applied"
    return await harness.end(await harness.row("r"))


async def test_a_rerun_reopens_a_completed_run(harness: Harness) -> None:
    before = await done(harness)
    at = harness.clock.advance()
    after = await rerun(harness, "pay#1")
    assert after is not None
    assert (after.status, after.wake_at, after.closed_at) == ("pending", at, None)
    assert (after.epoch, after.seq) == (before.epoch + 1, before.seq + 1)
    assert (after.generation, after.owner) == (2, None)
    assert await harness.row("r") == after
    assert ids((await harness.claim("B")).runs) == ["r"]


async def test_a_rerun_supersedes_exactly_what_was_asked_for_later(harness: Harness) -> None:
    await done(harness)
    await rerun(harness, "pay#1")
    living = (await harness.load("r")).events
    assert [each.key or each.kind for each in living] == [
        "run.started", "first#1", "early", "look#1", "run.reopened",
    ]  # fmt: skip
    export = await harness.store.export("default", "r")
    assert export is not None
    assert [each.seq for each in export.events] == [*range(1, 11)]
    gone = [each.seq for each in export.events if each.superseded_by == 10]
    assert gone == [3, 4, 6, 8, 9]


async def test_a_rerun_from_the_start_keeps_the_start(harness: Harness) -> None:
    await done(harness)
    await rerun(harness, None)
    assert await harness.kinds("r") == ["run.started", "run.reopened"]


async def test_a_rerun_takes_a_run_from_its_holder(harness: Harness) -> None:
    run = await harness.held("r")
    assert await harness.commit(run, answer("pay#1", asked_seq=1)) == "applied"
    held = await harness.row("r")
    reopened = await rerun(harness, "pay#1")
    assert reopened is not None
    assert (reopened.status, reopened.owner) == ("pending", None)
    assert await harness.commit(held, answer("ship#1", asked_seq=2)) == "lost"
    assert await harness.kinds("r") == ["run.started", "run.reopened"]


async def test_a_run_that_moved_on_is_not_taken_back(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.commit(run, answer("pay#1", asked_seq=1))
    row, events, *_ = await harness.load("r")
    stale = RerunRun("default", "r", 1, events, harness.store.now(), "pay#1")
    await harness.commit(row, answer("ship#1", asked_seq=2))
    assert await harness.send(stale) is None
    assert await harness.row("r") == row._replace(seq=3)


async def test_messages_after_the_cut_are_unread_again_in_their_order(harness: Harness) -> None:
    run = await harness.held("r")
    for name in ("m1", "m2", "m3", "m4"):
        await harness.signal(name)
    turn = (
        event("signal.received", "go/m1"),  # 2
        answer("pay#1", asked_seq=2),  # 3
        event("signal.received", "go/m2"),
        event("signal.received", "go/m3"),
    )
    row = await harness.row("r")
    assert await harness.commit(row, *turn, inbox_read=3) == "applied"
    await harness.move("pause")
    reopened = await rerun(harness, "pay#1")
    assert reopened is not None
    assert (reopened.inbox_seq, reopened.inbox_read) == (5, 1)
    mail = (await harness.load("r")).mail
    assert [(each.id, each.n) for each in mail] == [("m2", 2), ("m3", 3), ("m4", 4), ("p1", 5)]
    assert not await harness.signal("m2"), "it is the same message still"
    assert run.inbox_seq == 0


async def test_what_is_read_between_two_messages_stays_read(harness: Harness) -> None:
    await harness.held("r")
    await harness.signal("m1")
    await harness.move("pause")
    await harness.signal("m2")
    row = await harness.row("r")
    turn = (
        event("signal.received", "go/m1"),
        event("run.paused", "p1"),
        event("signal.received", "go/m2"),
    )
    assert await harness.commit(row, *turn, inbox_read=3) == "applied"
    await rerun(harness, None)
    assert [each.id for each in (await harness.load("r")).mail] == ["m1", "m2"]
    await rerun(harness, None)
    assert [each.id for each in (await harness.load("r")).mail] == ["m1", "m2"]


async def test_a_cancel_after_the_cut_is_forgotten(harness: Harness) -> None:
    await harness.held("r")
    await harness.commit(await harness.row("r"), answer("pay#1", asked_seq=1))
    await harness.cancel("r", "c1")
    row = await harness.row("r")
    taken = event("cancel.requested", "c1")
    assert await harness.commit(row, taken, inbox_read=1) == "applied"
    reopened = await rerun(harness, "pay#1")
    assert reopened is not None
    assert (reopened.cancel, reopened.has_mail) == (0, False)
    assert await harness.cancel("r", "c2"), "it can be cancelled anew"


async def test_a_cancel_before_the_cut_stays(harness: Harness) -> None:
    await harness.held("r")
    await harness.cancel("r", "c1")
    row = await harness.row("r")
    turn = (event("cancel.requested", "c1"), answer("tidy#1", asked_seq=2))
    assert await harness.commit(row, *turn, inbox_read=1) == "applied"
    reopened = await rerun(harness, "tidy#1")
    assert reopened is not None
    assert reopened.cancel == 2
    assert await harness.kinds("r") == ["run.started", "cancel.requested", "run.reopened"]


async def test_a_cancel_nobody_has_read_still_counts(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.commit(run, answer("pay#1", asked_seq=1))
    await harness.cancel("r", "c1")
    reopened = await rerun(harness, "pay#1")
    assert reopened is not None
    assert (reopened.cancel, reopened.has_mail) == (1, True)


async def test_heartbeats_are_forgotten(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.commit(run, answer("pay#1", asked_seq=1))
    beat = Progress("load#1", 1, 1, harness.store.now(), b"50", run.epoch)
    await harness.send(AnnotateRun("default", "r", "A", run.epoch, Annotations(progress=(beat,))))
    await rerun(harness, "pay#1")
    assert (await harness.load("r")).progress == ()


async def test_a_rerun_has_as_long_again(harness: Harness) -> None:
    start = harness.store.now()
    await harness.held("r", timeout=1_000)
    await harness.end(await harness.row("r"))
    at = harness.clock.advance()
    reopened = await rerun(harness, None)
    assert at > start
    assert reopened is not None
    assert reopened.deadline == at + 1_000


async def test_a_rerun_works_from_every_status_but_moved(harness: Harness) -> None:
    for status in RUN_MOVES:
        await harness.in_status(status, status)
        if status in movable_to("pending"):
            reopened = await rerun(harness, None, status)
            assert reopened is not None
            assert (reopened.status, reopened.generation) == ("pending", 2)
        else:
            with refused(IllegalMove):
                await rerun(harness, None, status)


async def test_a_rerun_of_nothing_is_refused(harness: Harness) -> None:
    await done(harness)
    with refused(UnknownKey):
        await rerun(harness, "pay#2")
    assert (await harness.row("r")).generation == 1
    gone = RerunRun("default", "nobody", 1, (), harness.store.now())
    with refused(RunNotFound):
        await harness.send(gone)
