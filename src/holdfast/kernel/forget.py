"""ForgetResults: what was kept for later calls of steps goes, a batch at a time."""

from __future__ import annotations

from holdfast.model.commands import ForgetResults
from holdfast.model.writes import Forget, Outcome


def decide(command: ForgetResults) -> Forget:
    """Delete results of a step, or those that are expired."""
    return Forget(command.ns, command.limit, command.step, command.key)


def read(command: ForgetResults, outcome: Outcome) -> int:
    """Return how many results were deleted."""
    return outcome.total
