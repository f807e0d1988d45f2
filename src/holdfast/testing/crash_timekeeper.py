"""How a careful caller steers schedules: each verb may be said again, and then changes nothing."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import Any

from holdfast.errors import RunNotFound, ScheduleNotFound
from holdfast.fronts.function.workflow import Bound
from holdfast.model.schedules import Schedule
from holdfast.testing.crash_answerer import Answerer


class Timekeeper(Answerer):
    """Makes schedules, and waits for what they start."""

    async def schedule(
        self, id: str, bound: Bound[Any], schedule: Schedule, *, paused: bool = False
    ) -> None:
        """Make a schedule, once."""
        schedules = self._client.schedules
        await self._surely(lambda: schedules.create(id, bound, schedule, paused=paused))

    async def trigger(self, id: str, key: str) -> str:
        """Start a run of a schedule, once for each key; return its id."""
        return await self._surely(lambda: self._client.schedules.trigger(id, key=key))

    async def backfill(self, id: str, start: datetime, end: datetime) -> None:
        """Start the slots of a time that have no run."""
        await self._surely(lambda: self._client.schedules.backfill(id, start, end))

    async def hold_schedule(self, id: str) -> None:
        """Stop the clock of a schedule."""
        await self._surely(lambda: self._client.schedules.pause(id, note="by design"))

    async def resume_schedule(self, id: str) -> None:
        """Let the clock of a schedule go on."""
        await self._surely(lambda: self._client.schedules.resume(id))

    async def unschedule(self, id: str) -> None:
        """Forget a schedule, if it is there."""
        with suppress(ScheduleNotFound):
            await self._surely(lambda: self._client.schedules.delete(id))

    async def until_there(self, run: str) -> None:
        """Return once there is such a run."""
        while True:
            with suppress(RunNotFound):
                await self.row(run)
                return
            await asyncio.sleep(10)
