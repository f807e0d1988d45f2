"""What operators ask of a store in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod

from holdfast.model.backlog import Backlog
from holdfast.model.status import QUEUED
from holdfast.stores.memory.tables import Tables


class Inspection(ABC):
    """A half of the store that operators see."""

    _tables: Tables

    @abstractmethod
    def now(self) -> int:
        """Return the store's clock."""

    async def backlog(self, ns: str) -> list[Backlog]:
        """Return what waits for workers, by workflow and queue."""
        now, found = self.now(), dict[tuple[str, str], Backlog]()
        for run in self._tables.runs.values():
            if run.ns == ns and run.status in QUEUED and run.wake_at is not None:
                key = (run.workflow, run.queue)
                found[key] = found.get(key, Backlog(*key)).plus(run.wake_at, now)
        return [found[key] for key in sorted(found)]
