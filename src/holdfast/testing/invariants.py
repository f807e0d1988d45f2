"""What holds in every store at every moment, as one pure function over everything it keeps.

`check` ends the crash sweep, the chaos tests and the simulations; `holdfast doctor` runs it on
real data. One look cannot show that nothing has changed since the last one: that events stay as
they are (I1), and that no epoch has two owners (I2), is seen by `watching.py`, in the crash sweep
and in chaos. The numbers are those of the promises:

I1  events are numbered 1..n without a gap, and n is the run's `seq`
I2  epochs and generations never go down along the numbers; only a reopening or a continuation
    begins a generation
I3  at most one living event closes the run; it is the last, and the status matches it
I4  a key is answered at most once among the living, and no attempt starts after its answer
I5  every start, signal, cancel and update that a caller was told is stored is there
I6  messages: accepted = read + waiting, each read once, in the order of acceptance; what an update
    was told is what the history holds, and nothing if it was refused
I7  no timer fired before it was due; time never goes back along the numbers
I8  each run is in exactly one bucket, so that none is lost
I9  a child exists if and only if its parent's history says so; its end is told to an open parent
I11 each slot of a schedule started at most one run, and none between two settled ones is lost
I15 no queue admits more runs than it allows, and every slot comes back
I14 every payload that is encrypted can be read, and every blob that is named is there, unchanged
I16 nothing is undone before it has ended
I17 only open runs have secrets, encrypted
I20 only open runs wait for something from outside, and only for what has no answer; each answer in
    the history was given, once
I22 only open runs have heartbeats, and only of steps that are not answered; log lines have a run
I23 a job is there if and only if its run waits for it, or it has left its outcome to a token
I24 what is kept for later calls of a step is a result that the history of its run holds
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from holdfast.model.annotations import Progress
from holdfast.model.buckets import buckets_of
from holdfast.model.dump import Dump, RunKey
from holdfast.model.events import BEGINNINGS, CLASS_OF, Event, by_start, since_start
from holdfast.model.keys import undone_by
from holdfast.model.run import CANCEL_DELIVERED, CANCEL_REQUESTED, NOT_CANCELLED, Message, Run
from holdfast.model.status import CLOSED
from holdfast.testing.cache_rules import broken_results
from holdfast.testing.families import broken_ties
from holdfast.testing.job_rules import broken_jobs
from holdfast.testing.schedule_slots import broken_schedules
from holdfast.testing.slots import broken_slots


class Violation(NamedTuple):
    """One broken invariant, of one run, in words."""

    invariant: str
    run: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.run}: {self.text}"


class Kept(NamedTuple):
    """All a store keeps of one run."""

    run: Run
    events: tuple[Event, ...]
    inbox: tuple[Message, ...]

    @property
    def living(self) -> list[Event]:
        """The events that count."""
        return [event for event in self.events if event.superseded_by is None]


class Dumping(Protocol):
    """A store that can give all it holds."""

    async def dump(self) -> Dump:
        """Return everything, superseded events too, as of one moment."""
        ...


async def dump(store: Dumping) -> Dump:
    """Return everything `store` holds."""
    return await store.dump()


def check(dump: Dump) -> list[Violation]:
    """Return every invariant that does not hold; an empty list is what you want."""
    found = list(_strays(dump))
    found += [Violation("I14", f"{ns}/{run}", why) for (ns, run), why in dump.unread]
    for run in dump.runs:
        key = (run.ns, run.id)
        kept = Kept(run, dump.events.get(key, ()), dump.inbox.get(key, ()))
        for invariant, rule in RULES.items():
            found += [Violation(invariant, _named(key), text) for text in rule(kept)]
        found += [Violation("I22", _named(key), text) for text in _heartbeats(kept, dump)]
        found += [Violation("I8", _named(key), text) for text in _bucket(kept, dump)]
        found += [Violation("I20", _named(key), text) for text in _waits(kept, dump)]
    found += [Violation("I17", _named(key), text) for key, text in _secrets(dump)]
    found += [Violation("I9", _named(key), text) for key, text in broken_ties(dump)]
    found += [Violation("I11", _named(key), text) for key, text in broken_schedules(dump)]
    found += [Violation("I15", _named(key), text) for key, text in broken_slots(dump)]
    found += [Violation("I23", _named(key), text) for key, text in broken_jobs(dump)]
    found += [Violation("I24", _named(key), text) for key, text in broken_results(dump)]
    return found + list(_unkept_promises(dump))


def _named(key: RunKey) -> str:
    ns, run = key
    return run if ns == "default" else f"{ns}/{run}"


def _strays(dump: Dump) -> Iterator[Violation]:
    rows_of = Counter((run.ns, run.id) for run in dump.runs)
    for key, rows in rows_of.items():
        if rows > 1:
            yield Violation("I5", _named(key), f"there are {rows} rows of this id")
    for what, kept in (("events", dump.events), ("messages", dump.inbox)):
        for key in kept.keys() - rows_of.keys():
            if kept[key]:
                yield Violation("I1", _named(key), f"there are {what} and no run")
    for key in {(wait.ns, wait.run) for wait in dump.waits} - rows_of.keys():
        yield Violation("I20", _named(key), "somebody is asked and there is no run")
    for key in (dump.progress.keys() | dump.logs.keys()) - rows_of.keys():
        yield Violation("I22", _named(key), "there are heartbeats or log lines and no run")


def _numbers(kept: Kept) -> Iterator[str]:
    seqs = [event.seq for event in kept.events]
    if seqs != list(range(1, len(seqs) + 1)):
        gap = next(n for n, seq in enumerate([*seqs, 0], start=1) if seq != n)
        yield f"event {gap} is missing, doubled or out of place: {seqs[gap - 2 : gap + 2]}"
    if kept.run.seq != len(seqs):
        yield f"the row counts {kept.run.seq} events and there are {len(seqs)}"
    if seqs and kept.events[0].kind != "run.started":
        yield f"the first event is {kept.events[0].kind}"
    for event in kept.events:
        by = event.superseded_by
        if by is None:
            continue
        if not event.seq < by <= kept.run.seq:
            yield f"event {event.seq} is superseded by {by}, which is no later event"
        elif by <= len(seqs) and kept.events[by - 1].kind not in BEGINNINGS:
            kind = kept.events[by - 1].kind
            yield f"event {event.seq} is superseded by {by}, a {kind}, which takes nothing back"


def _epochs(kept: Kept) -> Iterator[str]:
    for before, after in pairwise(kept.events):
        if after.epoch < before.epoch:
            yield f"event {after.seq} has epoch {after.epoch} after epoch {before.epoch}"
        if after.generation < before.generation:
            yield f"event {after.seq} goes back to generation {after.generation}"
        if after.generation > before.generation and after.kind not in BEGINNINGS:
            yield f"event {after.seq}, {after.kind}, begins generation {after.generation}"
        if after.kind == "run.continued" and after.generation != before.generation + 1:
            yield f"event {after.seq} continues {before.generation} as {after.generation}"
    if kept.events:
        last, run = kept.events[-1], kept.run
        if last.epoch > run.epoch or last.generation > run.generation:
            yield (
                f"the row has epoch {run.epoch} and generation {run.generation}, its last event "
                f"{last.epoch} and {last.generation}"
            )


def _closes(kept: Kept) -> Iterator[str]:
    run, living = kept.run, kept.living
    closes = [event for event in living if CLASS_OF[event.kind] == "close"]
    if len(closes) > 1:
        yield f"{len(closes)} living events close it: {[event.seq for event in closes]}"
    if closes and closes[-1] is not living[-1]:
        yield f"event {living[-1].seq} follows the close, event {closes[-1].seq}"
    told = closes[-1].kind if closes else "open"
    held = f"run.{run.status}" if run.status in CLOSED else "open"
    if told != held:
        yield f"its history is {told} and its row {run.status}"
    if (run.status in CLOSED) != (run.closed_at is not None):
        yield f"it is {run.status} and closed_at is {run.closed_at}"


def _answers(kept: Kept) -> Iterator[str]:
    for events in by_start(kept.living):  # keys begin again with each continuation
        yield from _answers_in(events)


def _answers_in(events: Sequence[Event]) -> Iterator[str]:
    answered: dict[str, int] = {}
    for event in events:
        if event.key not in answered:
            if CLASS_OF[event.kind] == "answer":
                answered[event.key] = event.seq
        elif CLASS_OF[event.kind] == "answer":
            yield f"{event.key} is answered by events {answered[event.key]} and {event.seq}"
        elif event.kind in ("step.started", "step.retrying"):
            yield f"{event.key} has {event.kind} {event.seq} after its answer"


def _messages(kept: Kept) -> Iterator[str]:
    run, inbox = kept.run, sorted(kept.inbox, key=lambda message: message.n)
    if [message.n for message in inbox] != list(range(1, run.inbox_seq + 1)):
        yield f"{run.inbox_seq} messages were accepted, the inbox has {[m.n for m in inbox]}"
    if run.inbox_read > run.inbox_seq:
        yield f"{run.inbox_read} messages were read of {run.inbox_seq}"
    if len({message.id for message in inbox}) < len(inbox):
        yield "two messages have one id"
    read = [message for message in inbox if message.n <= run.inbox_read]
    sent = [f"{message.name}/{message.id}" for message in read if message.kind == "signal"]
    received = [event.key for event in kept.living if event.kind == "signal.received"]
    if any(event.kind == "run.continued" for event in kept.living):
        # What was not taken is recorded again: of one name, all are still in their order.
        sent, received = (sorted(them, key=_signal_of) for them in (sent, received))
    if sent != received:
        yield f"signals {_some(sent)} were read and {_some(received)} are in the history"
    yield from _cancels(kept)
    yield from _updates(kept)


def _signal_of(key: str) -> str:
    return key.partition("/")[0]


def _cancels(kept: Kept) -> Iterator[str]:
    run = kept.run
    forgotten = {e.key for e in kept.events if e.kind == "cancel.requested"}
    recorded = {e.key for e in kept.living if e.kind == "cancel.requested"}
    forgotten -= recorded
    cancels = [m for m in kept.inbox if m.kind == "cancel" and m.id not in forgotten]
    state, taken = run.cancel, any(each.n <= run.inbox_read for each in cancels)
    expected = NOT_CANCELLED if not cancels else CANCEL_DELIVERED if taken else CANCEL_REQUESTED
    if len(cancels) > 1:
        yield f"there are {len(cancels)} cancels"
    if state != expected:
        yield f"its cancel state is {state}, and by its inbox it is {expected}"
    if bool(recorded) != taken or len(recorded) > 1:
        told = _some(sorted(recorded))
        yield f"the cancel was {'' if taken else 'not '}read, and {told} recorded"


def _updates(kept: Kept) -> Iterator[str]:
    """What an update was told, against what the history holds of it."""
    said: dict[str, list[Event]] = {}
    for event in kept.living:
        if event.kind.startswith("update."):
            said.setdefault(event.key.partition("/")[2], []).append(event)
    updates = {message.id: message for message in kept.inbox if message.kind == "update"}
    for id in said.keys() - updates.keys():
        yield f"update {id} is in the history and not in the inbox"
    for id, message in updates.items():
        if message.state and message.n > kept.run.inbox_read:
            yield f"update {id} is {message.state} and was not read"
        recorded = [event.kind.partition(".")[2] for event in said.get(id, ())]
        expected = EXPECTED[message.state]
        if kept.run.generation > 1:  # a retry, or a rerun, may have taken its end back
            expected = expected[: len(recorded)]
        if recorded != expected:
            yield f"update {id} was told {message.state or 'nothing'}, and recorded as {recorded}"


EXPECTED: dict[str, list[str]] = {
    "": [],
    "rejected": [],
    "accepted": ["accepted"],
    "completed": ["accepted", "completed"],
    "failed": ["accepted", "failed"],
}
"""What the history holds of an update, by what its caller was told."""


def _times(kept: Kept) -> Iterator[str]:
    for before, after in pairwise(kept.events):
        if after.at < before.at:
            yield f"event {after.seq} is {before.at - after.at} µs before event {before.seq}"
    for event in kept.events:
        due = int(event.payload) if event.kind == "timer.fired" and event.payload else 0
        if event.at < due:
            yield f"timer {event.key} fired {due - event.at} µs early, in event {event.seq}"
        if event.kind == "deadline.passed":
            early = json.loads(event.payload or b"{}").get("due", 0) - event.at
            if early > 0:
                yield f"the deadline passed {early} µs early, in event {event.seq}"
    if kept.run.status in CLOSED and kept.run.wake_at is not None:
        yield f"it is {kept.run.status} and would wake at {kept.run.wake_at}"


def _bucket(kept: Kept, dump: Dump) -> Iterator[str]:
    found, run = buckets_of(kept.run, dump.workers, dump.now), kept.run
    if len(found) != 1:
        yield (
            f"it is in {' and '.join(found) or 'no bucket'}: status {run.status}, owner "
            f"{run.owner}, wake_at {run.wake_at}, unread {run.inbox_seq - run.inbox_read}, "
            f"cancel {run.cancel}"
        )


def _heartbeats(kept: Kept, dump: Dump) -> Iterator[str]:
    beats = dump.progress.get((kept.run.ns, kept.run.id), ())
    if beats and kept.run.status in CLOSED:
        yield f"it is {kept.run.status} and has heartbeats of {_some([b.key for b in beats])}"
    replayed = since_start(kept.living)
    answered = {e.key for e in replayed if e.kind in ("step.completed", "step.failed")}
    for beat in beats:
        if beat.key in answered:
            yield f"{beat.key} is answered and has a heartbeat"
        if beat.epoch > kept.run.epoch and not _is_of_a_job(beat, kept.run, dump):
            yield f"the heartbeat of {beat.key} has epoch {beat.epoch} of {kept.run.epoch}"


def _is_of_a_job(beat: Progress, run: Run, dump: Dump) -> bool:
    """Tell whether a job left the heartbeat: those have epochs of their own."""
    job = (run.ns, run.id, beat.key, "job")
    return any((wait.ns, wait.run, wait.key, wait.kind) == job for wait in dump.waits)


def _secrets(dump: Dump) -> Iterator[tuple[RunKey, str]]:
    rows = {(run.ns, run.id): run for run in dump.runs}
    for key, kept in dump.secrets.items():
        run = rows.get(key)
        if run is None or run.status in CLOSED:
            status = "not there" if run is None else run.status
            yield key, f"it is {status} and {len(kept)} of its secrets are kept"


def _waits(kept: Kept, dump: Dump) -> Iterator[str]:
    run, living = kept.run, kept.living
    ids = {message.id for message in kept.inbox}
    for wait in dump.waits:
        if (wait.ns, wait.run) != (run.ns, run.id):
            continue
        if wait.state == "open" and run.status in CLOSED:
            yield f"it is {run.status} and {wait.key} is open"
        ends = [e for e in living if e.key == wait.key and CLASS_OF[e.kind] == "answer"]
        if wait.state == "open" and ends and ends[-1].generation == wait.generation:
            yield f"{wait.key} is open, and event {ends[-1].seq} answers it"
        if wait.state == "answered" and f"answer/{wait.secret}" not in ids:
            yield f"{wait.key} was answered, and no message says so"
    given = Counter(m.name for m in kept.inbox if m.kind == "answer" and m.n <= run.inbox_read)
    # The answers that a fork shares were given to its origin.
    forked = max((event.seq for event in kept.events if event.kind == "run.forked"), default=0)
    own = [e for e in kept.events if e.kind == "question.answered" and e.seq > forked]
    used = Counter(event.key for event in own)
    for key, times in (used - given).items():
        yield f"{key} was answered {given[key]} times, and {given[key] + times} events say so"


def _undos(kept: Kept) -> Iterator[str]:
    for events in by_start(kept.living):
        yield from _undos_in(events)


def _undos_in(events: Sequence[Event]) -> Iterator[str]:
    answers = [event for event in events if CLASS_OF[event.kind] == "answer"]
    undos = [(event, done) for event in answers for done in undone_by(event.key)]
    for undo, done in undos:
        for event in answers:
            is_of_it = event.key == done or event.key.startswith(f"{done}/")
            if is_of_it and event.seq > undo.asked_seq:
                yield f"{undo.key} was asked after event {undo.asked_seq}, before {event.key} ended"


def _unkept_promises(dump: Dump) -> Iterator[Violation]:
    runs = {(run.ns, run.id): run for run in dump.runs}
    for start in dump.journal.starts:
        run = runs.get((start.ns, start.run))
        if run is None:
            text = "its start was acknowledged and it is not there"
        elif (run.workflow, run.input_digest) != (start.workflow, start.input_digest):
            text = f"it was started as {start.workflow} and is {run.workflow}, or its input differs"
        else:
            continue
        yield Violation("I5", _named((start.ns, start.run)), text)
    journal = dump.journal
    kinds = (
        ("signal", journal.signals), ("cancel", journal.cancels), ("update", journal.updates),
    )  # fmt: skip
    for kind, acknowledged in kinds:
        for sent in acknowledged:
            key = (sent.ns, sent.run)
            if not _has(dump.inbox.get(key, ()), kind, sent.message):
                text = f"its {kind} {sent.message} was acknowledged and is not there"
                yield Violation("I5", _named(key), text)


def _has(inbox: Sequence[Message], kind: str, id: str) -> bool:
    return any(message.kind == kind and message.id == id for message in inbox)


def _some(names: Sequence[str]) -> str:
    return (
        ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "") or "-"
    )


RULES: dict[str, Callable[[Kept], Iterator[str]]] = {
    "I1": _numbers,
    "I2": _epochs,
    "I3": _closes,
    "I4": _answers,
    "I6": _messages,
    "I7": _times,
    "I16": _undos,
}
