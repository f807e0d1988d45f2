"""Settings of a worker and its defaults."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import BadDefinition
from holdfast.model.durations import Duration, microseconds


@dataclass(frozen=True, slots=True)
class Settings:
    """How a worker works. Times are seconds.

    `drain` is how long steps that run may go on after the worker was asked to stop. A run that was
    lost with its worker `strikes` times in a row, without progress, is quarantined. Closed runs are
    forgotten after `retention`; None keeps them.
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

    def __post_init__(self) -> None:
        for name in ("lease", "renew", "poll", "steps", "threads", "runs"):
            if not getattr(self, name) > 0:
                raise BadDefinition(
                    what=f"Settings.{name} is {getattr(self, name)}", hint="Give a number above 0."
                )
        if self.strikes < 2:
            raise BadDefinition(
                what=f"Settings.strikes is {self.strikes}",
                hint="Give 2 or more: whoever shares a worker with a killer is hit once, too.",
            )
        if self.retention is not None:
            microseconds(self.retention, field="Settings.retention")
        if self.renew * 2 > self.lease:
            raise BadDefinition(
                what=f"Settings.renew is {self.renew} s of a lease of {self.lease} s",
                hint="Renew at least twice in a lease, or one late renewal loses every run.",
            )
