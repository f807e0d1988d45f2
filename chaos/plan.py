"""What a round is to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """One store, for so long. The seed chooses the work and the faults."""

    store: str
    seconds: float = 60.0
    seed: int = 0
    hosts: int = 3
    lease: float = 2.0
    window: int = 50
    """Runs that are open at once."""
