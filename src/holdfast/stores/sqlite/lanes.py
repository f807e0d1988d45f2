"""The queues as a claim walks them: lane by lane (`model/queues.py`), each by its index."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import closing
from sqlite3 import Connection
from typing import Any, NamedTuple

from holdfast.model.queues import NEGLECTED, PRIORITIES
from holdfast.model.run import Run
from holdfast.model.writes import Claim
from holdfast.stores.sqlite.limits import Lines
from holdfast.stores.sqlite.statements import queries

SQL = queries()
PRIORITIES_JSON = json.dumps(PRIORITIES)
SEARCHED = 200
"""Due runs among which unknown workflows are looked for: nobody takes theirs, so in time they are
the oldest."""


class Lane(NamedTuple):
    """A queue at one priority, with the time of its first run, which may be to come."""

    queue: str
    priority: int
    first_at: int


BEFORE_ALL = 0
"""No lane has that priority."""


def _turn(lane: Lane) -> tuple[int, int, str]:
    return lane.priority, lane.first_at, lane.queue


class Lanes:
    """The lanes that a claim may take from, as they are at this moment."""

    def __init__(self, connection: Connection, claim: Claim, now: int) -> None:
        self._connection, self._claim, self._now = connection, claim, now
        self._binds = {"ns": claim.ns, "now": now, "workflows": json.dumps(claim.workflows)}
        lines = Lines(connection, claim, now)
        self.lines = lines if lines.queues else None  # there are none, as a rule
        self._all: Sequence[Lane] = sorted(self._served(), key=_turn)
        self._due = [lane for lane in self._all if lane.first_at <= now]

    def due(self) -> Generator[Run]:
        """Yield the runs that can go on, in their order. Close it before the rows are changed."""
        for lane in self._due:
            yield from self._of(lane)

    def due_and_next(self, lines: Lines, chosen: list[Run]) -> Generator[Run]:
        """Yield the runs that can go on, and those that may begin, admitted; `chosen` are taken."""
        lanes = [(lane.priority, lane.first_at, lane.queue, False) for lane in self._due]
        for priority, _, queue, is_line in sorted(
            lanes + [(*head, True) for head in lines.heads()]
        ):
            if is_line:
                yield from lines.admit(queue, priority, self._claim.limit - len(chosen))
                continue
            for run in self._of(Lane(queue, priority, 0)):
                # Of those that also stood in line, some were admitted meanwhile.
                if queue not in lines.queues or (
                    run.id not in lines.begun and lines.room_on_worker(queue)
                ):
                    yield run

    def _of(self, lane: Lane) -> Generator[Run]:
        rows = self._ask(self._claimable(lane), lane, suspects=self._claim.suspects, limit=-1)
        with closing(rows):
            yield from map(Run._make, rows)

    def _claimable(self, lane: Lane) -> str:
        is_managed = self.lines is not None and lane.queue in self.lines.queues
        statement: str = SQL.claimable_begun if is_managed else SQL.claimable_runs
        return statement

    def is_any_claimable(self) -> bool:
        """Tell whether there is one."""
        suspects = self._claim.suspects
        if any(
            self._ask(self._claimable(lane), lane, suspects=suspects, limit=1).fetchone()
            for lane in self._due
        ):
            return True
        lines = self.lines
        if lines is None:
            return False
        return lines.is_any_unplaced() or any(lines.room(queue) for _, _, queue in lines.heads())

    def next_wake_at(self) -> int | None:
        """Return when the next of them becomes due."""
        found = (self._ask(SQL.next_wake_at, lane).fetchone() for lane in self._all)
        times = [row[0] for row in found if row]
        if self.lines is not None:
            times += self.lines.next_at()
        return min(times, default=None)

    def unregistered(self) -> tuple[str, ...]:
        """Return the workflows of due runs that the claimer does not know."""
        limit = max(SEARCHED // max(len(self._due), 1), 1)
        asked = (self._ask(SQL.unregistered_workflows, lane, limit=limit) for lane in self._due)
        return tuple(sorted({named for rows in asked for (named,) in rows}))

    def unserved(self) -> tuple[str, ...]:
        """Return the queues with runs due for long that the claimer does not serve."""
        if self._claim.queues is None:
            return ()
        binds = {
            "ns": self._claim.ns, "queues": json.dumps(self._claim.queues),
            "priorities": PRIORITIES_JSON, "before": self._now - NEGLECTED,
        }  # fmt: skip
        return tuple(queue for (queue,) in self._connection.execute(SQL.unserved_queues, binds))

    def _served(self) -> Generator[Lane]:
        """Yield the lanes that hold runs and that the claimer serves."""
        if self._claim.queues is not None:
            for queue in dict.fromkeys(self._claim.queues):
                yield from self._behind(queue, BEFORE_ALL)
            return
        queue = ""  # which is a queue, too
        yield from self._behind(queue, BEFORE_ALL)
        while (first := self._hop(SQL.next_queue, queue)) is not None:
            queue = first.queue
            yield first
            yield from self._behind(queue, first.priority)

    def _behind(self, queue: str, priority: int) -> Generator[Lane]:
        while (lane := self._hop(SQL.next_lane, queue, priority)) is not None:
            priority = lane.priority
            yield lane

    def _hop(self, statement: str, *place: object) -> Lane | None:
        row = self._connection.execute(statement, (self._claim.ns, *place)).fetchone()
        return None if row is None else Lane._make(row)

    def _ask(self, statement: str, lane: Lane, **more: int) -> Any:
        binds = {**self._binds, "queue": lane.queue, "priority": lane.priority, **more}
        return self._connection.execute(statement, binds)
