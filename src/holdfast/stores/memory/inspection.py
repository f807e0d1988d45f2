"""What operators ask of a store in memory."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from holdfast.model.backlog import Backlog
from holdfast.model.schedules import Scheduled, ScheduleFilter
from holdfast.model.status import QUEUED
from holdfast.stores.memory.tables import Tables


class Inspection(ABC):
    """A half of the store: what is kept beside runs, and what operators see."""

    _tables: Tables

    @abstractmethod
    def now(self) -> int:
        """Return the store's clock."""

    async def schedules(self, wanted: ScheduleFilter) -> list[Scheduled]:
        """Return schedules, in their order, or the next to be looked at."""
        await asyncio.sleep(0)
        rows = [row for row in self._tables.schedules.values() if wanted.fits(row)]
        if wanted.workflows is not None:
            rows.sort(key=lambda row: (row.next_at or 0, row.id))
        else:
            rows.sort(key=lambda row: row.id)
        return rows[: wanted.limit]

    async def backlog(self, ns: str) -> list[Backlog]:
        """Return what waits for workers, by workflow and queue."""
        now, found = self.now(), dict[tuple[str, str], Backlog]()
        for run in self._tables.runs.values():
            if run.ns == ns and run.status in QUEUED and run.wake_at is not None:
                key = (run.workflow, run.queue)
                ticket = self._tables.tickets.get((ns, run.id))
                is_in_line = ticket is not None and ticket.state == "waiting"
                before = found.get(key, Backlog(*key))
                found[key] = before.plus(run.wake_at, now, is_in_line=is_in_line)
        return [found[key] for key in sorted(found)]
