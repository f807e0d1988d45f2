"""Settings of a worker and its defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal, cast, get_args

from holdfast.errors import BadDefinition
from holdfast.model.durations import Duration, microseconds
from holdfast.model.queues import checked_queues

Guard = Literal["raise", "warn", "off"]
"""What becomes of I/O in a body: refused, named in the log, or not looked at."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a worker works. Times are seconds."""

    lease: float = 30.0
    """How long a frozen worker keeps its runs."""
    renew: float = 10.0
    """How often a lease is renewed."""
    poll: float = 1.0
    """How often an idle worker looks, beside being woken."""
    steps: int = 100
    """Steps that run at once."""
    threads: int = 32
    """How many of them may be plain functions."""
    processes: int = 4
    """Isolated steps that run at once, each in a process of its own."""
    runs: int = 1_000
    """Runs held at once."""
    machines: int = 1_000
    """Waiting runs whose state is kept in memory."""
    keep: float = 5.0
    """A run that wakes this soon stays in hand."""
    cancel_grace: float = 60.0
    """How long clean-up may take after a cancel."""
    drain: float = 5.0
    """How long steps that run may go on when the worker stops."""
    flush: float = 1.0
    """How often log lines and heartbeats of running steps are written."""
    paranoid: bool = False
    """Replay the whole history after every commit; for tests."""
    strikes: int = 5
    """A run lost with its worker so often in a row, without progress, is quarantined."""
    retention: Duration | None = None
    """How long closed runs are kept; None: for ever."""
    guard: Guard = "raise"
    """What a call in a body that touches the world does: "raise", "warn" or "off"."""
    slow_turn: float = 1.0
    """A body that computes this long without a pause is named in the log; 0: never."""
    slow_loop: float = 5.0
    """An event loop that stands still this long is named in the log; 0: never."""
    deaf: float = 300.0
    """A loop that stands still this long gives its lease up; 0: never."""
    history: int = 51_200
    """Events since a run began or continued, before it is blocked; from a fifth on it
    is named in the log."""
    queues: Sequence[str] | None = None
    """The queues it takes runs and jobs from; None: all of them."""

    callbacks: str = ""
    """The address under which a server takes outcomes of steps: `hf.callback_url()` begins so."""

    def __post_init__(self) -> None:
        for name in (
            "lease", "renew", "poll", "flush", "steps", "threads", "processes", "runs", "history",
        ):  # fmt: skip
            self._check(name, "a number above 0", lambda value: value > 0)
        for name in ("machines", "keep", "cancel_grace", "drain", "slow_turn", "slow_loop", "deaf"):
            self._check(name, "a number from 0 on", lambda value: value >= 0)
        if self.guard not in get_args(Guard):
            raise BadDefinition(
                what=f"Settings.guard is {self.guard!r}", hint='Give "raise", "warn" or "off".'
            )
        hint = "two or more: whoever shares a worker with a killer is hit once, too"
        self._check("strikes", hint, lambda value: value >= 2)
        if self.queues is not None:
            object.__setattr__(self, "queues", checked_queues(self.queues))
        if self.retention is not None:
            microseconds(self.retention, field="Settings.retention")
        if self.renew * 2 > self.lease:
            raise BadDefinition(
                what=f"Settings.renew is {self.renew} s of a lease of {self.lease} s",
                hint="Renew at least twice in a lease, or one late renewal loses every run.",
            )

    def _check(self, name: str, wanted: str, holds: Callable[[float], bool]) -> None:
        value: object = getattr(self, name)
        is_whole = isinstance(Settings.__dataclass_fields__[name].default, int)
        kinds = (int,) if is_whole else (int, float)
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        if not (is_number and isfinite(cast("float", value)) and holds(cast("float", value))):
            whole = wanted.replace("number", "whole number") if is_whole else wanted
            raise BadDefinition(what=f"Settings.{name} is {value!r:.60}", hint=f"Give {whole}.")


DEFAULTS = Settings()
