"""A store whose calls take no time: each is carried out in another thread while the caller stands.

A loop with virtual time cannot wait for a socket. It need not: nothing else happens meanwhile, so
every call of the store is one step of the loop, as it is on `memory://`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast.model.annotations import LogFilter, LogLine
from holdfast.model.cache import CachedResult, CachedStep, CacheFilter, CacheKey
from holdfast.model.dump import Dump, RunKey
from holdfast.model.exports import Export
from holdfast.model.jobs import ClaimedJobs, Job, JobClaim, JobFilter
from holdfast.model.labels import Labels
from holdfast.model.limits import QueueState
from holdfast.model.run import Loaded, Posted, Run
from holdfast.model.schedules import Scheduled, ScheduleFilter
from holdfast.model.secrets import Sealed
from holdfast.model.waits import Wait, WaitFilter
from holdfast.model.writes import Claim, Claimed, Filter, Notice, Outcome, Page, Write
from holdfast.ports.jobs import Jobs
from holdfast.ports.store import Hear, Store
from holdfast.ports.transaction import Work
from holdfast.testing.crash_homes import Observed

T = TypeVar("T")


class Elsewhere:
    """A thread with an event loop of its own: `with Elsewhere() as elsewhere:`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="holdfast-elsewhere", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, asked: Coroutine[Any, Any, T]) -> T:
        """Return what `asked` returns, over there; the caller's thread stands still."""
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()


class Calls:
    """Calls another store."""

    def __init__(self, store: Observed, elsewhere: Elsewhere) -> None:
        self.inner, self._elsewhere = store, elsewhere
        self._hearers: list[Hear] = []
        self._heard: list[Notice] = []
        self.jobs: Jobs = InlineJobs(store, self._call)
        self.is_open = False

    async def open(self) -> None:
        """Open the store."""
        await self._call(self.inner.open)
        self.inner.listen(self._heard.extend)
        self.is_open = True

    async def close(self) -> None:
        """Close the store."""
        self.is_open = False
        self._hearers.clear()
        await self._call(self.inner.close)

    async def schedules(self, wanted: ScheduleFilter) -> list[Scheduled]:
        """Return schedules."""
        return await self._call(self.inner.schedules, wanted)

    async def _call(self, ask: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        await asyncio.sleep(0)
        found = self._elsewhere.call(ask(*args))
        heard = self._heard.copy()
        self._heard.clear()
        if heard:
            for hear in tuple(self._hearers):
                hear(heard)
        return found


class InlineStore(Calls):
    """Another store, called from any loop: each call is over when it returns."""

    def now(self) -> int:
        """Return the store's clock."""
        return self.inner.now()

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        """Carry the batch out."""
        return await self._call(_write, self.inner, batch)

    async def transact(self, work: Work, seconds: float | None = None) -> Outcome:
        """Do a user's work and write its turn."""
        return await self._call(self.inner.transact, work, seconds)

    async def claim(self, claim: Claim) -> Claimed:
        """Take runs."""
        return await self._call(self.inner.claim, claim)

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        """Return a run with its history."""
        return await self._call(self.inner.load, ns, run, after)

    async def message(self, ns: str, run: str, id: str) -> Posted | None:
        """Return a message and the row of its run."""
        return await self._call(self.inner.message, ns, run, id)

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        """Return runs, newest first."""
        return await self._call(self.inner.find, filter, page)

    async def labels(self, ns: str, runs: Sequence[str]) -> Mapping[str, Labels]:
        """Return tags and attributes."""
        return await self._call(self.inner.labels, ns, runs)

    async def export(self, ns: str, run: str) -> Export | None:
        """Return everything of a run."""
        return await self._call(self.inner.export, ns, run)

    async def logs(self, wanted: LogFilter) -> list[LogLine]:
        """Return lines of a run's log."""
        return await self._call(self.inner.logs, wanted)

    async def waits(self, wanted: WaitFilter) -> list[Wait]:
        """Return what runs wait for from outside."""
        return await self._call(self.inner.waits, wanted)

    async def queues(self, ns: str) -> list[QueueState]:
        """Return the managed queues."""
        return await self._call(self.inner.queues, ns)

    async def secrets(self, ns: str, run: str) -> tuple[Sealed, ...]:
        """Return what a run was given for its steps."""
        return await self._call(self.inner.secrets, ns, run)

    async def recall(self, ns: str, wanted: Sequence[CacheKey]) -> Mapping[CacheKey, CachedResult]:
        """Return what is kept for later calls."""
        return await self._call(self.inner.recall, ns, wanted)

    async def cached(self, wanted: CacheFilter) -> list[CachedStep]:
        """Return how much is kept for later calls."""
        return await self._call(self.inner.cached, wanted)

    async def dump(self) -> Dump:
        """Return everything."""
        return await self._call(self.inner.dump)

    async def buckets(self) -> dict[RunKey, tuple[str, ...]]:
        """Return the buckets of every run."""
        return await self._call(self.inner.buckets)

    def listen(
        self, hear: Hear, *, worker: str = "", near: bool = False, turns: bool = True
    ) -> Callable[[], None]:
        """Call `hear` after each commit of this object."""
        self._hearers.append(hear)
        return lambda: self._hearers.remove(hear) if hear in self._hearers else None


class InlineJobs:
    """The jobs of another store."""

    def __init__(self, store: Observed, call: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self._inner, self._call = store, call

    async def claim(self, claim: JobClaim) -> ClaimedJobs:
        """Take jobs."""
        found: ClaimedJobs = await self._call(self._inner.jobs.claim, claim)
        return found

    async def find(self, wanted: JobFilter) -> list[Job]:
        """Return jobs."""
        found: list[Job] = await self._call(self._inner.jobs.find, wanted)
        return found


async def _write(store: Store, batch: Sequence[Write]) -> list[Outcome]:
    return await store.write(batch)
