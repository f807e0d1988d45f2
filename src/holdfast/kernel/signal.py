"""SignalRun: accepted means stored; a repeat with the same id changes nothing."""

from __future__ import annotations

from holdfast.kernel.refusal import not_open
from holdfast.model.commands import SignalRun
from holdfast.model.run import Message
from holdfast.model.status import CLOSED
from holdfast.model.writes import Outcome, Put


def decide(command: SignalRun) -> Put:
    """Put the signal into the inbox and wake the run."""
    message = Message(
        id=command.id, kind="signal", name=command.name, payload=command.payload, at=command.at
    )
    return Put(command.ns, command.run, message)


def read(command: SignalRun, outcome: Outcome) -> bool:
    """Tell whether the signal is new. Raises `RunNotFound` or `RunClosed`."""
    if outcome.applied:
        return True
    if outcome.run is None or (outcome.run.status in CLOSED and not outcome.total):
        raise not_open(command.run, outcome)
    return False
