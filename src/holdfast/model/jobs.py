"""Jobs: steps that run on another worker, each a row that a worker takes, does and hands back.

A job is written in the commit that asks for the step, beside the row of `waits` that its outcome
settles, and has the same secret: so an outcome is kept once, by whoever holds the job, and only as
long as the run waits for it. A job whose run went on without it is gone, and its holder is refused:
it is a *ghost*, and nothing of it counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from holdfast.model.annotations import Annotations
from holdfast.model.events import Failure
from holdfast.model.failures import decode_failure, encode_failure
from holdfast.model.run import SUSPECT

NOBODY_KNOWS = "it had begun when its worker was lost; whether it ended is not known"
"""What is said of a step that runs at most once and was lost with its worker."""


class Terms(NamedTuple):
    """How a job is to be done. Times are microseconds; None means no limit."""

    timeout: int | None = None
    """How long the attempt may take."""
    due: int | None = None
    """When all attempts must be over."""
    heartbeat_timeout: int | None = None
    at_most_once: bool = False
    completes_later: bool = False
    keyed_as: int = 1
    """The generation in its idempotency key."""

    def encoded(self) -> bytes:
        """Return what a row keeps."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


class Job(NamedTuple):
    """One row: attempt `attempt` of the step that `run` asked for under `key`.

    It can be taken from `wake_at` on, and should be by `start_by`. `epoch` counts how often it was
    taken, `strikes` how many workers were lost with it.
    """

    ns: str
    run: str
    key: str
    generation: int
    attempt: int
    secret: str
    step: str
    queue: str
    priority: int
    args: bytes
    terms: bytes
    asked_at: int
    wake_at: int
    start_by: int | None = None
    owner: str | None = None
    epoch: int = 0
    strikes: int = 0
    begun_at: int | None = None
    queue_key: str = ""
    """Under which it takes turns, on a queue with limits."""

    @property
    def place(self) -> tuple[str, str]:
        """What names it in its namespace."""
        return self.run, self.key


def terms_of(job: Job) -> Terms:
    """Return how a job is to be done; what a newer release adds is left out."""
    known = {name: value for name, value in json.loads(job.terms).items() if name in Terms._fields}
    return Terms(**known)


class JobRef(NamedTuple):
    """The job that somebody holds, as they took it. Without an owner: one that nobody holds."""

    key: str
    owner: str | None
    epoch: int
    annotations: Annotations | None = None
    """What was said of it and is not written yet."""


class JobClaim(NamedTuple):
    """Ask for jobs that can begin now, of the steps this worker knows."""

    ns: str
    worker: str
    steps: tuple[str, ...]
    limit: int
    lease: int
    queues: tuple[str, ...] | None = None
    """The queues it serves; None stands for all there are."""
    suspects: int = 1
    """How many jobs that took two workers with them or more may be among them."""
    info: str = ""


class ClaimedJobs(NamedTuple):
    """What a look at the jobs found."""

    jobs: tuple[Job, ...] = ()
    """Those that were taken, in their order."""
    held: tuple[Job, ...] = ()
    """All that this worker holds by the store's word, with those."""
    dead: tuple[tuple[str, bool], ...] = ()
    """Workers that hold jobs and whose lease is over (False) or that are known dead (True)."""
    next_wake_at: int | None = None
    """When the next job of its queues is due, whoever can do it, or a rate lets more begin."""
    is_any: bool = False
    """Whether there are jobs at all, for whomever."""


class JobFilter(NamedTuple):
    """Which jobs to read, those first that go first: of a `run`, of a `queue`, or all."""

    ns: str
    run: str = ""
    queue: str = ""
    limit: int = 1_000

    def fits(self, job: Job) -> bool:
        """Tell whether the job is one of those."""
        return job.ns == self.ns and self.run in ("", job.run) and self.queue in ("", job.queue)


def taken(jobs: Iterable[Job], claim: JobClaim) -> list[Job]:
    """Return those that a claim takes of jobs that are due, which come in their order."""
    chosen: list[Job] = []
    suspects = 0
    for job in jobs:
        if len(chosen) >= claim.limit:
            break
        if job.strikes >= SUSPECT:
            if suspects >= claim.suspects:
                continue
            suspects += 1
        chosen.append(job)
    return chosen


class Reported(Exception):
    """An error that a step raised on another worker, or in another process.

    `kinds` are the names of its class and of all that is above it, so that a retry policy can tell
    what it is; `delay` is what a `RetryAfter` asked for, in microseconds.
    """

    def __init__(
        self,
        failure: Failure,
        kinds: Sequence[str],
        *,
        delay: int | None = None,
        final: bool = False,
    ) -> None:
        super().__init__(failure.message)
        self.failure, self.kinds, self.delay, self.final = failure, frozenset(kinds), delay, final

    def is_a(self, types: Iterable[type[BaseException]]) -> bool:
        """Tell whether it would have been caught as one of these."""
        return any(named(each) in self.kinds for each in types)


def named(kind: type[BaseException]) -> str:
    """Return what a class of errors is called on every worker."""
    return f"{kind.__module__}.{kind.__qualname__}"


def kinds_of(error: BaseException) -> list[str]:
    """Return the names by which a retry policy knows an error."""
    return [named(each) for each in type(error).__mro__ if issubclass(each, BaseException)]


def reported(
    failure: Failure, kinds: Sequence[str], *, delay: int | None = None, final: bool = False
) -> bytes:
    """Return the answer that says that an attempt failed; no JSON begins like it."""
    fields: dict[str, Any] = {
        "failure": json.loads(encode_failure(failure)), "kinds": list(kinds), "delay": delay,
        "final": final,
    }  # fmt: skip
    return b"!" + json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def report_in(told: dict[str, Any]) -> Reported | None:
    """Return the error in what `reported` said, if that is what was said."""
    if "failure" not in told:
        return None
    failure = decode_failure(json.dumps(told["failure"]).encode())
    return Reported(failure, told["kinds"], delay=told["delay"], final=told["final"])


class Took(NamedTuple):
    """What the message says that tells of a job's outcome."""

    took: int = 0
    beats: bool = False
    """Whether it left heartbeats."""

    def encoded(self) -> bytes:
        """Return the payload of the message."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()


def took_in(payload: bytes | None) -> Took | None:
    """Return what `Took.encoded` gave; None if the message is of somebody else."""
    return None if payload is None else Took(**json.loads(payload))
