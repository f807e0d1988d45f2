"""Forgetting closed runs and expired results, a small batch at a time, by whichever worker has
nothing better to do.

No worker leads: each tries, and the store lets one batch of runs through per interval. Results that
are expired are used by nobody, so two who forget them at once only share the work.
"""

from __future__ import annotations

from holdfast.app import App
from holdfast.kernel import dispatch
from holdfast.model.commands import ForgetResults, PruneRuns
from holdfast.model.durations import microseconds
from holdfast.model.settings import Settings
from holdfast.ports.store import Store

BATCH = 100
RESULTS = 500
EVERY = 1_000_000
"""Microseconds between two batches of a store's namespace."""
REST = 60_000_000
"""Microseconds until the next look when nothing was old enough, or when there was other work."""


class Retention:
    """Calls for a batch when one may be due."""

    def __init__(self, store: Store, app: App, settings: Settings) -> None:
        self._store, self._ns = store, app.namespace
        kept = settings.retention
        self._kept = None if kept is None else microseconds(kept, field="Settings.retention")
        self._next = self._next_results = 0
        self.caches = any(step.settings.cache is not None for step in app.steps.values())
        """Whether there are steps here whose results are kept for a while."""

    async def tend(self, *, idle: bool) -> None:
        """Forget one batch, if it is time; a worker with other work does so now and then only."""
        now, late = self._store.now(), 0 if idle else REST
        if self._kept is not None and now >= self._next + late:
            await self._forget_runs(now, now - self._kept)
        if self.caches and now >= self._next_results + late:
            await self._forget_results(now)

    async def _forget_runs(self, now: int, before: int) -> None:
        command = PruneRuns(self._ns, before, BATCH, EVERY)
        (outcome,) = await self._store.write([dispatch.decide(command)])
        full = dispatch.read(command, outcome) == BATCH or not outcome.applied
        self._next = now + (EVERY if full else REST)

    async def _forget_results(self, now: int) -> None:
        command = ForgetResults(self._ns, limit=RESULTS)
        (outcome,) = await self._store.write([dispatch.decide(command)])
        full = dispatch.read(command, outcome) == RESULTS
        self._next_results = now + (EVERY if full else REST)
