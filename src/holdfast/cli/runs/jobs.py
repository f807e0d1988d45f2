"""What `why` says of jobs: where each is, and what to type if nobody does it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.proposing import typed_worker
from holdfast.cli.runs.lining import commands_for, kept_by
from holdfast.cli.terminal import clean
from holdfast.cli.words import SECOND, ago, ahead, count, moment, span
from holdfast.cli.workers import said_by
from holdfast.model.jobs import Job
from holdfast.model.limits import QueueState
from holdfast.model.workers import WorkerRow

SHOWN = 5
"""Jobs of a run that are told one by one."""
Next = tuple[str, str]


def told(
    jobs: Sequence[Job], workers: Sequence[WorkerRow], queues: Sequence[QueueState], now: int
) -> list[str]:
    """Say where the jobs of a run are."""
    states = {state.queue.name: state for state in queues}
    sentences = [_told(job, workers, states.get(job.queue), now) for job in jobs[:SHOWN]]
    if len(jobs) > SHOWN:
        sentences.append(f"There are {len(jobs) - SHOWN} more of its jobs.")
    return sentences


def commands(
    jobs: Sequence[Job], workers: Sequence[WorkerRow], queues: Sequence[QueueState], url: str
) -> list[Next]:
    """Return what starts a worker for each queue that nobody serves, or opens one that is shut."""
    waiting = dict.fromkeys(job.queue for job in jobs if job.owner is None)
    lonely = [queue for queue in waiting if not _serving(queue, workers)]
    starts = [
        (typed_worker(url, queue=clean(queue)), "a worker that serves the queue")
        for queue in lonely
    ]
    kept = [state for state in queues if state.queue.name in waiting]
    return starts + [each for state in kept for each in commands_for(state)]


def _told(job: Job, workers: Sequence[WorkerRow], state: QueueState | None, now: int) -> str:
    what, queue = f"Job {clean(job.key)} (attempt {job.attempt})", clean(job.queue)
    lost = f" It was lost with its worker {count(job.strikes, 'time')}." if job.strikes else ""
    if job.owner is not None:
        begun = ago(job.begun_at or now, now)
        return f"{what} of queue {queue} is done by worker {job.owner}, begun {begun}.{lost}"
    if job.wake_at > now:
        return f"{what} waits until {moment(job.wake_at)} ({ahead(job.wake_at, now)}).{lost}"
    listening = [worker for worker in workers if worker.is_listening]
    if not listening:
        return f"{what} waits on queue {queue}, and no worker is listening on this store.{lost}"
    if not _serving(job.queue, workers):
        workers_ = count(len(listening), "worker")
        return f"{what} waits on queue {queue}: {workers_} listening, and none serves it.{lost}"
    if state is not None:
        key = f" under key {clean(job.queue_key)!r}" if job.queue_key else ""
        return f"{what} waits on queue {queue}{key}, {kept_by(state, job.queue_key, now)}.{lost}"
    waited = f" for {span(now - job.wake_at)}" if now - job.wake_at > SECOND else ""
    known = f"perhaps none that serves it knows step {clean(job.step)!r}, or all are full"
    return f"{what} waits on queue {queue}{waited}{f'; {known}' if waited else ''}.{lost}"


def _serving(queue: str, workers: Sequence[WorkerRow]) -> list[WorkerRow]:
    """Return those who listen and may serve a queue; one that has not said which is among them."""
    found = [worker for worker in workers if worker.is_listening]
    said = [(worker, said_by(worker)["queues"]) for worker in found]
    return [worker for worker, queues in said if not queues or queue in queues]
