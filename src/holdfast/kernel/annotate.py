"""AnnotateRun: what a run's steps and body say, fenced like a turn."""

from __future__ import annotations

from holdfast.model.commands import AnnotateRun
from holdfast.model.writes import Annotate, Outcome


def decide(command: AnnotateRun) -> Annotate:
    """Keep it under the epoch it was said in. A heartbeat that brings news clears the strikes."""
    return Annotate._make(command)


def read(command: AnnotateRun, outcome: Outcome) -> bool:
    """Tell whether the run is still ours."""
    return outcome.applied
