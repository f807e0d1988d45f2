"""The worker: claims runs that can go on, holds each in a session, and lives by its lease."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Self, cast

from holdfast.app import App
from holdfast.engines.local.vault import Vault
from holdfast.errors import HoldfastError, StoreError, UnknownWorkflow
from holdfast.fronts.function.logs import capture
from holdfast.fronts.function.workflow import Workflow
from holdfast.hosts.worker import guard, paranoid, stuck, unlocking
from holdfast.hosts.worker.claiming import CLAIM_LIMIT, SETTLED, Rest, Room, claim_of
from holdfast.hosts.worker.clockwork import Clockwork
from holdfast.hosts.worker.collecting import collect_for_life
from holdfast.hosts.worker.convict import history_of, verdict
from holdfast.hosts.worker.exact import Exact
from holdfast.hosts.worker.expiring import expire
from holdfast.hosts.worker.hands import Hands
from holdfast.hosts.worker.health import Health
from holdfast.hosts.worker.introduction import introduced
from holdfast.hosts.worker.jobs import JobHost
from holdfast.hosts.worker.lease import Lease
from holdfast.hosts.worker.linting import lint_apart
from holdfast.hosts.worker.mending import EVERY, Mender
from holdfast.hosts.worker.notebook import Scribe
from holdfast.hosts.worker.observing import Observing
from holdfast.hosts.worker.retention import Retention
from holdfast.hosts.worker.session import Session
from holdfast.hosts.worker.shapes import SOON, Shapes
from holdfast.hosts.worker.steps import Steps
from holdfast.hosts.worker.telling import Leftovers
from holdfast.hosts.worker.watch import Watch
from holdfast.kernel import dispatch
from holdfast.machine import Machine
from holdfast.machine.looking import Look, Seen
from holdfast.model.commands import ReapLeases, RenewLease, RetireWorker
from holdfast.model.events import Event
from holdfast.model.queues import DEFAULT_QUEUE
from holdfast.model.run import ROW_ONLY, Loaded, Run
from holdfast.model.settings import DEFAULTS, Settings
from holdfast.model.waits import Wait, WaitFilter
from holdfast.model.writes import Claim, Claimed, Notice, Reap
from holdfast.ports.store import Store

log = logging.getLogger("holdfast.worker")

PATIENCE = (0.05, 5.0)
"""First and longest wait between two tries at a store that is away, in seconds."""

LINT_AFTER = 1.0
"""Seconds after its start when a worker looks through the source of its workflows."""


class Worker:
    """Runs an app's workflows on a store: `async with Worker(app, store, id=...)`."""

    def __init__(
        self,
        app: App,
        store: Store,
        *,
        id: str,
        settings: Settings | None = None,
        chance: Callable[[], float] = random.random,
        threaded: bool = True,
    ) -> None:
        self.app, self.store, self.id = app, store, id
        self.vault = Vault(store, app.namespace, app.secrets, runs=True)
        self.settings = settings or DEFAULTS
        self.chance = chance
        chosen = self.settings
        self.steps = Steps(slots=chosen.steps, threads=chosen.threads, processes=chosen.processes)
        self.steps.calls.noticed = lambda: stuck.noticed(self)
        self.scribe = Scribe(id, store, self.settings.flush)
        self.hands = Hands(self)
        self.sessions = self.hands.sessions
        self.refusals = self.takeovers = 0
        self.observing = Observing(self, app.observers) if app.observers else None
        self.is_watched = self.observing is not None or self.settings.paranoid
        """Whether somebody looks at every commit: an observer, or a second machine."""
        self.health = Health(lambda: self._poked.set(), self._healed, jump=self.settings.renew)
        self.retention = Retention(store, app, self.settings)
        self._clockwork = Clockwork(self)
        self._shapes = Shapes(store, app.namespace)
        self._strays: frozenset[str] = frozenset()
        self._poked = asyncio.Event()
        self._linting: asyncio.TimerHandle | None = None
        self._beginning: asyncio.TimerHandle | None = None
        self._stopping = self._is_alive = False
        self.room = Room(self)
        self._rest = Rest(app.namespace)
        self._claiming: asyncio.Task[None] | None = None
        self._chores: set[asyncio.Task[None]] = set()
        queues = self.settings.queues
        self.queues = None if queues is None else tuple(queues)
        self._leftovers = Leftovers(queues)
        self.info = introduced(app, queues)
        self.jobs = JobHost(self)
        self._watch = Watch(self.settings, lambda: self.jobs.is_busy) if threaded else None
        self._lease = Lease(
            store,
            RenewLease(id, round(self.settings.lease * 1e6), info=self.info),
            renew=self.settings.renew,
            is_needed=lambda: self.jobs.is_busy and not (self._watch and self._watch.is_deaf),
            threaded=threaded,
        )

    async def __aenter__(self) -> Self:
        if self.settings.guard != "off":
            guard.install()
        self._unlisten = self.store.listen(self._hear, worker=self.id, turns=False)
        self._uncapture = capture(self.app.logs)
        if self._watch is not None:
            # Not at once: the first runs need the interpreter more.
            self._linting = asyncio.get_running_loop().call_later(LINT_AFTER, lint_apart, self.app)
        if self.observing is not None:
            self.steps.entered = self.observing.entered
            self.observing.start()
        self._claiming = asyncio.create_task(self._claim_for_life())
        loop = asyncio.get_running_loop()
        self._beginning = loop.call_later(SETTLED, self._begin_chores)
        self.jobs.start(SETTLED)
        return self

    def _begin_chores(self) -> None:
        self.live()
        self.beside(self._mend())
        self.beside(collect_for_life(self.store))

    def live(self) -> None:
        """Have the lease renewed, and the loop watched, from before any code of a user's runs.

        Not from the start: threads that begin take their time from the first claim, and from the
        reading of what it brings.
        """
        if self._is_alive:
            return
        self._is_alive = True
        if self._watch is not None:
            self._watch.aim()
        # The watch is started by the lease's thread: the first run need not wait for two.
        self._lease.start(self._watch.start if self._watch else None)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    # --- life

    async def stop(self) -> None:
        """Claim nothing more, let running steps end, give every run back, leave.

        The lease is renewed until the last run is out of our hands.
        """
        hands, self._stopping = self.hands, True
        self._poked.set()
        hands.tell(Session.drain)
        if self._beginning is not None:
            self._beginning.cancel()
        if self._claiming is not None:
            await asyncio.gather(self._claiming, return_exceptions=True)
        for task in self._chores:
            task.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        hands.tell(Session.drain)  # what the last claim brought
        await asyncio.gather(hands.empty(self.settings.drain), self.jobs.stop())
        hands.tell(Session.give_up_steps)
        await hands.empty(self.settings.lease)
        await hands.drop()
        await self._leave()

    async def _leave(self) -> None:
        await self.steps.stop()
        await self.scribe.stop()
        if self.observing is not None:
            await self.observing.stop()
        await self._lease.stop()
        if self._watch is not None:
            self._watch.stop()
        if self._linting is not None:
            self._linting.cancel()
        self._unlisten()
        self._uncapture()
        try:
            await self.store.write([dispatch.decide(RetireWorker(self.id))])
        except StoreError as error:
            log.warning("worker %s could not sign off: %s", self.id, error)

    # --- taking runs

    def offer(self, queue: str) -> Room | None:
        """Return where a run that is about to be started here can have a place, if there is one.

        Not before those that wait already: the next claim takes whichever comes first.
        """
        room = self.room
        room.is_crowded = room.is_crowded or not room.left
        if self._stopping or room.is_crowded:
            return None
        return room if self.queues is None or queue in self.queues else None

    @property
    def lease(self) -> Lease:
        """The lease, for whoever writes a run that is born in our hands."""
        return self._lease

    def held(self, run: str) -> Run | None:
        """Return the row of a run that is in our hands now, as it was when we took it."""
        session = self.sessions.get(run)
        return None if session is None or session.is_over else session.run

    async def visit(self, run: str, look: Look) -> Seen | None:
        """Look at the body of a run that is in our hands, or was parked here; else None."""
        session = self.sessions.get(run) or self.hands.parked.get(run)
        return None if session is None else await session.visit(look)

    def look_for_more(self) -> None:
        """Claim soon: there is room for one more run, or for the next suspect."""
        self._rest.hear(Notice())
        self._poked.set()
        self.jobs.poke()

    def adopt(self, run: Run, event: Event) -> None:
        """Hold a run that was just started in our name."""
        if run.id in self.sessions:
            return
        session = Exact(self, run)
        session.adopt(event)
        self.live()
        self.hands.begin(session)
        if self._stopping:
            session.drain()

    async def _claim_for_life(self) -> None:
        delay = PATIENCE[0]
        self._poked.set()  # whoever ran before us may have left work, or died
        while not self._stopping:
            poked = self._poked.is_set()
            self._poked.clear()
            try:
                if self.health.is_degraded:
                    await self._lease.renew()
                    self.health.works()
                wait = await self._claim(eager=poked and not self._rest.is_over)
                delay = PATIENCE[0]
            except StoreError as error:
                self.health.failed(error)
                wait, delay = delay, min(delay * 2, PATIENCE[1])
            except Exception:  # a worker that looks no more would seem well, and do nothing
                log.exception("worker %s failed at its look for work, and tries again", self.id)
                wait, delay = delay, min(delay * 2, PATIENCE[1])
            await self._until_poked(wait)

    async def _claim(self, *, eager: bool) -> float:
        """Take what can go on. Return how long to wait before looking again."""
        before, now = tuple(self.sessions), self.store.now()
        self.health.look_at(now)
        schedules, hints = self._clockwork.wants_a_look(now), self._rest.hints()
        # By their names only if nobody else can be waiting for a place.
        hints = () if self.room.is_crowded else hints
        claim = claim_of(self, schedules=schedules, eager=eager, hints=hints)
        claimed = await self.room.claim(claim)
        taken = len(claimed.runs)
        self.room.is_crowded = taken >= claim.limit
        self._take_all(claimed)
        await self._convict(claimed)
        self._shapes.keep_later({self.workflow_of(run) for run in claimed.runs}, self.beside)
        if claimed.held is None:
            return 0 if taken == CLAIM_LIMIT else self._rest.begin()
        self._tell_sessions(claimed, before)
        await self._take_strays(claimed, before)
        self._leftovers.tell(claimed)
        if claimed.overdue:
            await expire(self.store, claimed.overdue)
        self._clockwork.saw(claim, claimed, now)
        if claimed.dead:
            limit = min(max(claim.limit - taken, 0), self.room.left)
            taken += await self._reap(claim._replace(limit=limit), claimed)
        await self.retention.tend(idle=not taken)
        return self._rest.end(0 if taken == CLAIM_LIMIT else self._pause_after(claimed))

    async def _reap(self, claim: Claim, claimed: Claimed) -> int:
        """Take runs from the dead, and claim what there is room for in the same commit."""
        # A lease that is over says nothing if the store took no renewals, or its clock jumped.
        was_ill = self.health.was_ill(self.settings.lease)
        dead = [(worker, is_dead) for worker, is_dead in claimed.dead if is_dead or not was_ill]
        if not dead:
            return 0
        commands = [ReapLeases(worker, known_dead) for worker, known_dead in dead]
        reaps = tuple(dispatch.decide(command) for command in commands)
        again = await self.room.claim(claim._replace(reaps=cast("tuple[Reap, ...]", reaps)))
        self._take_all(again)
        await self._convict(again)
        return len(again.runs)

    async def _convict(self, claimed: Claimed) -> None:
        """Set apart what has killed too many workers in a row."""
        for run in claimed.convicts:
            command = verdict(run, await history_of(self.store, run), self.store.now())
            (outcome,) = await self.store.write([dispatch.decide(command)])
            with contextlib.suppress(HoldfastError):  # somebody was faster, or kinder
                dispatch.read(command, outcome)
                log.warning("run %s is quarantined: %s", run.id, command.reason)

    async def _mend(self) -> None:
        await asyncio.sleep(SOON)
        await unlocking.look_at_keys(self.store, self.app.namespace)
        # In virtual time, where a look at the queue is rare, so is this: a year must take a moment.
        every = max(EVERY, self.settings.poll)
        await Mender(self.app, self.store).mend_for_life(every)

    def beside(self, chore: Coroutine[Any, Any, None]) -> None:
        """Do this beside the runs, until the worker stops."""
        if self._stopping:
            chore.close()
            return
        task = asyncio.create_task(chore)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    def _take_all(self, claimed: Claimed) -> None:
        for run in claimed.runs:
            self._take(run, claimed.first_events.get(run.id), run.id in claimed.ticketed)
        if claimed.runs:
            self._lease.note()
        for worker, count in claimed.reaped:
            self.takeovers += count
            # Runs go on first.
            told = "worker %s is gone; %d of its runs can go on"
            asyncio.get_running_loop().call_later(SETTLED, log.warning, told, worker, count)

    def _take(self, run: Run, first: Event | None, ticketed: bool) -> None:
        session = self.hands.take_parked(run)
        if session is not None:
            session.take_over(run)
        else:
            session = Exact(self, run)
        session.ticketed = ticketed
        # Whoever held it before may have left heartbeats: then all of it is read.
        if first is not None and run.epoch == 1:
            session.adopt(first)
            self.live()
            self.hands.begin(session)
        else:
            self.hands.hold(session)

    async def _take_strays(self, claimed: Claimed, before: Sequence[str]) -> None:
        """Hold what is ours by the store's word only: we never learned of its claim or start.

        Seen twice in a row, so that a start whose reply is on its way is left alone.
        """
        held = claimed.held or frozenset()
        strays = held.difference(before, self.sessions)
        for run in sorted(strays & self._strays):
            loaded = await self.store.load(self.app.namespace, run, ROW_ONLY)
            if loaded is not None and loaded.run.owner == self.id and run not in self.sessions:
                log.warning("run %s was ours without our knowledge; going on with it", run)
                self._take(loaded.run, None, loaded.run.queue != DEFAULT_QUEUE)
        self._strays = strays

    def _tell_sessions(self, claimed: Claimed, before: Sequence[str]) -> None:
        for run in claimed.mail:
            if (session := self.sessions.get(run)) is not None:
                session.mail_came()
        if claimed.held is None:
            return
        for run in before:
            # Held by our own word only: somebody may have taken it; the session will look.
            if run not in claimed.held and (session := self.sessions.get(run)) is not None:
                session.must_reread()

    def _pause_after(self, claimed: Claimed) -> float:
        return self._clockwork.pause(claimed.next_wake_at)

    async def _until_poked(self, seconds: float) -> None:
        if self._stopping or seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._poked.wait()
        except TimeoutError:
            return

    # --- holding runs

    def workflow_of(self, run: Run) -> Workflow[..., Any]:
        """Return the definition that runs this run, which is one of those we claim."""
        workflow = self.app.versions.of_run(run.workflow, run.version)
        if workflow is None:
            raise UnknownWorkflow(name=run.workflow, known=self.app.versions.claims())
        return workflow

    def new_machine(self, run: Run) -> Machine:
        """Return a machine for the run's workflow, not yet fed."""
        workflow = self.workflow_of(run)
        return Machine(
            workflow.function, workflow.signature, ns=run.ns, run=run.id, guard=self.settings.guard
        )

    async def patiently(self, run: Run, after: int) -> Loaded | None:
        """Load a run, however long the store is away."""
        for failures in itertools.count():
            try:
                return await self.store.load(run.ns, run.id, after)
            except StoreError as error:
                self.health.failed(error)
                await self.be_patient(failures)
        raise AssertionError("there are always more numbers")

    async def waits_of(self, run: Run, key: str = "") -> list[Wait]:
        """Return what a run waits for from outside, or one of it, once the store is there."""
        for failures in itertools.count():
            try:
                return await self.store.waits(WaitFilter(run.ns, run.id, key, limit=ROW_ONLY))
            except StoreError as error:
                self.health.failed(error)
                await self.be_patient(failures)
        raise AssertionError("there are always more numbers")

    def _healed(self) -> None:
        """Start what was held back while the store took no writes."""
        for session in self.sessions.values():
            session.go_on()

    async def be_patient(self, failures: int) -> None:
        """Wait before another try, longer after each failure."""
        await asyncio.sleep(min(PATIENCE[0] * 2 ** min(failures, 16), PATIENCE[1]))

    async def check_replay(self, run: Run, seq: int, machine: Machine) -> None:
        """Replay the stored history on a second machine: both must want the same."""
        await paranoid.check(self, run, seq, machine)

    # --- hints

    def _hear(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            what = notice.what
            if what in ("events", "replied", "closed"):
                continue
            if what != "mail":
                self._clockwork.hear(what)
                self.jobs.hear(what)
                if what == "job":
                    continue
            session = self.sessions.get(notice.run)
            if session is None or what == "ready":
                self._rest.hear(notice)
                self._poked.set()
                if self.observing is not None:
                    self.observing.heard(notice)
            elif what == "mail":
                session.mail_came()
            else:
                session.must_reread()
