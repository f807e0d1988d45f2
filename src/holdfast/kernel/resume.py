"""ResumeRun: a paused run becomes claimable; its timers that are due fire then."""

from __future__ import annotations

from holdfast.kernel.refusal import illegal
from holdfast.model.commands import ResumeRun
from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.model.status import RunStatus
from holdfast.model.writes import Move, Outcome

ORIGINS: frozenset[RunStatus] = frozenset({"paused"})


def decide(command: ResumeRun) -> Move:
    """Make a paused run pending."""
    event = Event("run.resumed", command.at)
    return Move(
        command.ns, command.run, origins=ORIGINS, status="pending", event=event, wake_at=command.at
    )


def read(command: ResumeRun, outcome: Outcome) -> Run:
    """Return the run. Raises `RunNotFound`, `RunClosed` or `IllegalMove`."""
    if not outcome.applied or outcome.run is None:
        raise illegal(command.run, outcome, command="resume", allowed=ORIGINS)
    return outcome.run
