"""Changing a schedule: read its row, decide, write if nobody else did; else once more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.errors import ScheduleNotFound, StoreUnavailable
from holdfast.kernel import dispatch
from holdfast.model.commands import Command
from holdfast.model.schedules import Scheduled, ScheduleFilter
from holdfast.model.status import CLOSED
from holdfast.model.writes import Filter, Page
from holdfast.ports.store import Store

TRIES = 10
PAUSE = 0.01
"""Seconds before another try, for as long as others were faster; or the store's clock is behind."""

Decide = Callable[[Scheduled, frozenset[str]], Command]


async def read(store: Store, ns: str, id: str) -> Scheduled | None:
    """Return the row of a schedule, if there is one."""
    rows = await store.schedules(ScheduleFilter(ns, ids=(id,)))
    return rows[0] if rows else None


async def open_runs(store: Store, row: Scheduled) -> frozenset[str]:
    """Return those runs of a schedule that are open."""
    if not row.running:
        return frozenset()
    runs = await store.find(Filter(row.ns, ids=row.running), Page(len(row.running)))
    return frozenset(run.id for run in runs if run.status not in CLOSED)


async def change(store: Store, ns: str, id: str, decide: Decide) -> Scheduled:
    """Change a schedule as decided on its row; return the row as it is then.

    Raises `ScheduleNotFound`, and `StoreUnavailable` if others change it all the time.
    """
    for tried in range(TRIES):
        row = await read(store, ns, id)
        if row is None:
            raise ScheduleNotFound(schedule=id)
        if await write(store, decide(row, await open_runs(store, row))):
            return await read(store, ns, id) or row
        await asyncio.sleep(PAUSE * tried)
    raise StoreUnavailable(f"Schedule {id!r} kept changing, and nothing was written. Try again.")


async def write(store: Store, command: Command) -> bool:
    """Write what a command becomes; tell whether nobody was faster."""
    (outcome,) = await store.write([dispatch.decide(command)])
    is_applied: bool = dispatch.read(command, outcome)
    return is_applied
