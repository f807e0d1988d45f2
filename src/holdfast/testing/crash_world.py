"""A small world of processes on one store: workers and callers that crash and come back.

Each process is a life on one virtual loop, with a view of the store of its own. One that dies, or
that cannot reach the store, is started again after a second, as by a supervisor: a worker under a
new id, a caller with its whole script, whose commands carry the same keys as before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

from holdfast.app import App
from holdfast.client import Client
from holdfast.engines.local import LocalEngine
from holdfast.engines.local.hub import POLL
from holdfast.errors import StoreError
from holdfast.fronts.function.context import CURRENT, Attempt
from holdfast.hosts.worker import Worker
from holdfast.kernel import dispatch
from holdfast.model.commands import ReapLeases
from holdfast.model.dump import Dump
from holdfast.model.settings import Settings
from holdfast.model.status import OPEN
from holdfast.ports.keys import Keys
from holdfast.ports.store import Store
from holdfast.queues import declare
from holdfast.testing.crash import CrashStore, Flavour, Killed, Plan
from holdfast.testing.crash_caller import Acknowledged, Caller
from holdfast.testing.crash_homes import Home, MemoryHome, Observed
from holdfast.testing.loop import LIFE, Deadlock, Life
from holdfast.testing.threadless import ThreadlessLoop, without_threads

PATIENCE = 600.0
"""Virtual seconds after which a world that has not come to its end is stuck."""
REST = 1.0
"""Seconds between a process's death and its next life."""
LOOKS = 10
"""How often workers look around after a fault, once every `REST` seconds, if it is watched."""

SETTINGS = Settings(poll=5.0, paranoid=True)

Script = Callable[[Caller], Awaitable[None]]


class Effect(NamedTuple):
    """One execution of a step's body, as seen outside the store."""

    at: int
    run: str
    generation: int
    key: str
    number: int
    note: Any
    by_zombie: bool


@dataclass(frozen=True)
class Scenario:
    """A piece of work that must end the same whatever fails on the way.

    The script's process also has a worker, unless `apart`; there are `workers` more without a
    script. `loose` names steps whose result may differ from one execution to the next; `either`
    says that several ends are right, so that only the invariants are compared. `flavours` are tried
    at every call besides what can go wrong there anyway. `deploys_at` is when every worker is asked
    to stop in good order and is started anew, in seconds. `serves` are the queues of a process's
    worker, by its role (`caller`, `worker1`, ...); one that is not there serves all. `keys` encrypt
    the secrets that runs are given.

    With `only_commits` things go wrong only at calls that change something. `is_watched` says that
    a death is seen at once, as it is among the processes of one machine, and that workers look
    around soon after a fault: then polls and leases may be long, and a year takes a moment.
    `prepare` is called before each world, `longest` is how long one may take, in seconds. What
    `look` finds in the store at the end is there for `check` to see. `around` puts a store around
    that of each process, and around the observer's.
    """

    name: str
    app: App
    script: Script
    workers: int = 0
    apart: bool = False
    settings: Settings = SETTINGS
    flavours: tuple[Flavour, ...] = ("stall", "freeze")
    loose: frozenset[str] = frozenset()
    either: bool = False
    deploys_at: float | None = None
    only_commits: bool = False
    is_watched: bool = False
    prepare: Callable[[], object] = lambda: None
    longest: float = PATIENCE
    look: Callable[[Store], Awaitable[Any]] | None = None
    check: Callable[[World], list[str]] = lambda _: []
    keys: Keys | None = None
    serves: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    around: Callable[[World, Any], Any] = lambda _, store: store


class Process(Life):
    """One incarnation of a worker or caller."""

    def __init__(self, world: World, role: str, number: int) -> None:
        super().__init__(f"{role}.{number}")
        self.world, self.role, self.number = world, role, number
        self.worker: Worker | None = None
        self.leaves = asyncio.Event()


@dataclass
class Plant:
    """Where a bug may be planted: above and below the counted calls, in the worker's class."""

    above: Callable[[Store], Store] = lambda store: store
    below: Callable[[Store], Store] = lambda store: store
    worker: type[Worker] = Worker


@dataclass
class World:
    """One run of a scenario, with faults at the given calls."""

    scenario: Scenario
    home: Home = field(default_factory=MemoryHome)
    faults: Mapping[int, Flavour] = field(default_factory=dict[int, Flavour])
    plant: Plant = field(default_factory=Plant)
    seed: int | None = None

    def __post_init__(self) -> None:
        self.loop = ThreadlessLoop(seed=self.seed)  # type: ignore[abstract]
        self.plan = Plan(self.faults, self._died, self._failed)
        self.effects: list[Effect] = []
        self.problems: list[str] = []
        self.told = Acknowledged()
        self.dump: Dump = Dump(0)
        self.seen: Any = None
        self.beside: dict[str, Any] = {}
        """What a scenario shares among the processes of a world, beside the store."""
        self._processes: list[Process] = []
        self._living = 0
        self._stopping = False
        self._outside = copy_context()

    # --- the run

    def run(self) -> World:
        """Let it happen, from the first process's start to the last one's end."""
        watch = _Watch(self.problems)
        logger = logging.getLogger("holdfast")
        logger.addHandler(watch)
        propagates, logger.propagate = logger.propagate, False
        try:
            self.loop.run(self._main())
        except Deadlock as error:
            self.problems.append(str(error))
        finally:
            self._bury()
            logger.removeHandler(watch)
            logger.propagate = propagates
        self.problems += [
            f"asyncio says: {each.get('message')}: {each.get('exception')!r}"
            for each in self.loop.errors
            if not isinstance(each.get("exception"), Killed)
        ]
        return self

    async def _main(self) -> None:
        self._scripted, self._over = asyncio.Event(), asyncio.Event()
        store = self._store()
        self.observer: Observed = self.scenario.around(self, store)
        await self.observer.open()
        roles = ["caller", *(f"worker{n}" for n in range(1, self.scenario.workers + 1))]
        self._living = len(roles)
        for role in roles:
            self._launch(role, 1)
        if self.scenario.deploys_at is not None:
            self.loop.call_later(self.scenario.deploys_at, self._tell_to_leave)
        try:
            async with asyncio.timeout(self.scenario.longest):
                await self._scripted.wait()
            self._stopping = True
            self._tell_to_leave()
            async with asyncio.timeout(self.scenario.longest):
                await self._over.wait()
        except TimeoutError:
            is_over = False
        else:
            is_over = True
        self.dump = (await self.observer.dump())._replace(journal=self.told.journal())
        # As it lies in the store, like all that was read there meanwhile.
        self.plan.watcher.see(self.dump if self.observer is store else await store.dump())
        if self.scenario.look is not None:
            self.seen = await self.scenario.look(self.observer)
        if not is_over:
            self.problems.append(f"the world did not come to its end{_left_open(self.dump)}")
        await self.home.leave()

    def _launch(self, role: str, number: int) -> None:
        process = Process(self, role, number)
        if self._stopping:
            process.leaves.set()
        self._processes.append(process)
        process.spawn(self._live(process))

    def _died(self, life: Life) -> None:
        if isinstance(life, Process):
            self.loop.call_later(REST, self._succeed, life, context=self._outside)

    def _succeed(self, life: Process) -> None:
        if self.scenario.is_watched:
            task = self.loop.create_task(self._reap(life.name), context=self._outside)
            task.add_done_callback(
                lambda _: self._launch(life.role, life.number + 1), context=self._outside
            )
        else:
            self._launch(life.role, life.number + 1)

    async def _reap(self, worker: str) -> None:
        """Take its runs from a worker that was seen to die."""
        await self.observer.write([dispatch.decide(ReapLeases(worker, True))])

    def _failed(self) -> None:
        """After a fault, have whoever lives look around a few times."""
        if self.scenario.is_watched:
            for number in range(1, LOOKS + 1):
                self.loop.call_later(number * REST, self._look_around, context=self._outside)

    def _look_around(self) -> None:
        for process in self._processes:
            if process.worker is not None and not process.is_dead:
                process.worker.look_for_more()

    async def _live(self, process: Process) -> None:
        try:
            await self._body(process)
        except Killed:
            return
        except StoreError:
            self.plan.kill(process)
        except Exception as error:
            self.problems.append(f"{process.name} ended with {error!r}")
            self._scripted.set()
            self._end()
        else:
            self._left(process)

    def _tell_to_leave(self) -> None:
        for process in self._processes:
            process.leaves.set()

    def _left(self, process: Process) -> None:
        if self._stopping or process.worker is None:
            self._end()
        else:
            self._died(process)

    def _end(self) -> None:
        self._living -= 1
        if not self._living:
            self._over.set()

    async def _body(self, process: Process) -> None:
        scripted = process.role == "caller"
        inner = self.plant.below(self._store())
        counted = CrashStore(inner, process, self.plan, owns=self.home.owns)
        store = self.scenario.around(self, self.plant.above(counted))
        async with AsyncExitStack() as stack:
            await store.open()
            stack.push_async_callback(store.close)
            if self.scenario.app.queues:
                await self._declare(store)
            host = None if scripted and self.scenario.apart else self._worker(process, store)
            poll = self.scenario.settings.poll if self.scenario.is_watched else POLL
            engine = LocalEngine(store, self.scenario.app.namespace, host, poll=poll)
            engine.vault.keys = self.scenario.keys
            engine.open()
            stack.push_async_callback(engine.close)
            if host is not None:
                await stack.enter_async_context(host)
            if scripted:
                client = Client(self.scenario.app, engine)
                await self.scenario.script(Caller(client, self.told, self._is_closed))
                self._scripted.set()
            if host is not None:
                await process.leaves.wait()

    async def _declare(self, store: Store) -> None:
        """Give the app's queues their limits, as whoever opens an app does."""
        app = self.scenario.app
        while True:
            try:
                return await declare(store, app.namespace, app.queues)
            except StoreError:
                await asyncio.sleep(POLL)

    def _worker(self, process: Process, store: Store) -> Worker:
        process.worker = self.plant.worker(
            self.scenario.app,
            store,
            id=process.name,
            settings=replace(self.scenario.settings, queues=self.scenario.serves.get(process.role)),
            chance=Random(7).random,
            threaded=False,
        )
        return without_threads(process.worker)

    def _store(self) -> Observed:
        return self.home.store(self.loop.clock)

    def _is_closed(self, run: str) -> bool:
        return self.home.is_closed(self.scenario.app.namespace, run)

    def _bury(self) -> None:
        """Close what dead processes left in memory, with nobody left to see any effect."""
        for process in self._processes:
            process.is_dead = True
            worker = process.worker
            if worker is not None:
                hands = worker.hands
                left = (*hands.sessions.values(), *hands.parked.values(), *hands.leaving)
                for session in left:
                    session.machine.close()
        self.loop.abandon()


def effect(note: Any = None, attempt: Attempt | None = None) -> None:
    """Leave a mark outside the store, as a real step does; call it in a step's body."""
    process = LIFE.get()
    if not isinstance(process, Process) or process.is_dead:
        return
    world, attempt = process.world, attempt or CURRENT.get(None)
    run, generation, key, number = "", 0, "outside", 0
    if attempt is not None:
        run, generation = attempt.run, attempt.generation
        key, number = attempt.key, attempt.number
    world.effects.append(
        Effect(world.loop.clock(), run, generation, key, number, note, process.was_frozen)
    )


def _left_open(dump: Dump) -> str:
    """Say what the runs that are still open wait for."""
    runs = [run for run in dump.runs if run.status in OPEN]
    told = [f"{run.id} is {run.status}, {run.reason or 'for no reason told'}" for run in runs]
    return f": {'; '.join(told)}" if told else ""


class _Watch(logging.Handler):
    """Takes an error in the log for what it is."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        """Note the error and what raised it; what users' code says is its own affair."""
        if record.name == "holdfast.log":
            return
        raised = record.exc_info[1] if record.exc_info else None
        self._problems.append(f"in the log: {record.getMessage()}: {raised!r}")
