"""Settings of a worker and its defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.errors import BadDefinition
from holdfast.model.durations import Duration, microseconds

Guard = Literal["raise", "warn", "off"]
"""What becomes of I/O in a body: refused, named in the log, or not looked at."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a worker works. Times are seconds.

    `drain` is how long steps that run may go on after the worker was asked to stop. A run that was
    lost with its worker `strikes` times in a row, without progress, is quarantined. Closed runs are
    forgotten after `retention`; None keeps them. A body that computes for `slow_turn` without a
    pause, or an event loop that stands still for `slow_loop`, is named in the log (0: never); a
    loop that stands still for `deaf` gives its lease up (0: never).
    """

    lease: float = 30.0
    renew: float = 10.0
    poll: float = 1.0
    steps: int = 100
    threads: int = 32
    runs: int = 1_000
    machines: int = 1_000
    keep: float = 5.0
    cancel_grace: float = 60.0
    drain: float = 5.0
    paranoid: bool = False
    strikes: int = 5
    retention: Duration | None = None
    guard: Guard = "raise"
    slow_turn: float = 1.0
    slow_loop: float = 5.0
    deaf: float = 300.0

    def __post_init__(self) -> None:
        for name in ("lease", "renew", "poll", "steps", "threads", "runs"):
            self._hold(name, getattr(self, name) > 0, "Give a number above 0.")
        for name in ("slow_turn", "slow_loop", "deaf"):
            self._hold(name, getattr(self, name) >= 0, "Give a number of seconds, or 0 for never.")
        self._hold("guard", self.guard in get_args(Guard), 'Give "raise", "warn" or "off".')
        hint = "Give 2 or more: whoever shares a worker with a killer is hit once, too."
        self._hold("strikes", self.strikes >= 2, hint)
        if self.retention is not None:
            microseconds(self.retention, field="Settings.retention")
        if self.renew * 2 > self.lease:
            raise BadDefinition(
                what=f"Settings.renew is {self.renew} s of a lease of {self.lease} s",
                hint="Renew at least twice in a lease, or one late renewal loses every run.",
            )

    def _hold(self, name: str, holds: bool, hint: str) -> None:
        if not holds:
            raise BadDefinition(what=f"Settings.{name} is {getattr(self, name)!r}", hint=hint)
