"""Events: the facts of a run's history.

An *answer* settles something the body waits for. A *message* comes from outside. A *note* is
something the body said. A *mark* is a fact about the run that its body never sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

EventKind = Literal[
    "run.started", "run.continued",
    "step.started", "step.retrying", "step.deferred", "step.completed", "step.failed",
    "question.asked", "question.answered", "answer.unused",
    "timer.fired",
    "signal.received", "cancel.requested", "deadline.passed",
    "update.accepted", "update.completed", "update.failed",
    "child.started", "child.closed",
    "note.patched", "note.decided", "note.checkpoint", "note.annotated",
    "run.paused", "run.resumed", "run.blocked", "run.quarantined", "run.reopened",
    "run.forked",
    "run.completed", "run.failed", "run.cancelled", "run.terminated", "run.timed_out",
    "run.compensation_failed", "run.moved",
]  # fmt: skip

EventClass = Literal["start", "answer", "message", "note", "mark", "close"]

CLASS_OF: Mapping[EventKind, EventClass] = {
    "run.started": "start",
    "run.continued": "start",
    "step.started": "mark",
    "step.retrying": "mark",
    "step.deferred": "mark",
    "step.completed": "answer",
    "step.failed": "answer",
    "question.asked": "mark",
    "question.answered": "answer",
    "answer.unused": "mark",
    "timer.fired": "answer",
    "signal.received": "message",
    "cancel.requested": "message",
    "deadline.passed": "message",
    "update.accepted": "message",
    "update.completed": "note",
    "update.failed": "note",
    "child.started": "note",
    "child.closed": "answer",
    "note.patched": "note",
    "note.decided": "note",
    "note.checkpoint": "note",
    "note.annotated": "note",
    "run.paused": "mark",
    "run.resumed": "mark",
    "run.blocked": "mark",
    "run.quarantined": "mark",
    "run.reopened": "mark",
    "run.forked": "mark",
    "run.completed": "close",
    "run.failed": "close",
    "run.cancelled": "close",
    "run.terminated": "close",
    "run.timed_out": "close",
    "run.compensation_failed": "close",
    "run.moved": "close",
}

COMPENSATION = "compensation"
"""The key of a `run.reopened` that lets undos run again which had failed for good."""

BEGINNINGS: frozenset[EventKind] = frozenset({"run.reopened", "run.continued", "run.forked"})
"""The kinds that may begin a generation, and that may supersede what came before."""

FED: frozenset[EventKind] = frozenset(
    kind for kind, group in CLASS_OF.items() if group in ("start", "answer", "message", "note")
)
"""The kinds a machine is fed, live as in replay."""

PROGRESS: frozenset[EventKind] = frozenset(
    kind
    for kind, group in CLASS_OF.items()
    if group in ("start", "answer", "note", "close") or kind in ("step.retrying", "step.deferred")
)
"""The kinds that show that the run gets somewhere, whatever it may have done to a worker before."""


CACHED = -1
"""What an answer that came from the cache `took`: no attempt was made."""


class Event(NamedTuple):
    """One fact. A tuple, because a busy host makes tens of thousands of them a second.

    `seq` is 0 until the store has numbered it. `digest` is 8 bytes of the encoded arguments and 8
    of the parameters' schema, on answers to steps; the shape of the workflow's code, on
    `run.started`, `run.continued` and `run.blocked`. `took` is how long the answered attempt
    ran, or `CACHED`; on a decision, how long the node that it ends. Times are integer
    microseconds since 1970 by the store's clock.
    """

    kind: EventKind
    at: int
    key: str = ""
    payload: bytes | None = None
    asked_seq: int = 0
    digest: bytes | None = None
    took: int | None = None
    seq: int = 0
    epoch: int = 0
    generation: int = 1
    codec: int = 0
    superseded_by: int | None = None

    @property
    def is_cached(self) -> bool:
        """Tell whether it answers a step that did not run, with a result from the cache."""
        return self.took == CACHED

    @property
    def ran_for(self) -> int | None:
        """How long the answered attempt ran; None if there was none."""
        return None if self.took == CACHED else self.took


class Failure(NamedTuple):
    """Why a step attempt or a run failed, as it is stored in a payload."""

    type: str
    message: str
    attempts: int = 1
    traceback: str = ""
    details: Mapping[str, object] = {}
    cause: tuple[str, ...] = ()
    """Keys of the failed steps this failure came from, nearest first."""


def since_start(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events from where replay begins: the start, or the last continuation."""
    for place in range(len(events) - 1, 0, -1):
        if events[place].kind == "run.continued":
            return events[place:]
    return events


def by_start(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Yield a history in parts, each of which was replayed by itself: a start and what followed."""
    begun = 0
    for place in range(1, len(events)):
        if events[place].kind == "run.continued":
            yield events[begun:place]
            begun = place
    yield events[begun:]


def continuations(events: Sequence[Event]) -> list[int]:
    """Return the numbers of the events by which a run was continued."""
    return [event.seq for event in events if event.kind == "run.continued"]
