"""Commits: one fenced write a turn. Its guard is checked in the statement that writes."""

from __future__ import annotations

from holdfast.kernel.dispatch import decide
from holdfast.model.annotations import Annotations, LogFilter, LogLine
from holdfast.model.commands import AnnotateRun, PruneRuns
from holdfast.model.events import Event
from holdfast.model.status import RUN_MOVES
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.harness import Harness, answer, event, ids

SAID = Annotations((LogLine(1, 20, "shop", "hello"),))


async def test_a_turn_is_appended_and_numbered(harness: Harness) -> None:
    run = await harness.held("r")
    at = harness.clock.advance()
    assert await harness.commit(run, answer("a#1"), answer("b#1")) == "applied"
    loaded = await harness.load("r")
    assert [(each.seq, each.key, each.at) for each in loaded.events[1:]] == [
        (2, "a#1", at),
        (3, "b#1", at),
    ]
    assert loaded.run == run._replace(seq=3, updated_at=at)


async def test_every_field_of_an_event_comes_back(harness: Harness) -> None:
    run = await harness.held("r")
    given = Event(
        "step.failed", harness.store.now(), "ship[3]/pack#1", b"\x00\xff", asked_seq=1,
        digest=bytes(range(16)), took=1_234_567, seq=2, epoch=run.epoch, generation=1, codec=3,
    )  # fmt: skip
    bare = Event("note.annotated", given.at, seq=3, epoch=run.epoch)
    turn = harness.turn(run, given, bare)._replace(events=(given, bare))
    assert await harness.send(turn) == "applied"
    assert (await harness.load("r")).events[1:] == (given, bare)


async def test_a_turn_of_another_epoch_is_refused(harness: Harness) -> None:
    run = await harness.held("r")
    before = await harness.load("r")
    for epoch in (run.epoch - 1, run.epoch + 1):
        assert await harness.commit(run._replace(epoch=epoch), answer()) == "lost"
    assert await harness.load("r") == before


async def test_the_former_holder_is_refused(harness: Harness) -> None:
    former = await harness.held("r", worker="A")
    await harness.reap("A", known_dead=True)
    assert await harness.commit(former, answer()) == "lost"
    [present] = (await harness.claim("B")).runs
    assert present.epoch == former.epoch + 1
    before = await harness.load("r")
    assert await harness.commit(former, answer()) == "lost"
    assert await harness.commit(former, event("run.failed"), status="failed") == "lost"
    assert await harness.commit(former, status="waiting", inbox_seq=0) == "lost"
    assert await harness.load("r") == before
    assert await harness.commit(present, answer()) == "applied"


async def test_the_holder_of_a_forgotten_run_is_refused_by_the_next_of_its_id(
    harness: Harness,
) -> None:
    former = await harness.held("r", worker="A")
    await harness.move("terminate", "r")
    assert await harness.send(PruneRuns("default", harness.clock.advance() + 1)) == 1
    present, other = await harness.held("r", worker="B"), await harness.held("o", worker="A")
    assert (present.epoch, present.seq) == (former.epoch, former.seq), "epochs begin anew"
    before, keys = await harness.load("r"), [answer(f"late#{n}") for n in (1, 2, 3)]
    for late in (
        harness.turn(former, *keys[:1]),
        harness.turn(former, *keys[:2]),
        harness.turn(former, *keys),
        harness.turn(former, *keys[:1], annotations=SAID),
        harness.turn(former, event("run.failed"), status="failed"),
        harness.turn(former, status="waiting", inbox_seq=0),
    ):
        assert await harness.send(late) == "lost"
    group = [harness.turn(other, answer()), harness.turn(former, *keys[:1])]
    assert await harness.send_all(group) == ["applied", "lost"]
    assert not await harness.send(AnnotateRun("default", "r", "A", former.epoch, SAID))
    assert await harness.load("r") == before
    assert await harness.store.logs(LogFilter("default", "r")) == []
    assert await harness.commit(present, answer()) == "applied"


async def test_a_turn_on_another_history_is_refused(harness: Harness) -> None:
    run = await harness.held("r")
    assert await harness.commit(run, answer("a#1")) == "applied"
    before = await harness.load("r")
    assert await harness.commit(run, answer("b#1")) == "moved"
    assert await harness.commit(run._replace(seq=5), answer("b#1")) == "moved"
    assert await harness.commit(run, status="waiting", inbox_seq=0) == "moved"
    assert await harness.load("r") == before


async def test_only_a_running_run_takes_a_turn(harness: Harness) -> None:
    for status in RUN_MOVES:
        if status == "running":
            continue
        there = await harness.in_status(status, id=status)
        assert await harness.commit(there, answer()) == "lost"
        assert await harness.commit(there, event("run.completed"), status="completed") == "lost"
        assert await harness.row(status) == there


async def test_a_turn_of_an_unknown_run_is_refused(harness: Harness) -> None:
    run = await harness.held("r")
    assert await harness.commit(run._replace(id="nobody"), answer()) == "lost"
    assert await harness.store.load("default", "nobody") is None


async def test_a_run_parks_for_a_message(harness: Harness) -> None:
    parked = await harness.park(await harness.held("r"))
    assert (parked.status, parked.owner, parked.wake_at) == ("waiting", None, None)
    assert parked.reason == "waits"


async def test_a_run_parks_for_a_timer(harness: Harness) -> None:
    due = harness.store.now() + 3 * SECOND
    assert (await harness.park(await harness.held("r"), wake_at=due)).wake_at == due
    seen = await harness.claim("B")
    assert (seen.runs, seen.next_wake_at) == ((), due)
    harness.clock.advance(3 * SECOND)
    assert ids((await harness.claim("B")).runs) == ["r"]


async def test_parking_is_refused_when_a_message_came(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.signal("s1")
    before = await harness.load("r")
    assert await harness.commit(run, status="waiting", inbox_seq=0) == "mail"
    assert await harness.commit(run, answer(), status="waiting", inbox_seq=0) == "mail"
    assert await harness.load("r") == before
    received = event("signal.received", "go/s1")
    parked = await harness.commit(run, received, status="waiting", inbox_read=1, inbox_seq=1)
    assert parked == "applied"


async def test_a_turn_may_ask_for_an_unchanged_inbox_and_stay(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.signal("s1")
    assert await harness.commit(run, answer(), inbox_seq=0) == "mail"
    assert await harness.commit(run, answer(), inbox_seq=1) == "applied"


async def test_a_turn_tells_what_others_changed(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.signal("s1")
    await harness.signal("s2")
    turn = decide(harness.turn(run, answer()))
    [outcome] = await harness.store.write([turn])
    assert (outcome.applied, outcome.inbox_seq, outcome.cancel) == (True, 2, 0)


async def test_a_timer_does_not_fire_before_it_is_due(harness: Harness) -> None:
    run = await harness.held("r")
    due = harness.store.now() + SECOND
    fired = event("timer.fired", "sleep#1")
    assert await harness.commit(run, fired, due=due) == "early"
    harness.clock.advance(SECOND - 1)
    assert await harness.commit(run, fired, due=due) == "early"
    assert await harness.kinds("r") == ["run.started"]
    harness.clock.advance(1)
    assert await harness.commit(run, fired, due=due) == "applied"


async def test_a_stamp_in_the_future_does_not_fire_a_timer(harness: Harness) -> None:
    run = await harness.held("r")
    due = harness.store.now() + SECOND
    early = await harness.commit(run, event("timer.fired", "sleep#1"), due=due, at=due + SECOND)
    assert early == "early"


async def test_closing_lets_go_of_the_run(harness: Harness) -> None:
    run = await harness.held("r")
    at = harness.clock.advance()
    closed = await harness.end(run, "completed")
    assert (closed.status, closed.owner, closed.wake_at) == ("completed", None, None)
    assert (closed.closed_at, closed.updated_at, closed.seq) == (at, at, 2)
    assert (await harness.claim("B")).runs == ()


async def test_blocking_keeps_the_reason(harness: Harness) -> None:
    run = await harness.held("r")
    mark = event("run.blocked", payload=b"{}")
    assert await harness.commit(run, mark, status="blocked", reason="mismatch") == "applied"
    blocked = await harness.row("r")
    assert (blocked.status, blocked.reason, blocked.owner) == ("blocked", "mismatch", None)
    assert blocked.closed_at is None


async def test_a_held_run_has_no_wake_up_time_and_no_reason(harness: Harness) -> None:
    run = await harness.held("r")
    due = harness.store.now() + SECOND
    retrying = event("step.retrying", "a#1")
    assert await harness.commit(run, retrying, wake_at=due, reason="retrying") == "applied"
    kept = await harness.row("r")
    assert (kept.status, kept.owner, kept.wake_at, kept.reason) == ("running", "A", None, "")


async def test_giving_a_run_back_makes_it_claimable_without_a_strike(harness: Harness) -> None:
    run = await harness.held("r", worker="A")
    now = harness.store.now()
    assert await harness.commit(run, status="waiting", wake_at=now) == "applied"
    [again] = (await harness.claim("B")).runs
    assert (again.strikes, again.epoch) == (0, run.epoch + 1)


async def test_progress_clears_the_strikes(harness: Harness) -> None:
    await harness.held("r", worker="A")
    await harness.reap("A", known_dead=True)
    [run] = (await harness.claim("B")).runs
    assert run.strikes == 1
    assert await harness.commit(run, wake_at=None) == "applied"
    assert (await harness.row("r")).strikes == 1
    assert await harness.commit(run, answer()) == "applied"
    assert (await harness.row("r")).strikes == 0
