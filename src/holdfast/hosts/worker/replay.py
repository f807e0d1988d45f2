"""What a host, not the body, remembers of a history: attempts, cancel, pause, the latest time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from holdfast.hosts.worker.attempts import Retrying
from holdfast.hosts.worker.overdue import waited_for
from holdfast.hosts.worker.waiting import Deferred
from holdfast.machine import Machine
from holdfast.machine.sagas import taken_back
from holdfast.model.events import Event, EventKind
from holdfast.model.failures import in_a_line
from holdfast.model.travel import is_anew, keyed_as


class Folded(NamedTuple):
    """The host's side of a history."""

    last_at: int
    retries: dict[str, Retrying]
    cancelled_at: int | None
    paused: bool
    overdue: str | None
    """What the body waited for when its deadline passed."""
    reopened_at: int
    """When it went on after it had ended, or was set aside: time for attempts counts from there."""
    reopened_seq: int
    keyed_as: int
    """The generation in the idempotency keys of its steps."""
    anew: bool
    """Whether its steps use no result of former calls."""
    deferred: dict[str, Deferred]
    """Steps whose outcome comes from outside."""
    begun: frozenset[str]
    """Steps that are recorded as started, in any generation."""


REMEMBERED: frozenset[EventKind] = frozenset({
    "step.started", "step.retrying", "step.deferred", "cancel.requested", "deadline.passed",
    "run.paused", "run.resumed", "run.reopened", "run.forked",
})  # fmt: skip
"""The kinds that leave something for the host to do."""

_kind_of: Callable[[Event], EventKind] = attrgetter("kind")


def feed(
    machine: Machine,
    events: Sequence[Event],
    generation: int,
    *,
    is_new: bool,
    again: Callable[[], Machine],
) -> tuple[int, ...]:
    """Feed a history; return what of it no longer counts, by seq.

    What was undone before a retry has to be done again: a body that was shown the result of such a
    call, and does not ask for its undo, is begun `again` without it.
    """
    left_out = machine.feed_all(events, generation, is_new=is_new)
    while left_out and (undone := taken_back(events, left_out, generation)):
        gone = undone.union(left_out)
        kept = [event for event in events if event.seq not in gone]
        left_out = tuple(sorted((*gone, *again().feed_all(kept, generation))))
    return left_out


def fold(events: tuple[Event, ...], generation: int) -> Folded:
    """Return what the events left for the host to do. Attempts count within a generation."""
    retries: dict[str, Retrying] = {}
    cancelled_at: int | None = None
    paused = False
    overdue: str | None = None
    reopened_at = reopened_seq = 0
    deferred: dict[str, Deferred] = {}
    begun = set[str]()
    last_at = events[-1].at if events else 0
    for event in _remembered(events):
        if event.kind.startswith("step."):
            _remember(event, generation, retries, deferred, begun)
        match event.kind:
            case "cancel.requested":
                cancelled_at, paused = cancelled_at or event.at, False
            case "deadline.passed":
                cancelled_at, paused, overdue = event.at, False, waited_for(event.payload)
            case "run.paused":
                paused = cancelled_at is None
            case "run.resumed":
                reopened_at, paused = event.at, False
            case "run.reopened" | "run.forked":
                reopened_at, reopened_seq, paused = event.at, event.seq, False
            case _:
                continue
    keys = keyed_as(events, generation) if reopened_seq else generation
    anew = is_anew(events, generation) if reopened_seq else False
    return Folded(
        last_at, retries, cancelled_at, paused, overdue, reopened_at, reopened_seq, keys, anew,
        deferred, frozenset(begun),
    )  # fmt: skip


def _remembered(events: Sequence[Event]) -> Sequence[Event]:
    if REMEMBERED.isdisjoint(map(_kind_of, events)):
        return ()  # most histories are results only
    return [event for event in events if event.kind in REMEMBERED]


def _remember(
    event: Event,
    generation: int,
    retries: dict[str, Retrying],
    deferred: dict[str, Deferred],
    begun: set[str],
) -> None:
    if event.kind == "step.started":
        begun.add(event.key)
    elif event.generation != generation:
        return
    elif event.kind == "step.retrying":
        retries[event.key] = _retrying(event)
    elif event.kind == "step.deferred":
        deferred[event.key] = Deferred(**json.loads(event.payload or b"{}"))


def _retrying(event: Event) -> Retrying:
    fields = json.loads(event.payload or b"{}")
    error = in_a_line(fields.get("type", ""), fields.get("message", ""))
    return Retrying(fields["attempt"], fields["retry_at"], error)


def reason(
    signals: tuple[str, ...], retries: Mapping[str, Retrying], others: Sequence[str] = ()
) -> str:
    """Say what a parked run waits for, as `why` shows it."""
    parts = [*(f"signal {name}" for name in signals), *others]
    parts += [
        f"attempt {retrying.attempts + 1} of {key} after {retrying.error}"
        for key, retrying in retries.items()
    ]
    return "; ".join(parts)[:500]
