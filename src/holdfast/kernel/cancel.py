"""CancelRun: a state of the run, so that a second cancel changes nothing."""

from __future__ import annotations

import json

from holdfast.kernel.refusal import not_open
from holdfast.model.commands import CancelRun
from holdfast.model.run import NOT_CANCELLED, Message
from holdfast.model.status import CLOSED
from holdfast.model.writes import Outcome, Put


def decide(command: CancelRun) -> Put:
    """Mark the run and put the cancel into its inbox: its next event is `cancel.requested`."""
    reason = json.dumps({"reason": command.reason}).encode()
    message = Message(id=command.id, kind="cancel", name="", payload=reason, at=command.at)
    return Put(command.ns, command.run, message, cancels=True)


def read(command: CancelRun, outcome: Outcome) -> bool:
    """Tell whether this cancel was the first. Raises `RunNotFound` or `RunClosed`."""
    if outcome.applied:
        return True
    run = outcome.run
    if run is None or (run.status in CLOSED and run.cancel == NOT_CANCELLED):
        raise not_open(command.run, outcome)
    return False
