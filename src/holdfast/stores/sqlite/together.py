"""Plain turns: of many runs in two statements for all of them, and of few without ado.

A turn is *plain* if it only adds to the history of a run that goes on, and its session knew the
inbox. Most turns are. One refused turn spoils the lot: then nothing has been done, and each is
written by itself, which tells the refused from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection

from holdfast.model.makers import maker
from holdfast.model.writes import Advance, Outcome, Write
from holdfast.stores.notices import turn_notice
from holdfast.stores.sqlite.rows import event_row
from holdfast.stores.sqlite.statements import queries
from holdfast.stores.sqlite.transactions import Job
from holdfast.stores.sqlite.writes import add_events, advance_row, settles

SQL = queries()
_new_outcome = maker(Outcome)
FEW = 4
"""Up to so many turns are written one by one."""


def plain_turn(batch: Sequence[Write]) -> Advance | None:
    """Return the one write of this batch if it is a plain turn."""
    write = batch[0] if len(batch) == 1 else None
    if type(write) is not Advance or write.known_inbox is None or settles(write):
        return None
    return write


def write_together(connection: Connection, group: list[Job]) -> list[Job] | None:
    """Write the plain turns of a group. Return the other jobs, or None if a turn was refused."""
    plain = [(job, job.turn) for job in group if job.turn is not None]
    if len(plain) <= FEW:
        return [job for job in group if job.turn is None or not _wrote(connection, job, job.turn)]
    turns = [turn for _, turn in plain]
    moved = connection.executemany(SQL.advance_run_without_mail, map(advance_row, turns)).rowcount
    if moved != len(turns):
        return None
    connection.executemany(
        SQL.add_event, [event_row(t.ns, t.run, event) for t in turns for event in t.events]
    )
    for job, turn in plain:
        _applied(job, turn)
    return [job for job in group if job.turn is None]


def _wrote(connection: Connection, job: Job, turn: Advance) -> bool:
    """Write one turn, or nothing if it is refused: the job finds out why."""
    if connection.execute(SQL.advance_run_without_mail, advance_row(turn)).rowcount != 1:
        return False
    add_events(connection, turn)
    _applied(job, turn)
    return True


def _applied(job: Job, turn: Advance) -> None:
    job.outcome = [_new_outcome((True, None, turn.known_inbox, 0, 0, "", ()))]
    job.notices = [turn_notice(turn)]
