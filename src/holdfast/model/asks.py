"""What a body asks for, and what one turn of it gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from holdfast.model.events import Failure
from holdfast.model.family import ParentClose
from holdfast.model.limits import Place
from holdfast.model.queues import DEFAULT_PRIORITY, DEFAULT_QUEUE


class StepAsk(NamedTuple):
    """A step the body waits for. `step` is the definition object it was called on."""

    key: str
    step: Any
    args: bytes
    digest: bytes
    asked_seq: int
    asked_at: int
    options: Any = None
    values: tuple[Any, ...] | None = None
    """What `args` decode to, where that is known: immutable, so it may be shared."""


class ChildOptions(NamedTuple):
    """How a child is started. The time-out is microseconds; None means no limit."""

    id: str | None = None
    policy: ParentClose = "terminate"
    timeout: int | None = None
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    place: Place | None = None


class ChildAsk(NamedTuple):
    """A child the body asks for. `workflow` is the definition object it was called on."""

    key: str
    id: str
    workflow: Any
    input: bytes
    digest: bytes
    asked_seq: int
    asked_at: int
    options: ChildOptions


class ToChild(NamedTuple):
    """A message from a body to one of its children. `id` makes a repeat harmless."""

    child: str
    kind: Literal["signal", "cancel"]
    name: str
    payload: bytes | None
    id: str
    asked_seq: int
    reason: str = ""


class Ended(NamedTuple):
    """How a body ended: with a result's bytes, with a failure, or to begin again with new input."""

    status: Literal[
        "completed", "failed", "cancelled", "timed_out", "compensation_failed", "continued"
    ]
    payload: bytes | None = None
    failure: Failure | None = None
    leftovers: tuple[str, ...] = ()


@dataclass(slots=True)
class Turn:
    """What changed between two moments at which nothing in a body was ready."""

    asks: list[StepAsk] = field(default_factory=list[StepAsk])
    dropped: list[str] = field(default_factory=list[str])
    ended: Ended | None = None
