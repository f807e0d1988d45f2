"""Each planted fault is found, by the invariant it breaks; sound data is silent."""

import pytest

from holdfast.model.annotations import LogLine, Progress
from holdfast.model.dump import Dump, Journal, Sent, Started
from holdfast.model.events import Event
from holdfast.model.family import Link, message_id, start_noted
from holdfast.model.jobs import Job
from holdfast.model.run import Message, MessageState, Run
from holdfast.model.secrets import Sealed
from holdfast.model.waits import Wait
from holdfast.testing.invariants import Violation, check
from tests.model.rows import run

NOW = 1_000
KEY = ("default", "r")


def event(seq: int, kind="step.completed", key="", **fields) -> Event:
    return Event(kind, 10, key or f"k#{seq}", seq=seq, epoch=1)._replace(**fields)


FIRST = event(1, "run.started", "")._replace(key="")


def dump(row: Run | None = None, *events: Event, inbox=(), **fields) -> Dump:
    row = row or run()
    kept = events or (FIRST, event(2))
    return Dump(NOW, (row,), {KEY: kept}, {KEY: tuple(inbox)}, {"A": NOW + 1})._replace(**fields)


def signal(n: int, id: str = "") -> Message:
    return Message(id or f"s{n}", "signal", "go", b"null", 5, n)


def cancel(n: int) -> Message:
    return Message(f"c{n}", "cancel", "", b"{}", 5, n)


def update(state: MessageState = "") -> Message:
    return Message("u1", "update", "add", b"1", 5, 1, state)


def accepted(seq: int, **fields) -> Event:
    return event(seq, "update.accepted", "add/u1", **fields)


def ended(seq: int, **fields) -> Event:
    return event(seq, "update.completed", "add/u1", **fields)


def reopened(seq: int) -> Event:
    return event(seq, "run.reopened", generation=2)


def received(seq: int, n: int) -> Event:
    return event(seq, "signal.received", f"go/s{n}")


def closed(**fields) -> Run:
    return run(status="completed", owner=None, closed_at=10, **fields)


CLOSE = event(2, "run.completed", "end")


def beat(key: str, epoch: int = 1) -> dict[tuple[str, str], tuple[Progress, ...]]:
    return {KEY: (Progress(key, 1, 1, 10, b"1", epoch),)}


TIE = Link("r", "c#1", 1)
CHILD = ("default", "r/c#1")
STARTED = event(2, "child.started", "c#1", payload=start_noted("r/c#1", "c", "terminate"))
TOLD = Message(message_id("r/c#1", 1, TIE), "child", "c#1", b"{}", 5, 1)


def family(parent: Run | None = None, child: Run | None = None, *events: Event, **fields) -> Dump:
    parent, child = parent or run(), child or run(id="r/c#1", seq=1)
    own = (FIRST, event(2, "run.completed", "end")) if child.status == "completed" else (FIRST,)
    kept = {KEY: events or (FIRST, STARTED), CHILD: own}
    inbox = {KEY: fields.pop("inbox", ()), CHILD: ()}
    links = {CHILD: fields.pop("link", TIE)}
    return Dump(NOW, (parent, child), kept, inbox, {"A": NOW + 1}, children=links)._replace(
        **fields
    )


ENDED_CHILD = closed(id="r/c#1")
LINES = {KEY: (LogLine(10, 20, "shop", "hello"),)}

JOB = Job("default", "r", "long#1", 1, 1, "s", "long", "q", 3, b"[]", b"{}", 5, 5, None, "B", 9)
JOB_WAIT = Wait("default", "r", "long#1", "job", 1, 1, "s", "open", 5, None, (), b"{}")

SOUND: dict[str, Dump] = {
    "a held run": dump(),
    "nothing": Dump(NOW),
    "a closed run": dump(closed(), FIRST, CLOSE),
    "an orphan": dump(workers={}),
    "a child under way": family(),
    "a child whose end is told": family(run(inbox_seq=1), ENDED_CHILD, inbox=(TOLD,)),
    "a child whose end is recorded": family(
        run(seq=3, inbox_seq=1, inbox_read=1), ENDED_CHILD, FIRST, STARTED,
        event(3, "child.closed", "c#1"), inbox=(TOLD,)
    ),
    "a child that was abandoned": family(
        closed(seq=3), None, FIRST, STARTED, event(3, "run.completed", "end"),
        link=TIE._replace(policy="abandon")
    ),
    "an answer that a fork shares": dump(
        run(seq=3, status="pending", owner=None, wake_at=1), FIRST,
        event(2, "question.answered", "ask#1", asked_seq=1), event(3, "run.forked"),
    ),
    "a child of a fork that nobody has taken up": dump(
        run(seq=3, status="pending", owner=None, wake_at=1), FIRST, STARTED,
        event(3, "run.forked"),
    ),
    "an undo after what it undoes": dump(run(seq=3), FIRST, event(2, key="a#1", asked_seq=1),
                                         event(3, key="undo(a#1)/b#1", asked_seq=2)),
    "a read signal": dump(run(inbox_seq=2, inbox_read=1), FIRST, received(2, 1),
                          inbox=(signal(1), signal(2))),
    "a cancel that waits": dump(run(inbox_seq=1, cancel=1), inbox=(cancel(1),)),
    "a cancel that was taken": dump(run(inbox_seq=1, inbox_read=1, cancel=2), FIRST,
                                    event(2, "cancel.requested"), inbox=(cancel(1),)),
    "a retried run": dump(
        run(seq=4, generation=2, epoch=2), FIRST, event(2, "step.failed", "a#1", superseded_by=4),
        event(3, "run.failed", superseded_by=4), event(4, "run.reopened", epoch=2, generation=2),
    ),
    "an update under way": dump(run(inbox_seq=1, inbox_read=1), FIRST, accepted(2),
                                inbox=(update("accepted"),)),
    "an update that ended": dump(run(seq=3, inbox_seq=1, inbox_read=1), FIRST, accepted(2),
                                 ended(3), inbox=(update("completed"),)),
    "an update whose end was taken back": dump(
        run(seq=4, generation=2, inbox_seq=1, inbox_read=1), FIRST, accepted(2),
        ended(3, superseded_by=4), reopened(4), inbox=(update("completed"),),
    ),
    "a timer": dump(None, FIRST, event(2, "timer.fired", payload=b"10")),
    "what was said": dump(progress=beat("long#1"), logs=LINES),
    "a heartbeat of a job that was taken again": dump(
        progress=beat("long#1", 9), waits=(JOB_WAIT,), jobs=(JOB,)
    ),
    "the log of a closed run": dump(closed(), FIRST, CLOSE, logs=LINES),
    "kept promises": dump(run(inbox_seq=2, cancel=1), inbox=(signal(1), cancel(2)), journal=Journal(
        (Started("default", "r", "w", b"d"),), (Sent("default", "r", "s1"),),
        (Sent("default", "r", "c2"),),
    )),
}  # fmt: skip

UNSOUND: dict[str, tuple[str, Dump, str]] = {
    "secrets of a closed run": (
        "I17",
        dump(closed(seq=2), FIRST, CLOSE, secrets={KEY: (Sealed("token", "k", b"x"),)}),
        "it is completed and 1 of its secrets are kept",
    ),
    "secrets of nobody": (
        "I17", dump(secrets={("default", "x"): (Sealed("token", "k", b"x"),)}), "it is not there"
    ),
    "a gap": ("I1", dump(run(seq=3), FIRST, event(3)), "event 2 is missing"),
    "a double": ("I1", dump(run(seq=2), FIRST, event(1)), "event 2 is missing, doubled"),
    "a short row": ("I1", dump(run(seq=1)), "counts 1 events and there are 2"),
    "a long row": ("I1", dump(run(seq=3)), "counts 3 events and there are 2"),
    "no events": ("I1", dump(events={}), "counts 2 events and there are 0"),
    "no start": ("I1", dump(None, event(1), event(2)), "the first event is step.completed"),
    "superseded by nothing": ("I1", dump(None, FIRST, event(2, superseded_by=9)), "no later event"),
    "events without a run": ("I1", dump(runs=()), "events and no run"),
    "messages without a run": (
        "I1", Dump(NOW, inbox={KEY: (signal(1),)}), "messages and no run",
    ),
    "an older epoch": (
        "I2", dump(run(seq=3, epoch=2), FIRST, event(2, epoch=2), event(3)), "epoch 1 after epoch 2"
    ),
    "an epoch ahead of the row": ("I2", dump(run(epoch=0)), "the row has epoch 0"),
    "an older generation": (
        "I2",
        dump(run(seq=3, generation=2), FIRST, event(2, generation=2), event(3)),
        "goes back to generation 1",
    ),
    "two closes": (
        "I3", dump(closed(seq=3), FIRST, CLOSE, CLOSE._replace(seq=3)), "2 living events close it"
    ),
    "an event after the close": (
        "I3", dump(closed(seq=3), FIRST, CLOSE, event(3)), "event 3 follows the close"
    ),
    "another close than the status": (
        "I3", dump(closed(), FIRST, event(2, "run.failed")), "is run.failed and its row completed"
    ),
    "closed without a close": ("I3", dump(closed()), "is open and its row completed"),
    "a close on an open run": ("I3", dump(None, FIRST, CLOSE), "is run.completed and its row run"),
    "closed at no time": ("I3", dump(closed()._replace(closed_at=None), FIRST, CLOSE), "closed_at"),
    "two answers": (
        "I4", dump(run(seq=3), FIRST, event(2, key="a#1"), event(3, "step.failed", "a#1")),
        "a#1 is answered by events 2 and 3",
    ),
    "two firings": (
        "I4", dump(run(seq=3), FIRST, event(2, "timer.fired", "t"), event(3, "timer.fired", "t")),
        "t is answered by events 2 and 3",
    ),
    "a start after the answer": (
        "I4", dump(run(seq=3), FIRST, event(2, key="a#1"), event(3, "step.started", "a#1")),
        "step.started 3 after its answer",
    ),
    "a lost start": (
        "I5", Dump(NOW, journal=Journal(starts=(Started("default", "r", "w", b"d"),))),
        "its start was acknowledged",
    ),
    "a start of other work": (
        "I5", dump(journal=Journal(starts=(Started("default", "r", "x", b"d"),))), "started as x"
    ),
    "a start with another input": (
        "I5", dump(journal=Journal(starts=(Started("default", "r", "w", b"e"),))), "input differs"
    ),
    "a lost signal": (
        "I5", dump(journal=Journal(signals=(Sent("default", "r", "s1"),))), "signal s1 was acknow"
    ),
    "a lost cancel": (
        "I5", dump(journal=Journal(cancels=(Sent("default", "r", "c1"),))), "cancel c1 was acknow"
    ),
    "two rows of one id": ("I5", dump(runs=(run(), run())), "2 rows of this id"),
    "a lost message": ("I6", dump(run(inbox_seq=1)), "1 messages were accepted"),
    "a message nobody counted": ("I6", dump(inbox=(signal(1),)), "0 messages were accepted"),
    "read more than came": ("I6", dump(run(inbox_read=1)), "1 messages were read of 0"),
    "two messages of one id": (
        "I6", dump(run(inbox_seq=2), inbox=(signal(1, "x"), signal(2, "x"))), "one id"
    ),
    "a swallowed signal": (
        "I6", dump(run(inbox_seq=1, inbox_read=1), inbox=(signal(1),)), "signals go/s1 were read"
    ),
    "a signal received twice": (
        "I6",
        dump(run(seq=3, inbox_seq=1, inbox_read=1), FIRST, received(2, 1), received(3, 1),
             inbox=(signal(1),)),
        "go/s1, go/s1 are in the history",
    ),
    "signals out of order": (
        "I6",
        dump(run(seq=3, inbox_seq=2, inbox_read=2), FIRST, received(2, 2), received(3, 1),
             inbox=(signal(1), signal(2))),
        "go/s2, go/s1 are in the history",
    ),
    "a signal from nowhere": ("I6", dump(None, FIRST, received(2, 1)), "signals - were read"),
    "a cancel state without a cancel": ("I6", dump(run(cancel=1)), "by its inbox it is 0"),
    "a cancel that left no state": (
        "I6", dump(run(inbox_seq=1), inbox=(cancel(1),)), "state is 0, and by its inbox it is 1"
    ),
    "two cancels": (
        "I6", dump(run(inbox_seq=2, cancel=1), inbox=(cancel(1), cancel(2))), "there are 2 cancels"
    ),
    "a cancel that was read and not recorded": (
        "I6", dump(run(inbox_seq=1, inbox_read=1, cancel=2), inbox=(cancel(1),)), "and - recorded"
    ),
    "an update from nowhere": (
        "I6", dump(None, FIRST, accepted(2)), "u1 is in the history and not in the inbox"
    ),
    "an update that ended and told nobody": (
        "I6",
        dump(run(seq=3, inbox_seq=1, inbox_read=1), FIRST, accepted(2), ended(3),
             inbox=(update("accepted"),)),
        "u1 was told accepted, and recorded as ['accepted', 'completed']",
    ),
    "an update that is recorded after a retry, and told nothing": (
        "I6",
        dump(run(seq=4, generation=2, inbox_seq=1, inbox_read=1), FIRST, accepted(2), ended(3),
             reopened(4), inbox=(update(),)),
        "u1 was told nothing, and recorded as ['accepted', 'completed']",
    ),
    "an update that was carried out twice": (
        "I6",
        dump(run(seq=5, generation=2, inbox_seq=1, inbox_read=1), FIRST, accepted(2), reopened(3),
             accepted(4, generation=2), ended(5, generation=2), inbox=(update("completed"),)),
        "recorded as ['accepted', 'accepted', 'completed']",
    ),
    "a generation that begins by itself": (
        "I2", dump(run(generation=2), FIRST, event(2, "step.completed", "a#1", generation=2)),
        "event 2, step.completed, begins generation 2",
    ),
    "an event that gave way to none": (
        "I1",
        dump(
            run(seq=3), FIRST, event(2, "step.completed", "a#1", superseded_by=3),
            event(3, "step.completed", "a#1"),
        ),
        "superseded by 3, a step.completed",
    ),
    "a timer that fired early": (
        "I7", dump(None, FIRST, event(2, "timer.fired", "t", payload=b"15")), "fired 5 µs early"
    ),
    "time that goes back": ("I7", dump(None, FIRST, event(2, at=8)), "2 µs before event 1"),
    "a timer on a closed run": ("I7", dump(closed(wake_at=99), FIRST, CLOSE), "would wake at 99"),
    "held by nobody": ("I8", dump(run(owner=None)), "in no bucket"),
    "pending for ever": ("I8", dump(run(status="pending", owner=None)), "in no bucket"),
    "a lost wake-up": (
        "I8", dump(run(status="waiting", owner=None, inbox_seq=1), inbox=(signal(1),)), "unread 1"
    ),
    "a cancel that wakes nobody": (
        "I8", dump(run(status="waiting", owner=None, inbox_seq=1, cancel=1), inbox=(cancel(1),)),
        "in no bucket",
    ),
    "parked and owned": ("I8", dump(run(status="waiting")), "in no bucket"),
    "a heartbeat after the end": (
        "I22", dump(closed(), FIRST, CLOSE, progress=beat("long#1")), "has heartbeats of long#1"
    ),
    "a heartbeat after the answer": ("I22", dump(progress=beat("k#2")), "k#2 is answered"),
    "a heartbeat of the future": ("I22", dump(progress=beat("long#1", 9)), "has epoch 9 of 1"),
    "a heartbeat without a run": ("I22", Dump(NOW, progress=beat("long#1")), "and no run"),
    "a child that nobody started": ("I9", family(None, None, FIRST, event(2)), "does not say"),
    "a link without a child": (
        "I9", dump(children={CHILD: TIE}), "is tied to r and is not there"
    ),
    "a child that was never created": ("I9", dump(None, FIRST, STARTED), "which is not there"),
    "an end that nobody told": ("I9", family(None, ENDED_CHILD), "is completed, and was told"),
    "an end that was read and not recorded": (
        "I9", family(run(inbox_seq=1, inbox_read=1), ENDED_CHILD, inbox=(TOLD,)), "told nothing"
    ),
    "a child that outlives its parent": (
        "I9",
        family(closed(seq=3), None, FIRST, STARTED, event(3, "run.completed", "end")),
        "it is running, and its parent r is completed",
    ),
    "a child that was not cancelled": (
        "I9",
        family(closed(seq=3), None, FIRST, STARTED, event(3, "run.completed", "end"),
               link=TIE._replace(policy="cancel")),
        "it was not asked to cancel",
    ),
    "an undo before the end of what it undoes": (
        "I16",
        dump(run(seq=3), FIRST, event(2, key="undo(a#1)/b#1", asked_seq=1),
             event(3, key="a#1", asked_seq=1)),
        "undo(a#1)/b#1 was asked after event 1, before a#1 ended",
    ),
    "a log without a run": ("I22", Dump(NOW, logs=LINES), "and no run"),
    "closed and owned": ("I8", dump(closed()._replace(owner="A"), FIRST, CLOSE), "in no bucket"),
}  # fmt: skip


@pytest.mark.parametrize("sound", SOUND.values(), ids=SOUND.keys())
def test_sound_data_is_silent(sound: Dump) -> None:
    assert check(sound) == []


@pytest.mark.parametrize(("invariant", "bad", "text"), UNSOUND.values(), ids=UNSOUND.keys())
def test_a_planted_fault_is_found(invariant: str, bad: Dump, text: str) -> None:
    found = check(bad)
    assert [each for each in found if each.invariant == invariant and text in each.text], found


def test_every_invariant_has_a_planted_fault() -> None:
    known = {f"I{n}" for n in (*range(1, 10), 16, 17, 22)}
    assert {invariant for invariant, _, _ in UNSOUND.values()} == known


def test_a_violation_reads_as_a_sentence() -> None:
    assert str(Violation("I1", "r", "event 2 is missing")) == "I1 r: event 2 is missing"
    [found] = check(Dump(NOW, inbox={("ns", "r"): (signal(1),)}))
    assert str(found) == "I1 ns/r: there are messages and no run"


def test_one_fault_is_not_blamed_on_other_runs() -> None:
    other = run(id="other")
    bad = dump(runs=(run(seq=3), other), events={KEY: (FIRST, event(2)),
               ("default", "other"): (FIRST, event(2))})  # fmt: skip
    assert {violation.run for violation in check(bad)} == {"r"}
