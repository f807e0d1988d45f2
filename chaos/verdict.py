"""What must not be: each rule over the evidence yields the violations it finds.

Executions are told apart by the epoch under which they ran, so that no clock decides:

- what an epoch records, it has executed: a result of another epoch would be that of a zombie
- one epoch executes an attempt at most once: the holder does not forget what it holds
- no epoch after the one that recorded a step executes it: a recorded step is never run again
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from chaos.driver import Told
from chaos.evidence import UNTIL_TAKEN, Evidence
from chaos.flows import (
    BOOKED,
    EVERY,
    FARM,
    FARM_OF_A_KEY,
    FARM_SLOTS,
    HAULED,
    NARROW,
    NARROW_OF_A_KEY,
    NARROW_SLOTS,
    PAID,
    TICK,
    TOILED,
    key_of,
    wanted,
)
from chaos.journal import Line
from holdfast.model.dump import Journal
from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.model.status import CLOSED
from holdfast.testing import invariants

FREEZE = "SIGSTOP"
NS = "default"
CLOCKS = 50_000
"""Microseconds by which the clock of a store and the machine's may seem to differ."""


class Violation(NamedTuple):
    """One broken promise, in words."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def judge(evidence: Evidence) -> list[Violation]:
    """Return everything that must not be; an empty list is what you want."""
    return [Violation(name, text) for name, rule in RULES.items() for text in rule(evidence)]


def _invariants(evidence: Evidence) -> Iterator[str]:
    told = evidence.told.values()
    journal = Journal(
        starts=tuple(each.start for each in told),
        signals=tuple(sent for each in told for sent in each.signals),
    )
    for violation in invariants.check(evidence.dump._replace(journal=journal)):
        yield str(violation)
    yield from evidence.changed


def _ends(evidence: Evidence) -> Iterator[str]:
    """Every run that is there has ended, once, as it should; and its caller was told so."""
    for run in evidence.dump.runs:
        if run.status not in CLOSED:
            yield f"{run.id} is still {run.status}: {run.reason or 'no reason'}"
    runs = {run.id: run for run in evidence.dump.runs}
    for id, told in evidence.told.items():
        if id in runs and runs[id].status in CLOSED:
            yield from _end(runs[id], told, _living(evidence, id))


def _end(run: Run, told: Told, events: tuple[Event, ...]) -> Iterator[str]:
    if told.status != run.status:
        yield f"{run.id} is {run.status}, and its caller was told {told.status or 'nothing'}"
    may = {"completed"}
    if told.cancel is not None:
        may = {"accepted": {"cancelled"}, "too late": {"completed"}}.get(
            told.cancel, {"completed", "cancelled"}
        )
    if run.status not in may:
        yield f"{run.id} is {run.status}; its cancel was {told.cancel or 'never sent'}"
    closes = [event for event in events if event.kind == f"run.{run.status}"]
    if len(closes) != 1:
        yield f"{run.id} has {len(closes)} events that close it"
    elif run.status == "completed":
        yield from _result(told, closes[0], events)


def _result(told: Told, close: Event, events: tuple[Event, ...]) -> Iterator[str]:
    """It came to the right number, from the executions that are recorded."""
    id, stored = told.start.run, json.loads(close.payload or b"null")
    if stored["value"] != wanted(told.workflow, told.n):
        yield f"{id} came to {stored['value']}, not {wanted(told.workflow, told.n)}"
    if told.ending is not None and told.ending.marks != stored["marks"]:
        yield f"{id} is stored with other marks than its caller was told"
    if set(stored["marks"]) != {mark for _, mark in _marks(events)}:
        yield f"{id} returned other marks than its steps have recorded"


def _signals(evidence: Evidence) -> Iterator[str]:
    """What was acknowledged was received once, in the order of acknowledgement."""
    for id, told in evidence.told.items():
        received = [e.key for e in _living(evidence, id) if e.kind == "signal.received"]
        sent = [f"go/{each.message}" for each in told.signals]
        if told.status == "completed" and received != sent:
            yield f"{id} was sent {sent} and received {received}"


def _records(evidence: Evidence) -> Iterator[str]:
    """A step is recorded once, and what is recorded was executed by whoever recorded it."""
    lines = _lines(evidence)
    for run in evidence.dump.runs:
        events = _living(evidence, run.id)
        for key, times in Counter(e.key for e in events if e.kind == "step.completed").items():
            if times > 1:
                yield f"{run.id} records {key} {times} times"
        for event, mark in _marks(events):
            found = {line.mark: line for line in lines[run.id, event.key]}
            if mark not in found:
                yield f"{run.id} records {event.key}, and the journal has no such execution"
            elif found[mark].epoch != event.epoch and not event.key.startswith(TOILED):
                yield (
                    f"{run.id} records {event.key} in epoch {event.epoch}, and it was executed in "
                    f"epoch {found[mark].epoch}"
                )


def _executions(evidence: Evidence) -> Iterator[str]:
    """One holder executes an attempt once, and nobody executes what is recorded."""
    recorded = {
        (run, event.key): event.epoch
        for (_, run), events in evidence.dump.events.items()
        for event in events
        if event.kind in ("step.completed", "step.failed")
    }
    marks = {mark for events in evidence.dump.events.values() for _, mark in _marks(events)}
    for line in evidence.pages.lines:  # a job has epochs of its own
        if line.key.startswith(TOILED) and line.mark in marks:
            recorded[line.run, line.key] = line.epoch
    runs = {run.id for run in evidence.dump.runs}
    for (run, key), lines in _lines(evidence).items():
        if run not in runs:
            yield f"{run} executed {key}, and there is no such run"
        again = Counter((line.attempt, line.epoch) for line in lines)
        for (attempt, epoch), times in again.items():
            # A transaction whose commit is in doubt is looked up, and begun again if it is not.
            if times > 1 and not key.startswith(BOOKED):
                yield f"{run} executed attempt {attempt} of {key} {times} times in epoch {epoch}"
        last = recorded.get((run, key))
        for line in lines:
            if last is not None and line.epoch > last:
                yield (
                    f"{run} executed {key} in epoch {line.epoch}, after it was recorded in "
                    f"epoch {last}"
                )


def _bookings(evidence: Evidence) -> Iterator[str]:
    """I12: the rows of transactions are those of the recorded executions, each once."""
    recorded = Counter(
        (f"{NS}/{run}/{event.generation}/{event.key}", mark)
        for (_, run), events in evidence.dump.events.items()
        for event, mark in _marks(events)
        if event.key.startswith(BOOKED)
    )
    booked = Counter(evidence.booked)
    for (place, mark), times in (booked - recorded).items():
        yield f"{place} has {times} rows of execution {mark} that are not recorded"
    for (place, mark), times in (recorded - booked).items():
        yield f"{place} is recorded by execution {mark}, and {times} rows are missing"


def _once(evidence: Evidence) -> Iterator[str]:
    """I13: what runs at most once was executed at most once."""
    for (run, key), lines in _lines(evidence).items():
        if key.startswith(PAID) and len(lines) > 1:
            yield f"{run} executed {key} {len(lines)} times"


def _slots(evidence: Evidence) -> Iterator[str]:
    """I11: of the slots of the schedule, one a second, none between two others has no run."""
    there = {run.id for run in evidence.dump.runs if run.id.startswith(f"{TICK}@")}
    times = sorted(datetime.fromisoformat(id.partition("@")[2]) for id in there)
    for before, after in pairwise(times):
        if after - before != timedelta(seconds=EVERY):
            yield f"{TICK} has no run between {before} and {after}"


def _limits(evidence: Evidence) -> Iterator[str]:
    """I15: at no moment did more hold a slot of a queue than it allows."""
    for queue, most, of_a_key, spans in (
        (NARROW, NARROW_SLOTS, NARROW_OF_A_KEY, run_spans(evidence)),
        (FARM, FARM_SLOTS, FARM_OF_A_KEY, job_spans(evidence)),
    ):
        for span in spans:
            held = [other for other in spans if other.begun <= span.begun < other.ended]
            if len(held) > most:
                yield f"{span.what} began when {len(held)} held slots of queue {queue}"
            alike = [other for other in held if other.key == span.key]
            if len(alike) > of_a_key:
                yield f"{span.what} began when {len(alike)} of its key held slots of queue {queue}"


class Span(NamedTuple):
    """How long something held a slot, at least."""

    what: str
    key: str
    begun: int
    ended: int


def run_spans(evidence: Evidence) -> list[Span]:
    """Return how long runs held slots: from their first step to their close."""
    first: dict[str, int] = {}
    for line in evidence.pages.lines:
        first[line.run] = min(line.at, first.get(line.run, line.at))
    return [
        Span(run.id, key_of(evidence.told[run.id].n), first[run.id], run.closed_at - CLOCKS)
        for run in evidence.dump.runs
        if run.queue == NARROW and run.id in first and run.id in evidence.told and run.closed_at
    ]


def job_spans(evidence: Evidence) -> list[Span]:
    """Return how long jobs held slots whose outcome counts: nobody else had them meanwhile."""
    ends = {end.mark: end.at for end in evidence.pages.ends}
    marks = {mark for events in evidence.dump.events.values() for _, mark in _marks(events)}
    return [
        Span(f"{line.run} {line.key}", line.key, line.at, ends[line.mark])
        for line in evidence.pages.lines
        if line.key.startswith(TOILED) and line.mark in marks and line.mark in ends
    ]


def _zombies(evidence: Evidence) -> Iterator[str]:
    """Whoever woke up to find its runs taken tried to commit, and was refused."""
    taken = taken_from_frozen(evidence)
    if taken and not fenced(evidence):
        yield f"{taken} steps of frozen hosts were done by others, and no commit was refused"
    frozen = sum(fault.kind == UNTIL_TAKEN and fault.until > 0 for fault in evidence.faults)
    if frozen and not fenced(evidence):
        yield f"{frozen} hosts were frozen past their lease, and no commit was refused"


def _hosts(evidence: Evidence) -> Iterator[str]:
    yield from evidence.hosts


def _calls(evidence: Evidence) -> Iterator[str]:
    yield from evidence.calls


def taken_from_frozen(evidence: Evidence) -> int:
    """Return how many steps were in flight on a frozen host that woke up, and done by others."""
    total, lines = 0, _lines(evidence)
    for fault in evidence.faults:
        if not fault.kind.startswith(FREEZE) or not fault.until:
            continue
        for (_, key), each in lines.items():
            if key.startswith(TOILED):
                continue  # whoever does a job may be told that it is gone before it hands it in
            mine = [line for line in each if line.pid in fault.pids and line.at <= fault.at]
            others = [line for line in each if fault.at < line.at < fault.until]
            if mine and any(line.epoch > mine[-1].epoch for line in others):
                total += 1
    return total


def fenced(evidence: Evidence) -> int:
    """Return how many commits were refused because another host held the run."""
    return sum(refused.times for refused in evidence.pages.refused)


def _lines(evidence: Evidence) -> Mapping[tuple[str, str], list[Line]]:
    found: defaultdict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in evidence.pages.lines:
        found[line.run, line.key].append(line)
    return found


def _living(evidence: Evidence, run: str) -> tuple[Event, ...]:
    events = evidence.dump.events.get((NS, run), ())
    return tuple(event for event in events if event.superseded_by is None)


def _marks(events: tuple[Event, ...]) -> Iterator[tuple[Event, str]]:
    for event in events:
        if event.kind == "step.completed" and not event.key.startswith(HAULED):
            yield event, json.loads(event.payload or b"null")["mark"]


RULES: Mapping[str, Callable[[Evidence], Iterator[str]]] = {
    "invariant": _invariants,
    "end": _ends,
    "signals": _signals,
    "record": _records,
    "execution": _executions,
    "booking": _bookings,
    "once": _once,
    "slot": _slots,
    "limit": _limits,
    "zombie": _zombies,
    "host": _hosts,
    "call": _calls,
}
