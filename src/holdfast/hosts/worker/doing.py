"""One job in hand: its attempt, what it says, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from zlib import crc32

from holdfast.errors import RetryAfter, StepOutcomeUnknown
from holdfast.fronts.function.completing import CompleteLater
from holdfast.fronts.function.context import NO_SECRETS
from holdfast.hosts.worker.attempts import as_error, limit_until
from holdfast.hosts.worker.notebook import NOTHING, Notebook, Said, Scribe
from holdfast.hosts.worker.steps import Result, StepRun
from holdfast.hosts.worker.voice import Voice
from holdfast.model.annotations import Annotations, LogLine
from holdfast.model.asks import StepAsk
from holdfast.model.commands import ReportJob
from holdfast.model.events import Failure
from holdfast.model.jobs import (
    NOBODY_KNOWS,
    Job,
    JobRef,
    Reported,
    kinds_of,
    reported,
    terms_of,
)
from holdfast.model.run import Loaded
from holdfast.model.secrets import Secret
from holdfast.model.waits import Token

if TYPE_CHECKING:
    from holdfast.hosts.worker.held import State
    from holdfast.hosts.worker.worker import Worker

APART = 1_000
"""Microseconds between two lines of a job: in between there is room for those of others."""


class Done(NamedTuple):
    """How a job ended: with what its run is told, or None if that comes by its token."""

    outcome: bytes | None
    took: int = 0


class Spot(NamedTuple):
    """Where the words of a job belong. Its epoch is none of the run's."""

    ns: str
    id: str
    generation: int
    epoch: int = 0


class Doing:
    """A job that this worker holds; to its attempt it is what a session is to those of a run."""

    def __init__(self, worker: Worker, job: Job, step: Any) -> None:
        self.job, self.step, self.terms = job, step, terms_of(job)
        self.worker = worker
        self.run = Spot(job.ns, job.run, job.generation)
        self.state: State = "held"
        self.notebook: JobBook | None = None
        self.running: dict[str, StepRun] = {}
        self.task: asyncio.Task[None] | None = None
        self.is_stopped = self.is_ghost = self.is_ending = False
        self.secrets: Mapping[str, Secret] = NO_SECRETS
        self._attempt: JobRun | None = None

    @property
    def has_begun(self) -> bool:
        """Tell whether its code may have run."""
        return self._attempt is not None and self._attempt.began > 0 and not self.is_in_line

    @property
    def is_in_line(self) -> bool:
        """Tell whether its code waits for a thread."""
        return self._attempt is not None and self._attempt.is_in_line

    @property
    def has_beaten(self) -> bool:
        """Tell whether the store may hold heartbeats of it."""
        return self.notebook is not None and bool(self.notebook.known)

    @property
    def callbacks(self) -> str:
        """The address at which outcomes of steps are taken; empty if there is none."""
        return self.worker.settings.callbacks

    def know(self, loaded: Loaded | None) -> None:
        """Take the heartbeat that a former attempt left."""
        if loaded is not None and loaded.progress:
            self.notes().know(beat for beat in loaded.progress if beat.key == self.job.key)

    async def attempt(self) -> Done:
        """Do it once. Raises `Lacking`, before it begins, if a secret is not here."""
        names: tuple[str, ...] = self.step.secrets
        if self.step.secrets_in is not None:
            names += self.step.secrets_in(self.job.args)
        if names:
            self.secrets = await self.worker.vault.fetch(self.job.run, names)
        ended: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._attempt = attempt = JobRun(self, ended)
        self.running[self.job.key] = attempt
        self.worker.steps.start(attempt)
        result = await ended
        if isinstance(result.error, CompleteLater):
            return Done(None, result.took)
        if result.error is not None:
            return Done(told(self.step, self.job, as_error(result.error)), result.took)
        return Done(result.payload or b"null", result.took)

    def stop(self, *, is_ghost: bool = False) -> None:
        """Have nobody wait for it any more."""
        self.is_ghost = self.is_ghost or is_ghost
        if not (self.is_stopped or self.is_ending):
            self.is_stopped = True
            if self._attempt is not None:
                self._attempt.stop()
            if self.task is not None:
                self.task.cancel()

    def must_reread(self) -> None:
        """It was taken from us, or called off."""
        self.stop(is_ghost=True)

    def notes(self) -> JobBook:
        """Return where things that are said go; most jobs say nothing."""
        self.notebook = self.notebook or JobBook(self, self.worker.scribe)
        return self.notebook

    async def last_words(self) -> Annotations | None:
        """Return what was said and is not written yet."""
        self.running.clear()
        return None if self.notebook is None else await self.notebook.rest()


class JobRun(StepRun):
    """The attempt of a job."""

    __slots__ = ("_doing",)

    def __init__(self, doing: Doing, ended: asyncio.Future[Result]) -> None:
        job, terms = doing.job, doing.terms
        options = doing.step.settings._replace(
            timeout=terms.timeout, heartbeat_timeout=terms.heartbeat_timeout
        )
        ask = StepAsk(job.key, doing.step, job.args, b"", 0, job.asked_at, options)
        limit = limit_until(options, terms.due, doing.worker.store.now)
        place: Any = doing.run
        super().__init__(place, ask, job.attempt, limit, ended.set_result, _unseen)
        self._doing = doing

    @property
    def secrets(self) -> Mapping[str, Secret]:
        """What the step lists, by name."""
        return self._doing.secrets

    @property
    def keyed_as(self) -> int:
        """The generation in its idempotency key."""
        return self._doing.terms.keyed_as

    @property
    def epoch(self) -> int:
        """The epoch under which the job is held."""
        return self._doing.job.epoch

    def token(self) -> str:
        """Return what names this attempt to whoever completes it; empty if nobody can."""
        job = self._doing.job
        if not self._doing.terms.completes_later:
            return ""
        return Token(job.ns, job.run, job.key, job.generation, job.attempt, job.secret).text()

    def callbacks(self) -> str:
        """Return the address at which outcomes are taken; empty if there is none."""
        return self._doing.callbacks

    def speak(self) -> Voice:
        """Return the voice of this attempt; most never need one."""
        if self.voice is None:
            assert self.task is not None  # noqa: S101 - its code runs
            self.voice = Voice(self, cast("Any", self._doing), self.task.get_loop())
        return self.voice


class JobBook(Notebook):
    """The notes of a job, which is fenced by itself and written beside its run's."""

    __slots__ = ("_doing", "_salt")

    def __init__(self, doing: Doing, scribe: Scribe) -> None:
        super().__init__(cast("Any", doing), scribe)
        self._doing = doing
        # Other jobs of the run speak at the same time, elsewhere: each has places of its own.
        self._salt = crc32(doing.job.key.encode()) % APART

    def _stamped(self, line: LogLine, at: int = 0) -> LogLine:
        floor = max(self._last + APART, self._scribe.now())
        self._last = floor // APART * APART
        return super()._stamped(line, self._last + self._salt)

    def command(self) -> Said | None:
        """Return what it said so far, if anything."""
        if self._doing.state != "held" or not (self._lines or self._unwritten):
            return None
        said = Annotations(tuple(self._lines), tuple(self._unwritten.values()))
        moves_on = self._moves_on and not self._doing.terms.at_most_once
        job, run = self._doing.job, self._doing.run
        ref = JobRef(job.key, job.owner, job.epoch, said)
        return ReportJob(run.ns, run.id, ref, moves_on)

    async def rest(self) -> Annotations | None:
        """Return what is not written, once the scribe is not writing it already."""
        while self.writing is not None:
            await asyncio.wait((self.writing,))
        self._doing.state = "closed"
        self._count_unsaid()
        said = Annotations(tuple(self._lines), tuple(self._unwritten.values()))
        return None if said == NOTHING else said


def told(step: Any, job: Job, error: BaseException, *, final: bool = False) -> bytes:
    """Return what a run is told of an attempt that failed."""
    delay = None
    if isinstance(error, Reported):  # of a process of its own
        return reported(error.failure, sorted(error.kinds), delay=error.delay, final=final)
    if isinstance(error, RetryAfter):
        delay = round(error.delay.total_seconds() * 1e6)
    failure: Failure = step.describe(error, job.attempt)
    return reported(failure, kinds_of(error), delay=delay, final=final)


def unknown(step: Any, job: Job) -> Done:
    """Return the end of a job that began, and of which nothing more is known."""
    error = StepOutcomeUnknown(step=job.key, type="StepOutcomeUnknown", message=NOBODY_KNOWS)
    return Done(told(step, job, error, final=True))


def convicted(job: Job) -> Done:
    """Return the end of a job that took too many workers with it."""
    message = f"{job.strikes} workers in a row were lost while they did it"
    return Done(reported(Failure("WorkersLost", message, job.attempt), (), final=True))


def _unseen(step: StepRun) -> None:
    """Its row shows that it runs: nothing need be recorded."""
