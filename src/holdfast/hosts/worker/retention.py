"""Forgetting closed runs, a small batch at a time, by whichever worker has nothing better to do.

No worker leads: each tries, and the store lets one batch through per interval.
"""

from __future__ import annotations

from holdfast.kernel import dispatch
from holdfast.model.commands import PruneRuns
from holdfast.model.durations import microseconds
from holdfast.model.settings import Settings
from holdfast.ports.store import Store

BATCH = 100
EVERY = 1_000_000
"""Microseconds between two batches of a store's namespace."""
REST = 60_000_000
"""Microseconds until the next look when nothing was old enough, or when there was other work."""


class Retention:
    """Calls for a batch when one may be due."""

    def __init__(self, store: Store, ns: str, settings: Settings) -> None:
        self._store, self._ns = store, ns
        kept = settings.retention
        self._kept = None if kept is None else microseconds(kept, field="Settings.retention")
        self._next = 0

    async def tend(self, *, idle: bool) -> None:
        """Forget one batch, if it is time; a worker with other work does so now and then only."""
        now = self._store.now()
        if self._kept is None or now < self._next + (0 if idle else REST):
            return
        command = PruneRuns(self._ns, now - self._kept, BATCH, EVERY)
        (outcome,) = await self._store.write([dispatch.decide(command)])
        full = dispatch.read(command, outcome) == BATCH or not outcome.applied
        self._next = now + (EVERY if full else REST)
