"""Doing jobs: steps that runs held elsewhere, or by nobody, ask for.

    look -> take, under an epoch of its own -> run the step, without a transaction -> hand it in

To hand in is one commit: the outcome is kept where the run awaits it, the run is told, and the job
is gone. Whoever lost the job is refused there, and so is a *ghost*, whose run went on without it.
A worker looks for jobs as long as there are any for it to do, and hardly ever if there are none.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.engines.local.vault import Lacking
from holdfast.errors import StepTimedOut, StoreError
from holdfast.hosts.worker.doing import Doing, Done, convicted, told, unknown
from holdfast.hosts.worker.needing import AFTER_ERROR, LOOK_AGAIN
from holdfast.hosts.worker.shapes import SOON
from holdfast.kernel import dispatch
from holdfast.model.commands import EndJob, ReapLeases, ReportJob
from holdfast.model.jobs import (
    ClaimedJobs,
    Job,
    JobClaim,
    JobFilter,
    JobRef,
    Took,
    terms_of,
)
from holdfast.model.redacting import redact
from holdfast.model.run import SUSPECT, Loaded, Run
from holdfast.model.waits import Wait

if TYPE_CHECKING:
    from holdfast.hosts.worker.waiting import Waiting
    from holdfast.hosts.worker.worker import Worker

log = logging.getLogger("holdfast.worker")

AT_ONCE = 100
"""Jobs that one look takes."""
ROW_ONLY = 1 << 62
"""A position after every event."""
Place = tuple[str, str]


class JobHost:
    """The jobs of one worker: `held` are those it does, by run and key."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.held: dict[Place, Doing] = {}
        self._known = dict(worker.app.steps)
        self._poked = asyncio.Event()
        self._is_used = any(step.settings.queue for step in self._known.values())
        self._is_over = False
        self._serving: asyncio.Task[None] | None = None
        self._starting: asyncio.TimerHandle | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    # --- life

    def start(self, head_start: float) -> None:
        """Begin to look; a moment later if nothing says that there will be jobs."""
        if self._is_used:
            self._start()
        else:
            self._starting = asyncio.get_running_loop().call_later(head_start, self._start)

    def _start(self) -> None:
        self._serving = asyncio.create_task(self._serve(0 if self._is_used else SOON))

    async def stop(self) -> None:
        """Take no more, let the jobs end that run, and give back what is not over in time."""
        self._is_over = True
        self._poked.set()
        if self._starting is not None:
            self._starting.cancel()
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._worker.settings.drain)
        left = tuple(self.held.values())
        for doing in left:
            doing.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._worker.settings.lease)
        for task in tuple(self._tasks):
            task.cancel()
        for doing in left:
            await self._give_back(doing)

    def leave_line(self) -> None:
        """Give back the jobs that wait for a thread in vain."""
        for doing in tuple(self.held.values()):
            if doing.is_in_line:
                doing.stop()
                self._worker.beside(self._give_back(doing))

    @property
    def is_busy(self) -> bool:
        """Tell whether the worker has anything in hand, runs or jobs."""
        return bool(self.held or self._worker.sessions)

    def know(self, step: Any) -> None:
        """Do jobs of this step, too."""
        self._known.setdefault(step.name, step)
        self._is_used = True

    def poke(self) -> None:
        """Look now, if there may be something to do."""
        if self._is_used or self.held:
            self._poked.set()

    def hear(self, what: str) -> None:
        """Take a hint that something changed."""
        self._is_used = self._is_used or what == "job"
        self.poke()

    # --- taking jobs

    async def _serve(self, delay: float) -> None:
        worker, failures = self._worker, 0
        await self._until_poked(delay)
        while not self._is_over:
            self._poked.clear()
            try:
                wait = await self._look()
            except StoreError as error:
                log.debug("jobs could not be looked at: %s", error)
            except Exception:  # a worker that looks no more would seem well, and do no job
                log.exception("worker %s failed at its look for jobs, and tries again", worker.id)
            else:
                failures = 0
                await self._until_poked(wait)
                continue
            await worker.be_patient(failures)
            failures += 1

    async def _look(self) -> float:
        """Take what can begin, and see what became of the rest. Return when to look again."""
        worker, held = self._worker, dict(self.held)
        settings = worker.settings
        suspects = any(doing.job.strikes >= SUSPECT for doing in held.values())
        is_idle = worker.health.trouble is None and not self._is_over
        claim = JobClaim(
            worker.app.namespace, worker.id, tuple(self._known),
            min(worker.steps.free, AT_ONCE) if is_idle else 0, round(settings.lease * 1e6),
            None if settings.queues is None else tuple(settings.queues), 0 if suspects else 1,
            worker.info,
        )  # fmt: skip
        found = await worker.store.jobs.claim(claim)
        self._is_used = self._is_used or found.is_any
        if found.jobs:
            worker.lease.note()
        for job in found.held:
            # Also those that are ours without our knowledge: nobody else has begun them.
            known = self.held.get(job.place) or held.get(job.place)  # which has ended meanwhile
            if known is None or known.job.epoch != job.epoch:
                self._begin(job)
        self._let_ghosts_go(held, found)
        await self._reap(found)
        return self._pause_after(found)

    def _let_ghosts_go(self, before: dict[Place, Doing], found: ClaimedJobs) -> None:
        """Stop what was called off, or taken from us."""
        ours = {(job.place, job.epoch) for job in found.held}
        for place, doing in before.items():
            if (place, doing.job.epoch) not in ours:
                doing.stop(is_ghost=True)

    async def _reap(self, found: ClaimedJobs) -> None:
        was_ill = self._worker.health.was_ill(self._worker.settings.lease)
        dead = [(worker, known) for worker, known in found.dead if known or not was_ill]
        if not dead:
            return
        commands = [ReapLeases(*each) for each in dead]
        outcomes = await self._worker.store.write([dispatch.decide(each) for each in commands])
        for (worker, _), outcome in zip(dead, outcomes, strict=True):
            if outcome.total:
                log.warning(
                    "worker %s is gone; %d of its runs and jobs go on", worker, outcome.total
                )
                self._poked.set()

    def _pause_after(self, found: ClaimedJobs) -> float:
        settings = self._worker.settings
        rest = settings.poll if self._is_used else max(settings.poll, settings.lease)
        if found.next_wake_at is None:
            return rest
        return min(rest, max(0.0, (found.next_wake_at - self._worker.store.now()) / 1e6))

    async def _until_poked(self, seconds: float) -> None:
        if self._is_over:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._poked.wait()
        except TimeoutError:
            return

    # --- doing them

    def _begin(self, job: Job) -> None:
        self._worker.live()
        doing = Doing(self._worker, job, self._known[job.step])
        self.held[job.place] = doing
        task = doing.task = asyncio.create_task(self._do(doing), name=f"holdfast job {job.key}")
        self._tasks[task] = None
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)

    async def _do(self, doing: Doing) -> None:
        job = doing.job
        try:
            ended = self._verdict(doing)
            if ended is None:
                if job.epoch > 1 or job.attempt > 1:
                    doing.know(await self._progress(job))
                ended = await doing.attempt()
            await self._hand_in(doing, ended)
        except asyncio.CancelledError:
            if not doing.is_stopped:
                raise
        except Lacking as error:
            log.warning("job %s of run %s must wait: %s", job.key, job.run, redact(str(error)))
            wait = LOOK_AGAIN if error.is_certain else AFTER_ERROR
            await self._give_back(doing, wait)
        except Exception:
            log.exception("job %s of run %s broke its host", job.key, job.run)
            await self._give_back(doing)
        finally:
            doing.state = "closed"
            is_left = doing.is_stopped and not doing.is_ghost  # it is to be given back
            if self.held.get(job.place) is doing and not is_left:
                del self.held[job.place]
            self.poke()

    def _verdict(self, doing: Doing) -> Done | None:
        """Return how a job has ended that must not begin; None if it may."""
        job, now = doing.job, self._worker.store.now()
        if job.strikes and doing.terms.at_most_once:
            return unknown(doing.step, job)
        if job.strikes >= self._worker.settings.strikes:
            return convicted(job)
        if job.start_by is not None and job.start_by <= now:
            return Done(told(doing.step, job, _late(job, now), final=True))
        return None

    async def _progress(self, job: Job) -> Loaded | None:
        """Read the heartbeats that former attempts left."""
        for failures in itertools.count():
            try:
                return await self._worker.store.load(job.ns, job.run, ROW_ONLY)
            except StoreError as error:
                self._worker.health.failed(error)
                await self._worker.be_patient(failures)
        raise AssertionError("there are always more numbers")

    async def _hand_in(self, doing: Doing, ended: Done) -> None:
        """Have the outcome kept, however long the store is away; told twice, it counts once."""
        job, doing.is_ending = doing.job, True
        said = await doing.last_words()
        ref = JobRef(job.key, job.owner, job.epoch, said)
        command = self._ending(job, ref, ended, beats=doing.has_beaten)
        who = f"job {job.run} {job.key}"
        for failures in itertools.count():
            try:
                (outcome,) = await self._worker.store.write([dispatch.decide(command)])
            except StoreError as error:
                self._worker.health.failed(error, who)
                await self._worker.be_patient(failures)
                continue
            if failures:
                self._worker.health.works(who)
            if not (dispatch.read(command, outcome) or outcome.total or failures):
                log.info("run %s went on without job %s", job.run, job.key)
                self._worker.refusals += 1
            return

    def _ending(self, job: Job, ref: JobRef, ended: Done, *, beats: bool = False) -> EndJob:
        took, at, by = Took(ended.took, beats).encoded(), self._worker.store.now(), self._worker.id
        return EndJob(job.ns, job.run, ref, job.secret, ended.outcome, took, at, by)

    async def _give_back(self, doing: Doing, wait: float = 0) -> None:
        """Leave a job to others; one that runs at most once and has begun is over."""
        job, at = doing.job, self._worker.store.now() + round(wait * 1e6)
        if not doing.is_ghost:
            ref = JobRef(job.key, job.owner, job.epoch)
            command: Any = ReportJob(job.ns, job.run, ref, back_at=at)
            if doing.has_begun and doing.terms.at_most_once:
                command = self._ending(job, ref, unknown(doing.step, job))
            try:
                await self._worker.store.write([dispatch.decide(command)])
            except StoreError as error:  # it is taken from us when our lease is over
                log.warning("job %s of run %s could not be given back: %s", job.key, job.run, error)
        self.held.pop(job.place, None)

    # --- for the runs that are held here

    async def teach(self, waiting: Waiting, run: Run) -> None:
        """Read what a run waits for from outside: jobs first, as their outcomes come after them."""
        jobs = None
        if waiting.has_jobs:
            wanted = JobFilter(run.ns, run.id, limit=ROW_ONLY)
            jobs = frozenset(job.key for job in await self._find(wanted))
        waiting.learn(await self._worker.waits_of(run), jobs)

    def look_at(self, row: Wait, looks: dict[str, int], then: Callable[[], None]) -> None:
        """End a job that nobody has begun in time; of another, note when to look again."""
        self._worker.beside(self._look_at(row, looks, then))

    async def _look_at(self, row: Wait, looks: dict[str, int], then: Callable[[], None]) -> None:
        found = await self._find(JobFilter(row.ns, row.run, limit=ROW_ONLY))
        jobs = [job for job in found if job.secret == row.secret]
        if not jobs:
            return  # it has ended, and its word is on its way
        job, now = jobs[0], self._worker.store.now()
        due = terms_of(job).due
        is_late = job.start_by is not None and job.start_by <= now
        if job.owner is None and (is_late or (due is not None and due <= now)):
            await self._end_unbegun(job, now)
        again = now + round(self._worker.settings.lease * 1e6)
        looks[row.key] = again if due is None or due <= now else due
        if due is None and job.owner is not None:
            looks[row.key] = ROW_ONLY
        then()

    async def _end_unbegun(self, job: Job, now: int) -> None:
        step = self._known.get(job.step)
        if step is None:
            return
        ended = Done(told(step, job, _late(job, now), final=True))
        command = self._ending(job, JobRef(job.key, None, job.epoch), ended)
        try:
            await self._worker.store.write([dispatch.decide(command)])
        except StoreError as error:
            log.debug("job %s could not be ended: %s", job.key, error)  # at the next look

    async def _find(self, wanted: JobFilter) -> list[Job]:
        for failures in itertools.count():
            try:
                return await self._worker.store.jobs.find(wanted)
            except StoreError as error:
                self._worker.health.failed(error)
                await self._worker.be_patient(failures)
        raise AssertionError("there are always more numbers")


def _late(job: Job, now: int) -> StepTimedOut:
    waited = (now - job.wake_at) / 1e6
    message = f"waited {waited:g} s on queue {job.queue}, and nobody began it"
    return StepTimedOut(step=job.key, type="StepTimedOut", message=message, attempts=job.attempt)
