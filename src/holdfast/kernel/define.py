"""DefineWorkflow: remember the shape of the code that runs are started and run with."""

from __future__ import annotations

from holdfast.model.commands import DefineWorkflow
from holdfast.model.writes import Define, Outcome


def decide(command: DefineWorkflow) -> Define:
    """Keep the shape, or note that it was seen again."""
    return Define(*command)


def read(command: DefineWorkflow, outcome: Outcome) -> None:
    """Return nothing: it is always taken."""
