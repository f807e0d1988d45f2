"""TerminateRun: one commit ends the run and fences off whoever holds it."""

from __future__ import annotations

import json

from holdfast.kernel.refusal import illegal
from holdfast.model.commands import TerminateRun
from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.model.status import movable_to
from holdfast.model.writes import Move, Outcome


def decide(command: TerminateRun) -> Move:
    """Close the run from any open status."""
    payload = json.dumps({"type": "Terminated", "message": command.reason}).encode()
    event = Event("run.terminated", command.at, payload=payload)
    return Move(
        command.ns, command.run, origins=movable_to("terminated"), status="terminated", event=event,
        reason=command.reason,
    )  # fmt: skip


def read(command: TerminateRun, outcome: Outcome) -> Run:
    """Return the closed run. Raises `RunNotFound` or `RunClosed`."""
    if not outcome.applied or outcome.run is None:
        raise illegal(command.run, outcome, command="terminate", allowed=movable_to("terminated"))
    return outcome.run
