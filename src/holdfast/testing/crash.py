"""A store that counts its calls and has the world fail at one of them.

Every call of every method is a point. At a point the process that calls may die before the call or
right after it; a write or a claim may be of unknown outcome, having happened or not; a read may
find the store away; and the process may be held up before the call, shortly or past its lease. A
process that died runs no clean-up code, and nothing of it reaches the store any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from typing import Any, Literal, NamedTuple, TypeVar

from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.annotations import LogFilter, LogLine
from holdfast.model.cache import CachedResult, CachedStep, CacheFilter, CacheKey
from holdfast.model.exports import Export
from holdfast.model.jobs import ClaimedJobs, Job, JobClaim, JobFilter
from holdfast.model.labels import Labels
from holdfast.model.limits import QueueState
from holdfast.model.run import Loaded, Posted, Run
from holdfast.model.schedules import Scheduled, ScheduleFilter
from holdfast.model.secrets import Sealed
from holdfast.model.waits import Wait, WaitFilter
from holdfast.model.writes import Advance, Claim, Claimed, Filter, Notice, Outcome, Page, Write
from holdfast.ports.jobs import Jobs
from holdfast.ports.store import Hear, Store
from holdfast.ports.transaction import Work
from holdfast.testing.loop import LIFE, Life
from holdfast.testing.watching import Watcher

T = TypeVar("T")

Flavour = Literal[
    "before", "after", "sent", "unheard", "happened", "lost", "away", "stall", "freeze"
]
"""`before`, `after`: the process dies at that instant. `sent`, `unheard`: it dies while a write, or
the reply to it, is on its way, having gone on with other things meanwhile. `happened`, `lost`: the
outcome of a write is unknown, and it did or did not happen. `away`: a read finds no store. `stall`,
`freeze`: the process stands still before the call, for less or for more than a lease."""

FLAVOURS: Mapping[str, tuple[Flavour, ...]] = {
    "open": ("before", "after", "away"),
    "close": ("before", "after", "away"),
    # It writes nothing and waits for nothing: after it is the same as before it.
    "now": ("before",),
    "write": ("before", "after", "sent", "unheard", "happened", "lost"),
    "transact": ("before", "after", "sent", "unheard", "happened", "lost"),
    "claim": ("before", "after", "sent", "unheard", "happened", "lost"),
    "message": ("before", "after", "away"),
    "load": ("before", "after", "away"),
    "find": ("before", "after", "away"),
    "labels": ("before", "after", "away"),
    "export": ("before", "after", "away"),
    "logs": ("before", "after", "away"),
    "waits": ("before", "after", "away"),
    "queues": ("before", "after", "away"),
    "claim_jobs": ("before", "after", "sent", "unheard", "happened", "lost"),
    "find_jobs": ("before", "after", "away"),
    "schedules": ("before", "after", "away"),
    "secrets": ("before", "after", "away"),
    "recall": ("before", "after", "away"),
    "cached": ("before", "after", "away"),
    # A crash while signing up is a crash; the call itself has no outcome that could be unknown.
    "listen": ("before", "after"),
}
"""What can go wrong at a call of each method of the Store port."""

STANDSTILL: Mapping[Flavour, float] = {"stall": 3.0, "freeze": 45.0}
"""How long a process stands still, in seconds."""
ON_ITS_WAY = 0.5
"""How long a write, or the reply to it, is on its way before the process dies, in seconds."""


class Killed(BaseException):
    """Unwinds the synchronous code in which a process died."""


class Call(NamedTuple):
    """One call of the store: who, which method, and what it was about."""

    life: str
    method: str
    what: str = ""
    events: str = ""
    """What a write records."""

    def __str__(self) -> str:
        events = f": {self.events}" if self.events else ""
        return f"{self.method}({self.what}{events}) of {self.life}"


class Plan:
    """Which calls fail how, and which calls were made."""

    def __init__(
        self,
        faults: Mapping[int, Flavour],
        died: Callable[[Life], None] = lambda _: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self.faults, self._died, self._failed = faults, died, failed
        self.calls: list[Call] = []
        self.fired: list[int] = []
        self.commits: set[int] = set()
        """The calls that changed something: writes, and claims that took a run."""
        self.watcher = Watcher()
        """Sees each run that is started, claimed or read, in whatever process."""

    def count(self, life: Life, call: Call) -> Flavour | None:
        """Number a call, and tell what goes wrong at it."""
        if life.is_dead:
            raise Killed
        place = len(self.calls)
        self.calls.append(call)
        if call.method in ("write", "transact"):
            self.commits.add(place)
        flavour = self.faults.get(place)
        if flavour is not None:
            self.fired.append(place)
            self._failed()
        return flavour

    def kill(self, life: Life) -> None:
        """End a life as SIGKILL does."""
        life.kill()
        self._died(life)


class CrashStore:
    """The store as one process sees it. `owns` says that closing it closes `inner`."""

    def __init__(self, inner: Store, life: Life, plan: Plan, *, owns: bool = True) -> None:
        self._inner, self._life, self._plan, self._owns = inner, life, plan, owns
        self._deaf: list[Callable[[], None]] = []
        self.jobs: Jobs = CrashJobs(inner, plan, self._call)

    async def open(self) -> None:
        """Open `inner`."""
        await self._call("open", self._inner.open)

    async def close(self) -> None:
        """Close `inner`, or only stop listening if others use it too."""
        await self._call("close", self._close)

    def now(self) -> int:
        """Return the store's clock."""
        self._sync("now", "before")
        return self._inner.now()

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        """Carry out the batch, or be in doubt."""
        what = ",".join(type(write).__name__ for write in batch)

        async def written() -> list[Outcome]:
            outcomes = await self._inner.write(batch)
            for outcome in outcomes:
                if outcome.run is not None:
                    self._plan.watcher.see_run(outcome.run)
            return outcomes

        return await self._call("write", written, what, _recorded(batch))

    async def transact(self, work: Work, seconds: float | None = None) -> Outcome:
        """Do a user's work and write its turn, or be in doubt."""
        return await self._call("transact", lambda: self._inner.transact(work, seconds))

    async def claim(self, claim: Claim) -> Claimed:
        """Take runs, or be in doubt."""
        place = len(self._plan.calls)  # the number that this call is about to get

        async def take() -> Claimed:
            claimed = await self._inner.claim(claim)
            if claimed.runs:
                self._plan.commits.add(place)
            for run in claimed.runs:
                self._plan.watcher.see_run(run)
            return claimed

        return await self._call("claim", take)

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        """Read a run."""

        async def read() -> Loaded | None:
            loaded = await self._inner.load(ns, run, after)
            if loaded is not None:
                self._plan.watcher.see_run(loaded.run, loaded.events)
            return loaded

        return await self._call("load", read, run)

    async def message(self, ns: str, run: str, id: str) -> Posted | None:
        """Read a message."""
        return await self._call("message", lambda: self._inner.message(ns, run, id), run)

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        """Read rows."""
        return await self._call("find", lambda: self._inner.find(filter, page))

    async def labels(self, ns: str, runs: Sequence[str]) -> Mapping[str, Labels]:
        """Read tags and attributes."""
        return await self._call("labels", lambda: self._inner.labels(ns, runs))

    async def export(self, ns: str, run: str) -> Export | None:
        """Read all of a run."""
        return await self._call("export", lambda: self._inner.export(ns, run), run)

    async def logs(self, wanted: LogFilter) -> list[LogLine]:
        """Read log lines."""
        return await self._call("logs", lambda: self._inner.logs(wanted), wanted.run)

    async def waits(self, wanted: WaitFilter) -> list[Wait]:
        """Read what runs wait for from outside."""
        return await self._call("waits", lambda: self._inner.waits(wanted), wanted.run)

    async def queues(self, ns: str) -> list[QueueState]:
        """Read the managed queues."""
        return await self._call("queues", lambda: self._inner.queues(ns))

    async def schedules(self, wanted: ScheduleFilter) -> list[Scheduled]:
        """Read schedules."""
        return await self._call("schedules", lambda: self._inner.schedules(wanted))

    async def secrets(self, ns: str, run: str) -> tuple[Sealed, ...]:
        """Read what a run was given for its steps."""
        return await self._call("secrets", lambda: self._inner.secrets(ns, run), run)

    async def recall(self, ns: str, wanted: Sequence[CacheKey]) -> Mapping[CacheKey, CachedResult]:
        """Read what is kept for later calls."""
        return await self._call("recall", lambda: self._inner.recall(ns, wanted))

    async def cached(self, wanted: CacheFilter) -> list[CachedStep]:
        """Read how much is kept for later calls."""
        return await self._call("cached", lambda: self._inner.cached(wanted))

    def listen(
        self, hear: Hear, *, worker: str = "", near: bool = False, turns: bool = True
    ) -> Callable[[], None]:
        """Hear of what others do as a process of its own would: in its own time."""
        flavour = self._sync("listen", "before")
        stop = self._inner.listen(self._hearing(hear), worker=worker, near=near, turns=turns)
        self._deaf.append(stop)
        if flavour == "after":
            self._plan.kill(self._life)
            raise Killed
        return stop

    async def _call(
        self, method: str, call: Callable[[], Awaitable[T]], what: str = "", events: str = ""
    ) -> T:
        flavour = self._plan.count(self._life, Call(self._life.name, method, what, events))
        if flavour is not None:
            await self._before(flavour)
        result = await call()
        if flavour is not None:
            await self._after(flavour)
        return result

    async def _before(self, flavour: Flavour) -> None:
        match flavour:
            case "stall" | "freeze":
                await self._stand_still(STANDSTILL[flavour])
            case "before":
                await self._die()
            case "sent":
                await asyncio.sleep(ON_ITS_WAY)
                await self._die()
            case "away":
                raise StoreUnavailable("The store is away, by design of this test.")
            case "lost":
                raise OutcomeUnknown("Nothing was written, but who knows.")
            case _:
                return

    async def _after(self, flavour: Flavour) -> None:
        if flavour == "unheard":
            await asyncio.sleep(ON_ITS_WAY)
        if flavour in ("after", "unheard"):
            await self._die()
        if flavour == "happened":
            raise OutcomeUnknown("It was written, but who knows.")

    def _sync(self, method: str, deadly: Flavour) -> Flavour | None:
        flavour = self._plan.count(self._life, Call(self._life.name, method))
        if flavour == deadly:
            self._plan.kill(self._life)
            raise Killed
        return flavour

    async def _die(self) -> None:
        self._plan.kill(self._life)
        await asyncio.get_running_loop().create_future()

    async def _stand_still(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._life.freeze()
        context = copy_context()
        context.run(LIFE.set, None)  # whoever thaws it is not frozen
        loop.call_later(seconds, self._life.thaw, context=context)
        await asyncio.sleep(0)

    async def _close(self) -> None:
        if self._owns:
            await self._inner.close()
        for stop in self._deaf:
            stop()

    def _hearing(self, hear: Hear) -> Hear:
        context, life = copy_context(), self._life

        def heard(notices: Sequence[Notice]) -> None:
            if LIFE.get() is life:
                hear(notices)
            elif not life.is_dead:
                asyncio.get_running_loop().call_soon(hear, notices, context=context)

        return heard


class CrashJobs:
    """The jobs of the store as one process sees them."""

    def __init__(self, inner: Store, plan: Plan, call: Callable[..., Awaitable[Any]]) -> None:
        self._inner, self._plan, self._call = inner, plan, call

    async def claim(self, claim: JobClaim) -> ClaimedJobs:
        """Take jobs, or be in doubt."""
        place = len(self._plan.calls)  # the number that this call is about to get

        async def take() -> ClaimedJobs:
            claimed = await self._inner.jobs.claim(claim)
            if claimed.jobs:
                self._plan.commits.add(place)
            return claimed

        found: ClaimedJobs = await self._call("claim_jobs", take)
        return found

    async def find(self, wanted: JobFilter) -> list[Job]:
        """Read jobs."""
        read: list[Job] = await self._call("find_jobs", lambda: self._inner.jobs.find(wanted))
        return read


def _recorded(batch: Sequence[Write]) -> str:
    """Name the events of a batch, as a person would: `step.completed charge#1`."""
    events = [
        event for write in batch for event in (write.events if isinstance(write, Advance) else ())
    ]
    return ", ".join(f"{event.kind} {event.key}".rstrip() for event in events)
