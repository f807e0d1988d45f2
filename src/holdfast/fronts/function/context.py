"""What code inside a step may ask about itself."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from threading import Event
from types import MappingProxyType

from holdfast.errors import NotInStep
from holdfast.model.annotations import LogLine
from holdfast.model.secrets import Secret

NO_SECRETS: Mapping[str, Secret] = MappingProxyType({})


class Attempt:
    """One execution of a step. `stopped` is set when nobody waits for its result any more."""

    stopped: Event | None = None

    def __init__(self, ns: str, run: str, generation: int, key: str, number: int) -> None:
        self.ns, self.run, self.generation = ns, run, generation
        self.key, self.number = key, number

    @property
    def args(self) -> bytes:
        """Its arguments, as they are stored."""
        return b""

    @property
    def secrets(self) -> Mapping[str, Secret]:
        """What the step lists, by name."""
        return NO_SECRETS

    @property
    def keyed_as(self) -> int:
        """The generation in its idempotency key: its own, unless a rerun keeps earlier ones."""
        return self.generation

    @property
    def epoch(self) -> int:
        """The epoch under which its run is held."""
        return 0

    def beat(self, details: bytes | None) -> None:
        """Say that this attempt is alive, and how far it is."""

    def say(self, line: LogLine) -> None:
        """Leave a line in the run's log."""

    def earlier(self) -> bytes | None:
        """Return the details that an earlier attempt left."""
        return None

    def token(self) -> str:
        """Return what names this attempt to whoever completes it; empty if nobody can."""
        return ""

    def callbacks(self) -> str:
        """Return the address at which outcomes are taken; empty if there is none."""
        return ""


CURRENT: ContextVar[Attempt] = ContextVar("holdfast_attempt")


def idempotency_key() -> str:
    """Return a text that is the same on every attempt of this step, and on no other step's.

    Pass it to systems that refuse to do the same thing twice.
    """
    attempt = running("hf.idempotency_key()")
    return f"{attempt.ns}/{attempt.run}/{attempt.keyed_as}/{attempt.key}"


def attempt() -> int:
    """Return which attempt of the step this is, counted from 1."""
    return running("hf.attempt()").number


def cancelled() -> bool:
    """Tell a sync step whether its result is no longer wanted; an async one is cancelled."""
    stopped = running("hf.cancelled()").stopped
    return stopped is not None and stopped.is_set()


def running(call: str) -> Attempt:
    """Return the attempt whose code calls `call`. Raises `NotInStep`."""
    found = CURRENT.get(None)
    if found is None:
        raise NotInStep(call=call)
    return found
