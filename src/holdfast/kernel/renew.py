"""RenewLease: one row a process, however many runs it holds."""

from __future__ import annotations

from holdfast.model.commands import RenewLease
from holdfast.model.writes import Outcome, Renew


def decide(command: RenewLease) -> Renew:
    """Extend the lease from the store's present time."""
    return Renew(command.worker, command.lease, command.address, command.info)


def read(command: RenewLease, outcome: Outcome) -> bool:
    """Tell whether the lease had been reaped meanwhile: False means it began anew."""
    return outcome.total == 0
