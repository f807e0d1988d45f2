"""SupplySecrets: what the run lacked is here; the message that wakes it holds only the names."""

from __future__ import annotations

from holdfast.kernel.refusal import not_open
from holdfast.model.commands import SupplySecrets
from holdfast.model.run import Message
from holdfast.model.status import CLOSED
from holdfast.model.writes import Outcome, Put


def decide(command: SupplySecrets) -> Put:
    """Keep what is encrypted, and tell the run."""
    name = ", ".join(command.names)
    message = Message(f"secret/{command.id}", "secret", name, None, command.at)
    return Put(command.ns, command.run, message, secrets=command.secrets)


def read(command: SupplySecrets, outcome: Outcome) -> bool:
    """Tell whether this is new. Raises `RunNotFound` or `RunClosed`."""
    if outcome.applied:
        return True
    if outcome.run is None or (outcome.run.status in CLOSED and not outcome.total):
        raise not_open(command.run, outcome)
    return False
