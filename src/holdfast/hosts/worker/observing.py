"""Telling observers what was committed: after the commit, in order, in nobody's way.

The history is the outbox. A session hands over the events of each commit that applied; each
observer has a queue and a task of its own. What does not fit into the queue is not kept: only
that the run is behind, and since which event. Its turn come, those events are read from the store,
so a slow observer costs a number for each run and misses nothing.

Which process tells of an event: the one that committed it. What was written into a run by others
is told by who takes the run up first (its start, that it was reopened), or who loses it by that
(a termination). A termination of a run in nobody's hands is told by the process that wrote it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from holdfast.errors import StoreError
from holdfast.model.backlog import Backlog
from holdfast.model.events import Event, EventKind
from holdfast.model.labels import NO_LABELS, Labels
from holdfast.model.observed import ObservedEvent, Retried, observed, observed_all
from holdfast.model.run import Run
from holdfast.model.writes import Notice
from holdfast.ports.inspection import InspectedStore
from holdfast.ports.observer import Entering, Follower, Observer, is_entering
from holdfast.ports.store import Store

if TYPE_CHECKING:
    from holdfast.hosts.worker.steps import StepRun
    from holdfast.hosts.worker.worker import Worker

log = logging.getLogger("holdfast.observers")

BUFFER = 10_000
"""Events that wait for one observer, before it has to read them from the store."""
MOST_BEHIND = 100_000
"""Runs of which one observer may be behind; beyond that the oldest is given up, and said so."""
LEAVE = 5.0
"""Seconds that observers have for what waits for them when the worker stops."""
PATIENCE = (0.05, 5.0)
"""First and longest wait between two tries at a store that is away, in seconds."""

FOREIGN: frozenset[EventKind] = frozenset(
    {"run.started", "run.resumed", "run.reopened", "run.quarantined", "run.forked"}
)
"""What others write into a run that no worker holds, or takes from the one who does."""


class _Cursor:
    """How far a run was told, and under which epoch it is, or was, in our hands."""

    __slots__ = ("epoch", "is_held", "seq")

    def __init__(self, seq: int, epoch: int) -> None:
        self.seq, self.epoch, self.is_held = seq, epoch, True


class Observing:
    """The observers of one worker."""

    def __init__(self, worker: Worker, observers: Sequence[Observer]) -> None:
        self._store, self._observers = worker.store, observers
        self._feeds = [Feed(observer, worker.store) for observer in observers]
        self._source = _Source(worker)
        self._told: dict[tuple[str, str], _Cursor] = {}
        self._retried: dict[tuple[str, str], dict[str, int]] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._unfollow: list[Callable[[], None]] = []

    @property
    def entered(self) -> Callable[[StepRun], None] | None:
        """What to call in the context of an attempt before it begins, if anything."""
        entering = [cast("Entering", each) for each in self._observers if is_entering(each)]
        if not entering:
            return None

        def enter(run: StepRun) -> None:
            for each in tuple(entering):
                try:
                    each.enter_step(run.ns, run.run, run.generation, run.key, run.number)
                except Exception:
                    entering.remove(each)  # the step runs all the same
                    told = "observer %s failed to enter a step; it is not asked again"
                    log.warning(told, type(each).__name__, exc_info=True)

        return enter

    def start(self) -> None:
        """Be ready to tell; observers that ask may do so from now on."""
        for feed in self._feeds:
            feed.start()
            if hasattr(feed.observer, "follow"):
                follower = cast("Follower", feed.observer)
                self._unfollow.append(follower.follow(self._source))

    async def stop(self) -> None:
        """Tell what waits to be told, for as long as `LEAVE` allows."""
        await _within(LEAVE, self._looking)
        await _within(LEAVE, [feed.finish() for feed in self._feeds])
        for feed in self._feeds:
            feed.say_farewell()
        for unfollow in self._unfollow:
            unfollow()

    # --- what sessions say

    def committed(self, run: Run, events: Sequence[Event], at: int) -> None:
        """Tell of the events of a commit that applied, whose turn began `at`."""
        if not events:
            return
        first, last = events[0].seq, events[-1].seq
        cursor = self._cursor(run, first - 1)
        if last <= cursor.seq:
            return  # read back before we heard that it was stored
        if cursor.seq + 1 < first:
            # A commit that was in doubt has happened, and nobody has read it yet.
            for feed in self._feeds:
                feed.lag((run.ns, run.id), cursor.seq + 1, last)
        else:
            told = [observed(run, event) for event in events]
            if (numbers := self._retried.pop((run.ns, run.id), None)) is not None:
                told = [each._replace(number=numbers.get(each.key, 1)) for each in told]
            told[0] = told[0]._replace(latency=max(self._store.now() - at, 0))
            self._tell(told)
        cursor.seq = last

    def read(self, run: Run, events: Sequence[Event]) -> None:
        """Tell of what a session finds in the history of its run, and nobody has told."""
        if not events:
            return
        known = self._told.get((run.ns, run.id))
        since = _untold(run, events) if known is None else known.seq
        self._tell([each for each in observed_all(run, events) if each.seq > since])
        cursor = self._cursor(run, since)
        cursor.seq, cursor.is_held, cursor.epoch = events[-1].seq, True, run.epoch

    def retried(self, run: Run, key: str, number: int) -> None:
        """Know which attempt of a step has ended, until the commit that holds its end."""
        self._retried.setdefault((run.ns, run.id), {})[key] = number

    def let_go(self, run: Run, *, is_lost: bool) -> None:
        """Forget a run that is out of our hands; of one that was lost, tell how."""
        self._retried.pop((run.ns, run.id), None)
        if not is_lost:
            self._told.pop((run.ns, run.id), None)
            return
        cursor = self._cursor(run, run.seq)
        cursor.is_held = False
        self._beside(self._tell_loss(run, cursor))

    def heard(self, notice: Notice) -> None:
        """Tell of a termination that was written here, of a run that is not in our hands."""
        if notice.event is not None and notice.event.kind == "run.terminated":
            for feed in self._feeds:
                feed.lag((notice.ns, notice.run), notice.seq, notice.seq)

    # --- telling

    def _cursor(self, run: Run, seq: int) -> _Cursor:
        return self._told.setdefault((run.ns, run.id), _Cursor(seq, run.epoch))

    def _tell(self, events: Sequence[ObservedEvent]) -> None:
        if events:
            for feed in self._feeds:
                feed.put(events)

    async def _tell_loss(self, run: Run, cursor: _Cursor) -> None:
        """Tell what is ours after all, of a commit in doubt, and who ended the run."""
        history = await patiently(self._store, run.ns, run.id, cursor.seq)
        if cursor.is_held:
            return  # it is in our hands again, and was read from the cursor on
        self._told.pop((run.ns, run.id), None)
        if history is not None:
            row, events = history
            ours = [each for each in events if _is_told_by_loser(each, cursor.epoch)]
            self._tell([observed(row, each) for each in ours])

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)


def _untold(run: Run, events: Sequence[Event]) -> int:
    """Return the seq after which come the events that the first holder since then tells.

    The epoch goes up with each claim and each move: without a gap, nobody held the run between.
    """
    epoch, since = run.epoch, events[-1].seq
    for event in reversed(events):
        is_first = epoch == 1 if event.kind == "run.started" else event.epoch == epoch - 1
        if event.kind not in FOREIGN or not is_first:
            break
        epoch, since = epoch - 1, event.seq - 1
    return since


def _is_told_by_loser(event: Event, epoch: int) -> bool:
    return event.epoch == epoch or (event.kind == "run.terminated" and event.epoch == epoch + 1)


class _Source:
    """What observers may ask."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._store, self._ns = worker, worker.store, worker.app.namespace

    async def history(self, run: str, after: int, retried: Retried) -> list[ObservedEvent] | None:
        """Return the run's living events with a seq above `after`; None if there is no run."""
        loaded = await self._store.load(self._ns, run, after)
        if loaded is None:
            return None
        return observed_all(loaded.run, loaded.events, retried)

    async def whole(self, run: str) -> tuple[Run, Sequence[Event]] | None:
        """Return a run and all its events, however long the store is away; None without a run."""
        return await patiently(self._store, self._ns, run, 0)

    async def labels(self, run: str) -> Labels:
        """Return the tags and attributes of a run."""
        return (await self._store.labels(self._ns, [run])).get(run, NO_LABELS)

    async def backlog(self) -> list[Backlog]:
        """Return what waits for workers, by workflow and queue."""
        return await cast("InspectedStore", self._store).backlog(self._ns)

    def now(self) -> int:
        """Return the store's clock in microseconds."""
        return self._store.now()

    def facts(self) -> Mapping[str, int]:
        """Return what the worker counts: its runs, its steps, what it took over, was refused."""
        worker = self._worker
        return {
            "runs": len(worker.sessions), "steps": worker.steps.running,
            "takeovers": worker.takeovers, "refusals": worker.refusals,
        }  # fmt: skip


class _Behind:
    """Events of a run that are to be read from the store."""

    __slots__ = ("run", "since", "upto")

    def __init__(self, run: tuple[str, str], since: int, upto: int) -> None:
        self.run, self.since, self.upto = run, since, upto


class Feed:
    """What waits for one observer, and the task that tells it."""

    def __init__(self, observer: Observer, store: Store) -> None:
        self.observer = observer
        self.failures: Counter[str] = Counter()
        self.given_up = 0
        self._store = store
        self._queue: deque[Sequence[ObservedEvent] | _Behind] = deque()
        self._size = 0
        self._behind: dict[tuple[str, str], _Behind] = {}
        self._wake = asyncio.Event()
        self._ends = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to tell."""
        self._task = asyncio.create_task(self._tell_for_life(), name=f"holdfast {self._name}")

    def finish(self) -> asyncio.Task[None]:
        """Return what is done when everything is told that waits now."""
        assert self._task is not None  # noqa: S101 - it was started
        self._ends = True
        self._wake.set()
        return self._task

    def say_farewell(self) -> None:
        """Say what was not told, or not taken."""
        if self._queue:
            log.warning("observer %s was left behind: the worker stops", self._name)
        for kind, count in self.failures.items():
            if count > 1:
                log.warning("observer %s failed %d times with %s", self._name, count, kind)

    def put(self, events: Sequence[ObservedEvent]) -> None:
        """Have the observer told of these events of one run."""
        first = events[0]
        key = (first.namespace, first.run)
        behind = self._behind.get(key)
        if behind is not None:
            behind.upto = events[-1].seq
        elif self._size >= BUFFER:
            self._fall_behind(key, first.seq, events[-1].seq)
        else:
            self._queue.append(events)
            self._size += len(events)
            self._wake.set()

    def lag(self, key: tuple[str, str], since: int, upto: int) -> None:
        """Have the observer told of events that are in the store and not at hand."""
        if (behind := self._behind.get(key)) is not None:
            behind.upto = upto
        else:
            self._fall_behind(key, since, upto)

    def _fall_behind(self, key: tuple[str, str], since: int, upto: int) -> None:
        if len(self._behind) >= MOST_BEHIND:
            oldest = next(iter(self._behind))
            self._queue.remove(self._behind.pop(oldest))
            self.given_up += 1
            if self.given_up == 1:
                told = "observer %s is behind in %d runs: events of the oldest are not told"
                log.error(told, self._name, MOST_BEHIND)
        # In the queue, after what it holds of this run: the order stays.
        self._behind[key] = behind = _Behind(key, since, upto)
        self._queue.append(behind)
        self._wake.set()

    async def _tell_for_life(self) -> None:
        while True:
            while self._queue:
                following = self._queue.popleft()
                if isinstance(following, _Behind):
                    await self._catch_up(following)
                else:
                    self._size -= len(following)
                    await self._tell(following)
            if self._ends:
                return
            self._wake.clear()
            await self._wake.wait()

    async def _catch_up(self, behind: _Behind) -> None:
        """Tell what is in the store; what is committed meanwhile has its turn after others."""
        upto = behind.upto
        history = await patiently(self._store, *behind.run, 0)
        if history is not None:
            told = observed_all(*history)
            await self._tell([each for each in told if behind.since <= each.seq <= upto])
        behind.since = upto + 1
        if history is not None and behind.upto > upto:
            self._queue.append(behind)
        else:
            self._behind.pop(behind.run, None)

    async def _tell(self, events: Sequence[ObservedEvent]) -> None:
        for event in events:
            try:
                await self.observer.on_event(event)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                self._failed(error, event)
            except Exception as error:
                self._failed(error, event)

    def _failed(self, error: BaseException, event: ObservedEvent) -> None:
        kind = type(error).__name__
        self.failures[kind] += 1
        if self.failures[kind] == 1:
            told = "observer %s failed on %s of run %s; more of its kind are only counted"
            log.warning(told, self._name, event.kind, event.run, exc_info=error)

    @property
    def _name(self) -> str:
        return type(getattr(self.observer, "tells", self.observer)).__name__


async def _within(seconds: float, tasks: Collection[asyncio.Task[None]]) -> None:
    """Wait for tasks, and cancel those that take longer."""
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def patiently(
    store: Store, ns: str, run: str, after: int
) -> tuple[Run, tuple[Event, ...]] | None:
    """Read a run's events with a seq above `after`, however long the store is away.

    Those too that no longer count: they were committed, and may not have been told.
    """
    delay = PATIENCE[0]
    while True:
        try:
            loaded = await store.load(ns, run, after)
            if loaded is None or len(loaded.events) == loaded.run.seq - after:
                return loaded and (loaded.run, loaded.events)
            whole = await store.export(ns, run)
        except StoreError:
            await asyncio.sleep(delay)
            delay = min(delay * 2, PATIENCE[1])
        else:
            return whole and (whole.run, tuple(e for e in whole.events if e.seq > after))
