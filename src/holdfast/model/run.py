"""The row of a run, and what is read together with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from holdfast.model.annotations import Progress
from holdfast.model.events import Event, EventKind
from holdfast.model.queues import DEFAULT_PRIORITY, DEFAULT_QUEUE, IN_LINE
from holdfast.model.status import RunStatus


class Run(NamedTuple):
    """What a store keeps of a run beside its history. Field order is the column order."""

    ns: str
    id: str
    workflow: str
    version: str
    status: RunStatus
    reason: str
    generation: int
    epoch: int
    seq: int
    owner: str | None
    wake_at: int | None
    inbox_seq: int
    inbox_read: int
    cancel: int
    strikes: int
    input_digest: bytes
    created_at: int
    updated_at: int
    closed_at: int | None
    deadline: int | None = None
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY

    @property
    def due_at(self) -> int | None:
        """When it goes on by itself; None if no time brings that about."""
        return None if self.wake_at == IN_LINE else self.wake_at

    @property
    def has_mail(self) -> bool:
        """Tell whether messages wait that the history does not hold yet."""
        return self.inbox_seq > self.inbox_read

    def is_same_as(self, known: Run) -> bool:
        """Tell whether it is this run: the id of one that was forgotten may be another's."""
        return self.created_at == known.created_at

    def is_held_as(self, held: Run) -> bool:
        """Tell whether this row, read now, is in the same hands as when it was `held`."""
        return self.status == "running" and self.epoch == held.epoch and self.owner == held.owner


MessageState = Literal["", "rejected", "accepted", "completed", "failed"]

ENDS_OF_UPDATES: Mapping[EventKind, MessageState] = {
    "update.completed": "completed",
    "update.failed": "failed",
}
"""What becomes of an update, by the event that ends it."""


class Message(NamedTuple):
    """One row of a run's inbox. `n` is its place in the order of acceptance.

    `state` is what became of an update, and `reply` what its caller is told; both are empty for
    other messages, and until the run has decided.
    """

    id: str
    kind: str
    name: str
    payload: bytes | None
    at: int
    n: int = 0
    state: MessageState = ""
    reply: bytes | None = None


class Posted(NamedTuple):
    """A message as it stands, and the row of its run, as of one moment."""

    run: Run
    message: Message | None


class Loaded(NamedTuple):
    """A run, its living events after the asked position, its unread messages and heartbeats."""

    run: Run
    events: tuple[Event, ...]
    mail: tuple[Message, ...]
    progress: tuple[Progress, ...] = ()


SINCE_START = -1
"""As the `after` of a `load`: only what is replayed, from the last continuation of the run on."""

END_ONLY = -2
"""As the `after` of a `load`: of all events only the one that closed the run, if it is closed."""

ROW_ONLY = 1 << 62
"""As the `after` of a `load`: no event is wanted, only the row and its heartbeats."""

SUSPECT = 2
"""Strikes from which on a run, or a job, is held alone among its like."""

NOT_CANCELLED, CANCEL_REQUESTED, CANCEL_DELIVERED = 0, 1, 2
"""Values of `Run.cancel`: a state, so that a second cancel changes nothing."""
