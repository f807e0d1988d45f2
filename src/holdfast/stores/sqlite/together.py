"""Plain turns: of many runs in two statements for all of them, and of few without ado.

A turn is *plain* if it only adds to the history of a run that goes on, and its session knew the
inbox. Most turns are. One refused turn spoils the lot: then nothing has been done, and each is
written by itself, which tells the refused from the others.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Sequence
from sqlite3 import Connection

from holdfast.model.makers import maker
from holdfast.model.writes import Advance, Notice, Outcome, Renew, Write
from holdfast.stores.notices import notices_of, turn_notice
from holdfast.stores.sqlite.rows import event_row
from holdfast.stores.sqlite.statements import queries
from holdfast.stores.sqlite.transactions import Job
from holdfast.stores.sqlite.writes import add_events, advance_row, apply, settles

SQL = queries()
_new_outcome = maker(Outcome)
FEW = 4
"""Up to so many turns are written one by one."""


class Batch(Job):
    """Writes that are carried out together."""

    __slots__ = ("_writes",)

    def __init__(self, writes: Sequence[Write], loop: AbstractEventLoop) -> None:
        alone = writes[0] if len(writes) == 1 else None
        super().__init__(loop, is_soft=type(alone) is Renew)
        self._writes = writes
        if type(alone) is Advance:
            self.run = alone.run
            if alone.known_inbox is not None and not settles(alone):
                self.turn = alone

    def work(self, connection: Connection, now: int) -> tuple[list[Outcome], list[Notice]]:
        """Carry out one after the other."""
        outcomes = [apply(connection, write, now) for write in self._writes]
        return outcomes, notices_of(self._writes, outcomes)


def write_together(connection: Connection, group: list[Job]) -> list[Job] | None:
    """Write the plain turns of a group. Return the other jobs, or None if a turn was refused."""
    if len(group) == 1:
        alone = group[0]
        return [] if alone.turn is not None and _wrote(connection, alone, alone.turn) else group
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
