"""QuarantineRun: a run that kept crashing its workers is set apart, with the reason."""

from __future__ import annotations

import json

from holdfast.kernel.refusal import illegal
from holdfast.model.commands import QuarantineRun
from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.model.status import movable_to
from holdfast.model.writes import Move, Outcome


def decide(command: QuarantineRun) -> Move:
    """Move a claimable run out of the queue."""
    payload = json.dumps({"reason": command.reason}).encode()
    event = Event("run.quarantined", command.at, payload=payload)
    return Move(
        command.ns, command.run, origins=movable_to("quarantined"), status="quarantined",
        event=event, reason=command.reason, strikes=command.strikes,
    )  # fmt: skip


def read(command: QuarantineRun, outcome: Outcome) -> Run:
    """Return the run. Raises `RunNotFound`, `RunClosed` or `IllegalMove`."""
    if not outcome.applied or outcome.run is None:
        allowed = movable_to("quarantined")
        raise illegal(command.run, outcome, command="quarantine", allowed=allowed)
    return outcome.run
