"""UpdateRun: accepted means stored; what the run says to it is kept with it, once for each id."""

from __future__ import annotations

from holdfast.kernel.refusal import not_open
from holdfast.model.commands import UpdateRun
from holdfast.model.run import Message
from holdfast.model.status import CLOSED
from holdfast.model.writes import Outcome, Put


def message_of(command: UpdateRun) -> Message:
    """Return the update as it stands in the inbox."""
    return Message(
        id=command.id, kind="update", name=command.name, payload=command.payload, at=command.at
    )


def decide(command: UpdateRun) -> Put:
    """Put the update into the inbox and wake the run."""
    return Put(command.ns, command.run, message_of(command))


def read(command: UpdateRun, outcome: Outcome) -> bool:
    """Tell whether the update is new. Raises `RunNotFound` or `RunClosed`."""
    if outcome.applied:
        return True
    if outcome.run is None or (outcome.run.status in CLOSED and not outcome.total):
        raise not_open(command.run, outcome)
    return False
