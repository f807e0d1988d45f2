"""Schedules, as statements."""

from __future__ import annotations

import json
from collections.abc import Callable
from sqlite3 import Connection

from holdfast.model.schedules import Scheduled, ScheduleFilter, row_of, scheduled_of
from holdfast.model.writes import Claim, Outcome, Reschedule, Write
from holdfast.stores.notices import notices_of
from holdfast.stores.sqlite.statements import queries

SQL = queries()
Apply = Callable[[Connection, Write, int], Outcome]


def reschedule(connection: Connection, write: Reschedule, now: int, apply: Apply) -> Outcome:
    """Change a schedule and what follows for runs, or nothing if somebody else was faster."""
    binds = {
        "ns": write.ns, "id": write.id, "known": write.revision, "now": now,
        "not_before": write.not_before,
    }  # fmt: skip
    statement = SQL.delete_schedule
    if write.row is not None:
        binds |= row_of(write.row)
        statement = SQL.add_schedule if write.revision is None else SQL.change_schedule
    if connection.execute(statement, binds).rowcount != 1:
        return Outcome(False)
    outcomes = [apply(connection, send, now) for send in write.sends]
    return Outcome(True, heard=tuple(notices_of(write.sends, outcomes)))


def read(connection: Connection, wanted: ScheduleFilter) -> list[Scheduled]:
    """Return schedules, in their order, or the next to be looked at."""
    binds = {
        "ns": wanted.ns, "ids": json.dumps(wanted.ids) if wanted.ids else None,
        "after": wanted.after, "limit": wanted.limit,
    }  # fmt: skip
    if wanted.workflows is None:
        return list(map(scheduled_of, connection.execute(SQL.schedules, binds)))
    binds["workflows"] = json.dumps(wanted.workflows)
    return list(map(scheduled_of, connection.execute(SQL.due_schedules, binds)))


def next_at(connection: Connection, claim: Claim) -> int | None:
    """Return when the next schedule has to be looked at by this claimer."""
    binds = {"ns": claim.ns, "workflows": json.dumps(claim.workflows)}
    row = connection.execute(SQL.next_schedule, binds).fetchone()
    return None if row is None else row[0]
