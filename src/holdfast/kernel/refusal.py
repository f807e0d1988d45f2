"""What a refused write means to the caller."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.errors import HoldfastError, IllegalMove, RunClosed, RunNotFound
from holdfast.model.status import CLOSED, RunStatus
from holdfast.model.writes import Outcome


def not_open(run: str, outcome: Outcome) -> HoldfastError:
    """Return the error for a message that only an open run takes."""
    if outcome.run is None:
        return RunNotFound(run=run)
    return RunClosed(run=run, status=outcome.run.status)


def illegal(
    run: str, outcome: Outcome, *, command: str, allowed: Iterable[RunStatus]
) -> HoldfastError:
    """Return the error for a command that the run's status does not allow."""
    if outcome.run is None:
        return RunNotFound(run=run)
    legal = tuple(sorted(allowed))
    if outcome.run.status in CLOSED and not any(status in CLOSED for status in legal):
        return RunClosed(run=run, status=outcome.run.status)
    return IllegalMove(run=run, status=outcome.run.status, command=command, allowed=legal)
