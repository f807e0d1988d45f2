"""ReapLeases: any worker may do it; the condition is checked again inside the statement."""

from __future__ import annotations

from holdfast.model.commands import ReapLeases
from holdfast.model.writes import Outcome, Reap


def decide(command: ReapLeases) -> Reap:
    """Give back the runs of a worker whose lease is over or that is known to be dead."""
    return Reap(command.worker, command.known_dead)


def read(command: ReapLeases, outcome: Outcome) -> int:
    """Return how many runs became claimable."""
    return outcome.total
