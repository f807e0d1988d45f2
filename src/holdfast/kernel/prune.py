"""PruneRuns: a closed run and everything of it goes in one commit."""

from __future__ import annotations

from holdfast.model.commands import PruneRuns
from holdfast.model.writes import Outcome, Prune


def decide(command: PruneRuns) -> Prune:
    """Delete the oldest closed runs."""
    return Prune(command.ns, command.before, command.limit, command.every)


def read(command: PruneRuns, outcome: Outcome) -> int:
    """Return how many runs were deleted."""
    return outcome.total
