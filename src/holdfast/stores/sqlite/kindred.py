"""Links between parents and children, as `kinship` asks for them. Bind, run, map."""

from __future__ import annotations

import json
from collections.abc import Callable
from sqlite3 import Connection

from holdfast.model.cache import CachedResult
from holdfast.model.events import Event
from holdfast.model.family import Kin, Link
from holdfast.model.run import Run
from holdfast.model.status import CLOSED
from holdfast.model.writes import Free, Notice, Outcome, Write
from holdfast.stores.sqlite import caching, limits
from holdfast.stores.sqlite.statements import queries

SQL = queries()
CLOSED_JSON = json.dumps(sorted(CLOSED))

Apply = Callable[[Connection, Write, int], Outcome]


class Kindred:
    """The tables of a connection that is inside a transaction."""

    __slots__ = ("_apply", "_connection", "_now")

    def __init__(self, connection: Connection, now: int, apply: Apply) -> None:
        self._connection, self._now, self._apply = connection, now, apply

    def run(self, ns: str, id: str) -> Run | None:
        """Return a run's row."""
        row = self._connection.execute(SQL.run, (ns, id)).fetchone()
        return None if row is None else Run._make(row)

    def link(self, ns: str, run: str) -> Link | None:
        """Return what ties a run to its parent."""
        row = self._connection.execute(SQL.link_of_run, (ns, run)).fetchone()
        return None if row is None else Link._make(row)

    def children(self, ns: str, parent: str) -> list[Kin]:
        """Return the open children of a run."""
        values = {"ns": ns, "parent": parent, "closed": CLOSED_JSON}
        rows = self._connection.execute(SQL.open_children, values)
        return [Kin(run, Link._make(link)) for run, *link in rows]

    def tie(self, ns: str, run: str, link: Link) -> None:
        """Keep a link."""
        self._connection.execute(SQL.tie_child, (ns, run, *link))

    def closing(self, ns: str, run: str) -> Event:
        """Return the event that closed a run."""
        return Event._make(self._connection.execute(SQL.last_living_event, (ns, run)).fetchone())

    def rouse(self, ns: str, schedule: str) -> bool:
        """Have a schedule looked at if slots of it wait."""
        values = {"ns": ns, "id": schedule, "now": self._now}
        row = self._connection.execute(SQL.rouse_schedule, values).fetchone()
        return row is not None and bool(row[0])

    def apply(self, write: Write) -> Outcome:
        """Carry out one write."""
        return self._apply(self._connection, write, self._now)

    def free(self, write: Free) -> list[Notice]:
        """Give back what a run has at its queue."""
        return limits.free(self._connection, write)

    def remember(self, kept: CachedResult) -> None:
        """Keep a result for later calls."""
        caching.remember(self._connection, kept)
