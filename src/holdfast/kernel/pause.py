"""PauseRun: a held run is asked by message, so that its running steps finish and are recorded."""

from __future__ import annotations

import json

from holdfast.kernel.refusal import not_open
from holdfast.model.commands import PauseRun
from holdfast.model.run import Message
from holdfast.model.status import CLOSED
from holdfast.model.writes import Outcome, Put


def decide(command: PauseRun) -> Put:
    """Put the pause into the inbox; whoever holds the run next carries it out."""
    reason = json.dumps({"reason": command.reason}).encode()
    message = Message(id=command.id, kind="pause", name="", payload=reason, at=command.at)
    # A paused run would read it only after its resume, and stop at once again.
    return Put(command.ns, command.run, message, unless="paused")


def read(command: PauseRun, outcome: Outcome) -> bool:
    """Tell whether the pause is new. Raises `RunNotFound` or `RunClosed`."""
    if outcome.applied:
        return True
    if outcome.run is None or outcome.run.status in CLOSED:
        raise not_open(command.run, outcome)
    return False
