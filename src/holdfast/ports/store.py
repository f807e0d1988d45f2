"""The Store port: where runs, their histories and their inboxes live."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from holdfast.model.annotations import LogFilter, LogLine
from holdfast.model.cache import CachedResult, CachedStep, CacheFilter, CacheKey
from holdfast.model.exports import Export
from holdfast.model.labels import Labels
from holdfast.model.limits import QueueState
from holdfast.model.run import Loaded, Posted, Run
from holdfast.model.schedules import Scheduled, ScheduleFilter
from holdfast.model.secrets import Sealed
from holdfast.model.waits import Wait, WaitFilter
from holdfast.model.writes import Claim, Claimed, Filter, Notice, Outcome, Page, Write
from holdfast.ports.jobs import Jobs
from holdfast.ports.transaction import Work

Hear = Callable[[Sequence[Notice]], None]


class Store(Protocol):
    """Keeps runs. Every method may raise `StoreUnavailable`: then nothing was written."""

    jobs: Jobs
    """Where those who do jobs take them from."""

    async def open(self) -> None:
        """Be ready for the other calls. Raises `StoreVersion` or `StoreSettings`."""
        ...

    async def close(self) -> None:
        """Finish the writes under way and let go of every resource."""
        ...

    def now(self) -> int:
        """Return the store's clock in microseconds; it never goes back in one process."""
        ...

    def write(self, batch: Sequence[Write]) -> Awaitable[list[Outcome]]:
        """Carry out each write whole or not at all, in order, durable on return.

        Writes of one batch, and of batches given at the same time, may share a transaction.
        Raises `OutcomeUnknown` when the commit may or may not have happened.
        """
        ...

    async def transact(self, work: Work, seconds: float | None = None) -> Outcome:
        """Write the turn that `work` returns, in one transaction with what it wrote itself.

        Both or neither: nothing is kept if `work` raises (then `WorkFailed` is raised, with
        `Overdue` in it if it took more than so many `seconds`), nor if the turn is refused. `work`
        may be called again after that, and in another thread. Raises `OutcomeUnknown`.
        """
        ...

    async def claim(self, claim: Claim) -> Claimed:
        """Take runs for a worker, renewing its lease in the same commit.

        Writes nothing if there is nothing to take. Raises `OutcomeUnknown`.
        """
        ...

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        """Return the run, its living events with a seq above `after`, its unread messages, and the
        last heartbeats of its open steps.

        With `SINCE_START` as `after`, the events are those that are replayed: from the run's last
        continuation on, if it has one. What came before it is not read. With `END_ONLY` it is the
        one that closed the run, if it is closed, and nothing beside it, however long the history.

        From the start (`after` 0 or `SINCE_START`), the messages of an open run include updates
        that were read and not decided on: whoever takes it over must offer them to its body.
        """
        ...

    async def message(self, ns: str, run: str, id: str) -> Posted | None:
        """Return a message of a run as it stands, with the run's row; None if there is no run."""
        ...

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        """Return runs, newest first."""
        ...

    async def labels(self, ns: str, runs: Sequence[str]) -> Mapping[str, Labels]:
        """Return the tags and attributes of those runs that have some."""
        ...

    async def export(self, ns: str, run: str) -> Export | None:
        """Return everything of a run, superseded events and read messages too."""
        ...

    async def logs(self, wanted: LogFilter) -> list[LogLine]:
        """Return lines of a run's log, oldest first; none if there is no such run."""
        ...

    async def waits(self, wanted: WaitFilter) -> list[Wait]:
        """Return what runs wait for from outside, the oldest first: of one run also what is
        settled, of all runs what is open.
        """
        ...

    async def queues(self, ns: str) -> list[QueueState]:
        """Return the managed queues as they are, by name."""
        ...

    async def schedules(self, wanted: ScheduleFilter) -> list[Scheduled]:
        """Return schedules, in the order of their ids; with `workflows`, those that a worker has to
        look at, the next first.
        """
        ...

    async def secrets(self, ns: str, run: str) -> tuple[Sealed, ...]:
        """Return what a run was given for its steps, encrypted; nothing once it is closed."""
        ...

    async def recall(self, ns: str, wanted: Sequence[CacheKey]) -> Mapping[CacheKey, CachedResult]:
        """Return what is kept under these keys, but for what is expired by the store's clock."""
        ...

    async def cached(self, wanted: CacheFilter) -> list[CachedStep]:
        """Return how much is kept for later calls of steps, by step and version."""
        ...

    def listen(
        self, hear: Hear, *, worker: str = "", near: bool = False, turns: bool = True
    ) -> Callable[[], None]:
        """Call `hear` in this loop on changes, of other processes too; return the way to stop.

        Notices are hints: they may be late, doubled or missing. With `worker`, other processes
        see this one alive under that id for as long as it listens. Who cares only for changes made
        through this store says that they are `near`, and costs other processes nothing. Without
        `turns`, what only says that a run goes on may be left out.
        """
        ...
