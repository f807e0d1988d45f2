"""What a body asks for, and what one turn of it gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from holdfast.model.events import Failure


class StepAsk(NamedTuple):
    """A step the body waits for. `step` is the definition object it was called on."""

    key: str
    step: Any
    args: bytes
    digest: bytes
    asked_seq: int
    asked_at: int
    options: Any = None


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
