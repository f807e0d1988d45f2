"""ChangeQueue: give a queue limits, pause it, let it go on."""

from __future__ import annotations

from holdfast.model.commands import ChangeQueue
from holdfast.model.writes import Outcome, SetQueue


def decide(command: ChangeQueue) -> SetQueue:
    """Write its row, if that changes anything."""
    return SetQueue(*command)


def read(command: ChangeQueue, outcome: Outcome) -> bool:
    """Tell whether anything changed."""
    return outcome.applied
