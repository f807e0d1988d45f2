"""Plain writes: of many runs in few statements for all of them, and of few without ado.

A write is *plain* if one statement changes its row and it only adds events beside that: a run that
is born in somebody's hands, a turn that goes on, a turn that closes its run, if its session knew
the inbox. Most writes are. One that is refused spoils the lot: then nothing has been done, and
each is written by itself, which tells the refused from the others, and why.

A turn that goes on leaves the row of its run as it is, and is nothing but its events: to write the
row would be a page more for each step. How far a run is that is held, `current_runs` tells. One or
two events are one statement, which is a transaction by itself.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Sequence
from sqlite3 import Connection, Cursor

from holdfast.model.labels import NO_LABELS
from holdfast.model.makers import maker
from holdfast.model.queues import DEFAULT_QUEUE
from holdfast.model.status import CLOSED
from holdfast.model.writes import Advance, Create, Notice, Outcome, Renew, Write
from holdfast.stores.notices import notices_of, start_notice, turn_notice
from holdfast.stores.plain import is_plain
from holdfast.stores.sqlite.rows import event_row
from holdfast.stores.sqlite.statements import queries
from holdfast.stores.sqlite.transactions import Job
from holdfast.stores.sqlite.writes import apply, created, created_row

SQL = queries()
GO_ON, GO_ON_BY_TWO = SQL.advance_run, SQL.advance_run_by_two
CLOSE, CREATE, ADD = SQL.close_run, SQL.create_run, SQL.add_event
_new_outcome = maker(Outcome)

FEW = 4
"""Up to so many plain writes are made one by one."""


class Batch(Job):
    """Writes that are carried out together."""

    is_plainly_done = False

    def __init__(self, writes: Sequence[Write], loop: AbstractEventLoop) -> None:
        self.loop, self._writes = loop, writes
        if len(writes) == 1:
            write = writes[0]
            if type(write) is Advance:
                self.run = write.run
                self._plan_turn(write)
            elif type(write) is Create:
                self._plan_start(write)
            else:
                self.is_soft = type(write) is Renew

    def _plan_turn(self, turn: Advance) -> None:
        """Know how a turn is written, if it is plain."""
        events, inbox = turn.events, turn.known_inbox
        if inbox is None or not is_plain(turn):
            return
        ns, run, owner, epoch, seq, _, _, status, *_ = turn
        if status == "running":
            first = events[0]
            if first.seq != seq + 1 or first.epoch != epoch:
                return
            self.row = (*event_row(ns, run, first), inbox, owner)
            self.sql, self.goes_on = GO_ON, True
            rest = [event_row(ns, run, event) for event in events[1:]]
            if len(rest) == 1:
                self.sql, self.row, self.changes = GO_ON_BY_TWO, (*self.row, *rest[0][2:]), 2
            else:
                self.events = rest
        elif status in CLOSED:
            self.sql = CLOSE
            self.row = (
                ns, run, epoch, seq, len(events), status, turn.reason, turn.at, inbox, owner,
            )  # fmt: skip
            self.events = [event_row(ns, run, event) for event in events]

    def _plan_start(self, start: Create) -> None:
        """Know how a start is written, if it is plain."""
        is_bare = start.labels is NO_LABELS and not (start.defines or start.message or start.link)
        if start.owner and start.queue == DEFAULT_QUEUE and is_bare:
            if start.place is not None or start.secrets:
                return
            self.sql, self.row = CREATE, created_row(start, "running", None)
            self.events = (event_row(start.ns, start.id, start.event),)

    def applied(self) -> None:
        """Take note that a plain write was made."""
        write = self._writes[0]
        if type(write) is Advance:
            self.outcome = [_new_outcome((True, None, write.known_inbox, 0, 0, "", ()))]
        elif type(write) is Create:
            self.outcome = [created(write, "running", None)]
        self.is_plainly_done = True

    def told(self) -> list[Notice]:
        """Return what changed. Of a plain write it is made only now: often nobody asks."""
        if not self.is_plainly_done or self.error is not None:
            return self.notices
        write = self._writes[0]
        if type(write) is Advance:
            return [turn_notice(write)]
        return [start_notice(write)] if type(write) is Create else []

    def work(self, connection: Connection, now: int) -> tuple[list[Outcome], list[Notice]]:
        """Carry out one after the other."""
        outcomes = [apply(connection, write, now) for write in self._writes]
        return outcomes, notices_of(self._writes, outcomes)


def write_together(connection: Connection, group: list[Job]) -> list[Job] | None:
    """Make the plain writes of a group. Return the other jobs, or None if one was refused."""
    cursor = connection.cursor()
    if len(group) == 1:
        return [] if write_alone(cursor, group[0]) else group
    plain = [job for job in group if job.sql]
    if len(plain) <= FEW:
        return [job for job in group if not write_alone(cursor, job)]
    for sql in dict.fromkeys(job.sql for job in plain):
        jobs = [job for job in plain if job.sql is sql]
        changed = cursor.executemany(sql, [job.row for job in jobs]).rowcount
        if changed != len(jobs) * jobs[0].changes:
            return None
    cursor.executemany(ADD, [event for job in plain for event in job.events])
    for job in plain:
        job.applied()
    return [job for job in group if not job.sql]


def write_alone(cursor: Cursor, job: Job) -> bool:
    """Make a plain write, or do nothing if it is none, or is refused: the job finds out why."""
    if not job.sql or cursor.execute(job.sql, job.row).rowcount != job.changes:
        return False
    for event in job.events:
        cursor.execute(ADD, event)
    job.applied()
    return True
