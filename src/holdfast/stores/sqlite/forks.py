"""Forks: runs that refer to what they share with another's history instead of copying it.

A run whose first own event is not the first of all is one. Nothing else is ever looked up for
others. A fork is *detached* when it needs a history of its own, because something of it is
superseded, or because its origin is forgotten: what it shared is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection

from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.model.writes import Origin
from holdfast.stores.sqlite.rows import add_bases, whole_row
from holdfast.stores.sqlite.statements import queries

SQL = queries()


def may_fork(connection: Connection, run: Run, origin: Origin) -> bool:
    """Tell whether the origin is still the run that was read."""
    asked = {"ns": run.ns, "origin": origin.run, "created_at": origin.created_at}
    return bool(connection.execute(SQL.is_origin, asked).fetchone()[0])


def add(connection: Connection, run: Run, origin: Origin) -> None:
    """Keep what a new fork shares."""
    connection.execute(
        SQL.add_fork,
        {"ns": run.ns, "run": run.id, "origin": origin.run, "at": origin.at,
         "length": origin.length},
    )  # fmt: skip


def merged(
    connection: Connection, ns: str, run: str, own: Sequence[Event], after: int
) -> list[Event]:
    """Return the events of a fork above `after`, its own and the shared ones, superseded too."""
    found = connection.execute(SQL.shared_events, {"ns": ns, "run": run, "after": after})
    return sorted([*map(Event._make, found), *own], key=lambda event: event.seq)


def detach(connection: Connection, ns: str, run: str) -> None:
    """Give a fork a history of its own."""
    found = connection.execute(SQL.shared_events, {"ns": ns, "run": run, "after": 0}).fetchall()
    events = [Event._make(row) for row in found]
    connection.executemany(SQL.import_event, [whole_row(ns, run, event) for event in events])
    add_bases(connection, ns, run, events)
    connection.execute(SQL.forget_fork, (ns, run))


def detach_all(connection: Connection, ns: str, origin: str) -> None:
    """Detach every fork of a run that is about to be forgotten."""
    found = connection.execute(SQL.forks_of, {"ns": ns, "origin": origin}).fetchall()
    for (run,) in found:
        detach(connection, ns, run)
