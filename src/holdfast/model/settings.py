"""Settings of a worker and its defaults."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import BadDefinition


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
    paranoid: bool = False
    """Replay the whole history after every commit; for tests."""

    def __post_init__(self) -> None:
        for name in ("lease", "renew", "poll", "steps", "threads", "runs"):
            if not getattr(self, name) > 0:
                raise BadDefinition(
                    what=f"Settings.{name} is {getattr(self, name)}", hint="Give a number above 0."
                )
        if self.renew * 2 > self.lease:
            raise BadDefinition(
                what=f"Settings.renew is {self.renew} s of a lease of {self.lease} s",
                hint="Renew at least twice in a lease, or one late renewal loses every run.",
            )
