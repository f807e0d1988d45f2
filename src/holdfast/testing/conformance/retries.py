"""Retries: what led to the failure stops counting, and nothing is destroyed."""

from __future__ import annotations

from holdfast.errors import IllegalMove, RunNotFound
from holdfast.model.commands import RetryRun
from holdfast.model.events import COMPENSATION, Failure
from holdfast.model.failures import encode_failure
from holdfast.model.run import Run
from holdfast.model.status import RUN_MOVES
from holdfast.testing.conformance.harness import Harness, answer, event, ids, refused

CAUSE = encode_failure(Failure("StepFailed", "no", cause=("charge#1",)))


async def failed(harness: Harness, id: str = "r") -> Run:
    """Make a run that failed because of `charge#1`, asked for after `look#1` was answered."""
    run = await harness.held(id)
    turn = (
        answer("look#1", asked_seq=1),  # 2
        event("step.retrying", "charge#1", asked_seq=2),  # 3
        answer("ship#1", asked_seq=2),  # 4: a sibling asked before the failure
        event("step.failed", "charge#1", asked_seq=2, payload=CAUSE),  # 5
        event("note.decided", "which", asked_seq=5),  # 6: said after the failure
        answer("refund#1", asked_seq=5),  # 7: asked after the failure
    )
    assert await harness.commit(run, *turn) == "applied"
    return await harness.end(await harness.row(id), "failed", CAUSE)


async def test_a_retry_reopens_a_failed_run(harness: Harness) -> None:
    before = await failed(harness)
    at = harness.clock.advance()
    after = await harness.retry("r")
    assert (after.status, after.wake_at, after.closed_at) == ("pending", at, None)
    assert (after.epoch, after.seq) == (before.epoch + 1, before.seq + 1)
    assert (after.generation, after.owner) == (2, None)
    assert await harness.row("r") == after
    assert ids((await harness.claim("B")).runs) == ["r"]


async def test_a_retry_supersedes_exactly_what_led_to_the_failure(harness: Harness) -> None:
    await failed(harness)
    await harness.retry("r")
    living = (await harness.load("r")).events
    assert [(each.seq, each.kind) for each in living] == [
        (1, "run.started"),
        (2, "step.completed"),
        (4, "step.completed"),
        (7, "step.completed"),
        (9, "run.reopened"),
    ]
    assert [each.key for each in living] == ["", "look#1", "ship#1", "refund#1", ""]
    reopened = living[-1]
    assert (reopened.generation, reopened.epoch) == (2, 2)
    assert all(each.superseded_by is None for each in living)


async def test_the_numbering_goes_on_after_a_retry(harness: Harness) -> None:
    await failed(harness)
    await harness.retry("r")
    [run] = (await harness.claim("B")).runs
    assert (run.seq, run.epoch, run.generation) == (9, 3, 2)
    assert await harness.commit(run, answer("charge#1", asked_seq=2)) == "applied"
    last = (await harness.load("r", after=9)).events
    assert [(each.seq, each.key, each.generation) for each in last] == [(10, "charge#1", 2)]


async def test_a_commit_supersedes_what_the_replay_did_not_ask_for(harness: Harness) -> None:
    await failed(harness)
    await harness.retry("r")
    [run] = (await harness.claim("B")).runs
    assert await harness.commit(run, supersedes=(7,), superseded_by=9) == "applied"
    assert [each.seq for each in (await harness.load("r")).events] == [1, 2, 4, 9]


async def test_a_refused_commit_supersedes_nothing(harness: Harness) -> None:
    await failed(harness)
    await harness.retry("r")
    [run] = (await harness.claim("B")).runs
    stale = run._replace(epoch=run.epoch - 1)
    assert await harness.commit(stale, supersedes=(7,), superseded_by=9) == "lost"
    assert [each.seq for each in (await harness.load("r")).events] == [1, 2, 4, 7, 9]


async def test_only_living_events_are_loaded_from_any_position(harness: Harness) -> None:
    await failed(harness)
    await harness.retry("r")
    for after, seqs in ((2, [4, 7, 9]), (3, [4, 7, 9]), (4, [7, 9]), (8, [9]), (9, [])):
        assert [each.seq for each in (await harness.load("r", after=after)).events] == seqs


async def test_a_run_can_fail_and_be_retried_again(harness: Harness) -> None:
    await failed(harness)
    for generation in (2, 3, 4):
        assert (await harness.retry("r")).generation == generation
        [run] = (await harness.claim("B")).runs
        failure = event("step.failed", "charge#1", asked_seq=2, payload=CAUSE)
        close = event("run.failed", payload=CAUSE)
        assert await harness.commit(run, failure, close, status="failed") == "applied"
    kinds = await harness.kinds("r")
    assert kinds.count("run.failed") == 1
    assert kinds.count("step.failed") == 1
    assert kinds.count("run.reopened") == 3


async def test_a_close_without_a_cause_is_all_that_goes(harness: Harness) -> None:
    for status in ("failed", "timed_out", "compensation_failed"):
        run = await harness.held(status)
        await harness.commit(run, answer("look#1", asked_seq=1))
        await harness.end(await harness.row(status), status, encode_failure(Failure("E", "m")))
        await harness.retry(status)
        assert await harness.kinds(status) == ["run.started", "step.completed", "run.reopened"]


async def test_a_run_that_could_not_undo_all_keeps_what_led_to_it(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.commit(run, event("step.failed", "ship#1", asked_seq=1, payload=CAUSE))
    await harness.end(await harness.row("r"), "compensation_failed", CAUSE)
    await harness.retry("r")
    loaded = await harness.load("r")
    kept = [(each.kind, each.key) for each in loaded.events[1:]]
    assert kept == [("step.failed", "ship#1"), ("run.reopened", COMPENSATION)]
    assert loaded.run.status == "pending"
    [run] = (await harness.claim("B")).runs
    assert run.generation == 2


async def test_blocked_and_quarantined_runs_simply_go_on(harness: Harness) -> None:
    for status in ("blocked", "quarantined"):
        before = await harness.in_status(status, id=status)
        after = await harness.retry(status)
        assert (after.status, after.generation, after.reason) == ("pending", 1, "")
        assert (after.epoch, after.seq) == (before.epoch + 1, before.seq + 1)
        assert (await harness.kinds(status))[-1] == "run.resumed"
        assert len((await harness.load(status)).events) == after.seq


async def test_nothing_else_is_retried(harness: Harness) -> None:
    allowed = {"failed", "timed_out", "compensation_failed", "blocked", "quarantined"}
    for status in RUN_MOVES:
        if status in allowed:
            continue
        before = await harness.in_status(status, id=status)
        with refused(IllegalMove):
            await harness.retry(status)
        assert await harness.row(status) == before


async def test_an_unknown_run_is_not_retried(harness: Harness) -> None:
    await failed(harness)
    loaded = await harness.load("r")
    with refused(RunNotFound):
        await harness.send(
            RetryRun("default", "nobody", "failed", loaded.events, harness.store.now())
        )


async def test_of_two_retries_at_once_one_is_refused(harness: Harness) -> None:
    await failed(harness)
    loaded = await harness.load("r")
    command = RetryRun("default", "r", "failed", loaded.events, harness.store.now())
    await harness.send(command)
    before = await harness.load("r")
    with refused(IllegalMove):
        await harness.send(command)
    assert await harness.load("r") == before


async def test_a_retry_decided_on_an_older_history_is_refused(harness: Harness) -> None:
    await failed(harness)
    stale = await harness.load("r")
    await harness.retry("r")
    [run] = (await harness.claim("B")).runs
    await harness.end(run, "failed", CAUSE)
    before = await harness.load("r")
    with refused(IllegalMove):
        await harness.send(RetryRun("default", "r", "failed", stale.events, harness.store.now()))
    assert await harness.load("r") == before


async def test_a_reopened_run_takes_signals_and_remembers_the_old(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.signal("s1")
    received = event("signal.received", "go/s1")
    await harness.commit(run, received, inbox_read=1)
    await harness.end(await harness.row("r"), "failed", CAUSE)
    await harness.retry("r")
    assert not await harness.signal("s1")
    assert await harness.signal("s2")
    loaded = await harness.load("r")
    assert [message.id for message in loaded.mail] == ["s2"]
    assert "signal.received" in [each.kind for each in loaded.events]
