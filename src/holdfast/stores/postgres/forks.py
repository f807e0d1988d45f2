"""Forks: runs that refer to what they share with another's history instead of copying it.

A run whose first own event is not the first of all is one. Nothing else is ever looked up for
others. A fork is *detached* when it needs a history of its own, because something of it is
superseded, or because its origin is forgotten: what it shared is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.model.writes import Origin
from holdfast.stores.postgres.bases import add_bases
from holdfast.stores.postgres.connection import Ask
from holdfast.stores.postgres.statements import queries

SQL = queries()


async def may_fork(ask: Ask, run: Run, origin: Origin) -> bool:
    """Tell whether the origin is still the run that was read; keep it from being forgotten."""
    created_at = origin.created_at
    return bool(await ask(SQL.is_origin, ns=run.ns, origin=origin.run, created_at=created_at))


async def merged(ask: Ask, ns: str, run: str, own: Sequence[Event], after: int) -> list[Event]:
    """Return the events of a fork above `after`, its own and the shared ones, superseded too."""
    found = await ask(SQL.shared_events, ns=ns, run=run, after=after)
    return sorted([*map(Event._make, found), *own], key=lambda event: event.seq)


async def detach(ask: Ask, ns: str, run: str) -> None:
    """Give a run, if it is a fork, a history of its own.

    Under the run's lock: another host may be about to do the same, or to forget the run. What is
    added to a run that is gone, nobody would ever forget.
    """
    if not await ask(SQL.lock_run, ns=ns, run=run):
        return
    found = await ask(SQL.shared_events, ns=ns, run=run, after=0)
    if found:
        here, events = {"ns": ns, "run": run}, [Event._make(row) for row in found]
        await ask.many(SQL.import_event, [here | event._asdict() for event in events])
        await add_bases(ask, ns, run, events)
        await ask(SQL.forget_fork, ns=ns, run=run)


async def detach_all(ask: Ask, ns: str, origins: Sequence[str]) -> None:
    """Detach every fork of runs that are about to be forgotten, and locked."""
    for (run,) in await ask(SQL.forks_of, ns=ns, origins=list(origins)):
        await detach(ask, ns, run)
