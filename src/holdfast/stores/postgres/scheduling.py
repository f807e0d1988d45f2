"""Schedules, as statements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from holdfast.model.schedules import Scheduled, ScheduleFilter, row_of, scheduled_of
from holdfast.model.writes import Outcome, Reschedule, Write
from holdfast.stores.notices import notices_of
from holdfast.stores.postgres.connection import Ask, Line
from holdfast.stores.postgres.statements import queries

SQL = queries()
Apply = Callable[[Ask, Sequence[Write], "int | None"], Awaitable[list[Outcome]]]


async def reschedule(ask: Ask, write: Reschedule, now: int | None, apply: Apply) -> Outcome:
    """Change a schedule and what follows for runs, or nothing if somebody else was faster.

    The row is locked first, and a run that closes changes it last: should the two wait for each
    other, the server notices, and one is tried again.
    """
    binds = {
        "ns": write.ns, "id": write.id, "known": write.revision, "now": now,
        "not_before": write.not_before,
    }  # fmt: skip
    statement = SQL.delete_schedule
    if write.row is not None:
        binds |= row_of(write.row)
        statement = SQL.add_schedule if write.revision is None else SQL.change_schedule
    if not await ask(statement, **binds):
        return Outcome(False)
    outcomes = await apply(ask, write.sends, now)
    return Outcome(True, heard=tuple(notices_of(write.sends, outcomes)))


async def read(line: Line, wanted: ScheduleFilter) -> list[Scheduled]:
    """Return schedules, in their order, or the next to be looked at."""
    ids = list(wanted.ids) or None
    binds: dict[str, object] = {
        "ns": wanted.ns, "ids": ids, "after": wanted.after, "limit": wanted.limit
    }  # fmt: skip
    statement = SQL.schedules
    if wanted.workflows is not None:
        binds["workflows"], statement = list(wanted.workflows), SQL.due_schedules
    return list(map(scheduled_of, await line.fetch(statement, **binds)))
