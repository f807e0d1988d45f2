"""CommitTurn: one fenced commit a turn."""

from __future__ import annotations

from holdfast.model.commands import CommitTurn
from holdfast.model.run import CANCEL_REQUESTED
from holdfast.model.writes import Advance, Outcome


def decide(command: CommitTurn) -> Advance:
    """Append the turn's events under its epoch, once the store's clock has passed `due`."""
    return Advance(
        command.ns, command.run, command.epoch, command.seq, command.events, command.at,
        command.status, command.owner, command.reason, command.wake_at, command.inbox_read,
        command.inbox_seq, takes_cancel(command), command.due, command.supersedes,
        command.superseded_by, command.known_inbox, command.annotations,
    )  # fmt: skip


def read(command: CommitTurn, outcome: Outcome) -> str:
    """Say what became of the turn.

    `applied`: it is stored. `mail`: only the parking was refused, because a message came.
    `cancel`: a cancel must be taken first. `early`: a timer is not due by the store's clock.
    `moved`: an earlier commit of unknown outcome did happen. `lost`: the lease went elsewhere.
    """
    if outcome.applied:
        return "applied"
    run = outcome.run
    if run is None or run.status != "running" or run.epoch != command.epoch:
        return "lost"
    if run.seq != command.seq:
        return "moved"
    if run.cancel == CANCEL_REQUESTED and not takes_cancel(command):
        return "cancel"
    if command.inbox_seq is not None and run.inbox_seq != command.inbox_seq:
        return "mail"
    return "early"


def takes_cancel(command: CommitTurn) -> bool:
    """Tell whether the turn records the cancel."""
    for event in command.events:  # noqa: SIM110 - twice as fast as any(), on every commit
        if event.kind == "cancel.requested":
            return True
    return False
