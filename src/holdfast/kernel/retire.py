"""RetireWorker: a worker that stopped in good order leaves no row behind."""

from __future__ import annotations

from holdfast.model.commands import RetireWorker
from holdfast.model.writes import Outcome, Retire


def decide(command: RetireWorker) -> Retire:
    """Remove the worker's row, unless it still holds runs."""
    return Retire(command.worker)


def read(command: RetireWorker, outcome: Outcome) -> bool:
    """Tell whether the row is gone."""
    return outcome.applied
