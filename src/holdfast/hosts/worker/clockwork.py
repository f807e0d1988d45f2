"""Schedules in the hands of a worker: it looks when one is due, and settles what is.

No worker leads. Each that knows the workflow may settle a schedule; the row changes once, and who
comes second finds it settled. When the next one is due is asked along with the look for runs, at
most once in `Settings.poll`, and after each change made in this process.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.engines.local.scheduling import open_runs, write
from holdfast.errors import InvalidSchedule, StoreError
from holdfast.fronts.function.scheduling import how_of
from holdfast.model.commands import FireSchedule
from holdfast.model.schedules import Scheduled, ScheduleFilter
from holdfast.model.writes import Claim, Claimed

if TYPE_CHECKING:
    from holdfast.hosts.worker.worker import Worker

log = logging.getLogger("holdfast.worker")

CROWD = 16
"""Schedules that are settled at the same time."""
REST = 0.1
"""Seconds before another look, if something that is due could not be settled."""


class Clockwork:
    """Settles the schedules of an app's workflows."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._app, self._store = worker, worker.app, worker.store
        self._poll = worker.settings.poll
        self._every = round(self._poll * 1_000_000)
        self._looked_at: int | None = None
        self._is_firing = False
        self._unreadable: set[tuple[str, int]] = set()
        self._due_at: int | None = None

    @property
    def due_at(self) -> int | None:
        """When the next one is due, as far as is known here; not while one is being settled."""
        return None if self._is_firing else self._due_at

    def wants_a_look(self, now: int) -> bool:
        """Tell whether it is time to ask when the next one is due."""
        return self._looked_at is None or now >= self._looked_at + self._every

    def hear(self, what: str) -> None:
        """Take a hint: if a schedule has changed, ask with the next look for runs."""
        if what == "schedule":
            self._looked_at = None

    def pause(self, wake_at: int | None) -> float:
        """Return how many seconds a worker may sleep whose next run is due at `wake_at`."""
        wakes = [at for at in (wake_at, self.due_at) if at is not None]
        if not wakes:
            return self._poll
        return min(self._poll, max(0.0, (min(wakes) - self._store.now()) / 1e6))

    def saw(self, claim: Claim, claimed: Claimed, now: int) -> None:
        """Take in what a look has shown, and settle what is due, beside the runs."""
        if claim.schedules and claimed.held is not None:
            self._due_at, self._looked_at = claimed.schedule_at, now
        if self.due_at is not None and self.due_at <= now:
            self._is_firing = True
            self._worker.beside(self._fire())

    async def _fire(self) -> None:
        try:
            if not await self._settle_all():
                await asyncio.sleep(REST)
        except StoreError as error:
            log.warning("schedules could not be settled: %s", error)
            await asyncio.sleep(REST)
        finally:
            self._is_firing = False
        self.hear("schedule")
        self._worker.look_for_more()

    async def _settle_all(self) -> bool:
        """Settle what is due; tell whether all of it was, here or elsewhere."""
        wanted = ScheduleFilter(self._app.namespace, workflows=self._app.versions.claims())
        rows, now = await self._store.schedules(wanted), self._store.now()
        due = [row for row in rows if row.next_at is not None and row.next_at <= now]
        settled = True
        for begin in range(0, len(due), CROWD):
            crowd = due[begin : begin + CROWD]
            settled &= all(await asyncio.gather(*(self._settle(row, now) for row in crowd)))
        return settled

    async def _settle(self, row: Scheduled, now: int) -> bool:
        workflow = self._app.versions.newest[row.workflow]
        try:
            command = FireSchedule(row, now, await open_runs(self._store, row), how_of(workflow))
            return await write(self._store, command)
        except InvalidSchedule as error:
            if (row.id, row.revision) not in self._unreadable:
                self._unreadable.add((row.id, row.revision))
                log.warning("schedule %s cannot be kept by this worker: %s", row.id, error)
            return False
