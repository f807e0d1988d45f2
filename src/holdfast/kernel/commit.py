"""CommitTurn: one fenced commit a turn."""

from __future__ import annotations

from holdfast.model.commands import CommitTurn
from holdfast.model.events import PROGRESS
from holdfast.model.makers import maker
from holdfast.model.run import CANCEL_REQUESTED
from holdfast.model.writes import Advance, Outcome

_new_advance = maker(Advance)


def decide(command: CommitTurn) -> Advance:
    """Append the turn's events under its epoch, once the store's clock has passed `due`."""
    takes_cancel = progresses = False
    for event in command.events:
        # That a step began is no progress: it may be the one that kills the worker.
        if event.kind in PROGRESS:
            progresses = True
        elif event.kind == "cancel.requested":
            takes_cancel = True
    return _new_advance((*command, takes_cancel, progresses))


def read(command: CommitTurn, outcome: Outcome) -> str:
    """Say what became of the turn.

    `applied`: it is stored. `mail`: only the parking was refused, because a message came.
    `cancel`: a cancel must be taken first. `early`: a timer or the deadline is not due by the
    store's clock.
    `taken`: the id of a child belongs to other work.
    `moved`: an earlier commit of unknown outcome did happen. `lost`: the lease went elsewhere.
    """
    if outcome.applied:
        return "applied"
    run = outcome.run
    if outcome.taken:
        return "taken"
    if run is None or run.status != "running":
        return "lost"
    if (run.owner, run.epoch) != (command.owner, command.epoch):
        return "lost"
    if run.seq != command.seq:
        return "moved"
    if run.cancel == CANCEL_REQUESTED and not decide(command).takes_cancel:
        return "cancel"
    if command.inbox_seq is not None and run.inbox_seq != command.inbox_seq:
        return "mail"
    return "early"
