"""What code inside a step may ask about itself."""

from __future__ import annotations

from contextvars import ContextVar
from threading import Event

from holdfast.errors import NotInStep


class Attempt:
    """One execution of a step. `stopped` is set when nobody waits for its result any more."""

    __slots__ = ("generation", "key", "ns", "number", "run", "stopped")

    def __init__(self, ns: str, run: str, generation: int, key: str, number: int) -> None:
        self.ns, self.run, self.generation = ns, run, generation
        self.key, self.number = key, number
        self.stopped: Event | None = None


CURRENT: ContextVar[Attempt] = ContextVar("holdfast_attempt")


def idempotency_key() -> str:
    """Return a text that is the same on every attempt of this step, and on no other step's.

    Pass it to systems that refuse to do the same thing twice.
    """
    attempt = _current("hf.idempotency_key()")
    return f"{attempt.ns}/{attempt.run}/{attempt.generation}/{attempt.key}"


def attempt() -> int:
    """Return which attempt of the step this is, counted from 1."""
    return _current("hf.attempt()").number


def cancelled() -> bool:
    """Tell a sync step whether its result is no longer wanted; an async one is cancelled."""
    stopped = _current("hf.cancelled()").stopped
    return stopped is not None and stopped.is_set()


def _current(call: str) -> Attempt:
    found = CURRENT.get(None)
    if found is None:
        raise NotInStep(call=call)
    return found
