"""Jobs in dictionaries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from holdfast.model.holders import Holders
from holdfast.model.jobs import ClaimedJobs, Job, JobClaim, JobFilter, JobRef
from holdfast.model.limits import Queue
from holdfast.stores.job_lines import UNMANAGED, Head, JobLines
from holdfast.stores.memory import limits
from holdfast.stores.memory.tables import RunKey, Tables, every


class MemoryJobs:
    """The jobs of a memory store."""

    def __init__(self, tables: Tables, now: Callable[[], int]) -> None:
        self._tables, self._now = tables, now

    async def claim(self, claim: JobClaim) -> ClaimedJobs:
        """Take those that go first, and look at the rest."""
        await asyncio.sleep(0)
        now, tables = self._now(), self._tables
        with tables.transaction():
            chosen = Lines(tables, claim, now).take()
            if chosen:
                tables.put_worker(claim.worker, now + claim.lease)
        held = [job for job in every(tables) if job.owner == claim.worker and job.ns == claim.ns]
        owners = {job.owner for job in every(tables) if job.owner}
        gone = [each for each in owners - {claim.worker} if tables.workers.get(each, 0) <= now]
        lines = Lines(tables, claim, now)
        free = [job for job in every(tables) if _is_in_reach(job, claim)]
        later = [job.wake_at for job in free if job.wake_at > now]
        return ClaimedJobs(
            tuple(chosen), tuple(sorted(held, key=lambda job: job.place)),
            tuple((each, False) for each in sorted(gone)),
            min(later + lines.next_at(), default=None),
            any(job.ns == claim.ns for job in every(tables)),
        )  # fmt: skip

    async def find(self, wanted: JobFilter) -> list[Job]:
        """Return jobs, those first that are taken first."""
        await asyncio.sleep(0)
        found = sorted((job for job in every(self._tables) if wanted.fits(job)), key=_order)
        return found[: wanted.limit]


class Lines(JobLines):
    """The lanes of jobs."""

    def __init__(self, tables: Tables, claim: JobClaim, now: int) -> None:
        managed = [queue for queue in tables.queues.values() if queue.ns == claim.ns]
        super().__init__(claim, now, managed)
        self._tables = tables

    @property
    def free(self) -> list[Job]:
        """Those that nobody has and the claimer could take, in their order, due or not."""
        free = [job for job in every(self._tables) if _is_free(self._tables, job, self.claim)]
        return sorted((job for job in free if not self.is_suspect(job)), key=_order)

    def heads(self) -> list[Head]:
        """Return the lanes with due jobs that the claimer may take."""
        found: dict[tuple[int, str], int] = {}
        for job in self._due():
            name = job.queue if job.queue in self.queues else UNMANAGED
            found.setdefault((job.priority, name), job.wake_at)
        return [(priority, since, name) for (priority, name), since in found.items()]

    def due(self, priority: int) -> list[Job]:
        """Return due jobs of the unmanaged queues, in their order."""
        return [j for j in self._due() if j.priority == priority and j.queue not in self.queues]

    def riders(self, queue: str, priority: int) -> list[tuple[Job, str]]:
        """Return due jobs whose run holds a slot with no job in it."""
        found = self._holders(queue)
        keys = {ticket.run: ticket.key for ticket in found.tickets}
        return [(j, keys[j.run]) for j in self._lane(queue, priority) if found.rides(j)]

    def key_after(self, queue: str, priority: int, key: str | None) -> str | None:
        """Return the next key that has a job there."""
        keys = {job.queue_key for job in self._lane(queue, priority)}
        return min((each for each in keys if key is None or each > key), default=None)

    def first(self, queue: str, priority: int, key: str) -> Job | None:
        """Return the due job of a key that goes first."""
        return next((job for job in self._lane(queue, priority) if job.queue_key == key), None)

    def held(self, queue: str, key: str | None = None) -> int:
        """Return how many slots are held."""
        return limits.held(self._tables, self.queues[queue], key)

    def held_by_claimer(self, queue: str) -> int:
        """Return how many runs and jobs of a queue the claimer has in hand."""
        return limits.on_worker(self._tables, self.claim.ns, queue, self.claim.worker)

    def in_time(self, queue: Queue) -> tuple[int, int | None]:
        """Return how many the rate lets begin now; if none, when it lets the next one."""
        allowed = limits.in_time(self._tables, queue, self.now)
        return allowed, limits.next_at(self._tables, queue, self.now)

    def give(self, job: Job) -> None:
        """Write that the claimer has a job."""
        self._tables.put_job(job)

    def count(self, queue: Queue, added: int) -> Queue:
        """Write that so many were admitted."""
        return limits.count(self._tables, queue, added, self.now)

    def _holders(self, queue: str) -> Holders:
        return limits.holders(self._tables, self.queues[queue])

    def _due(self) -> Iterable[Job]:
        return [job for job in self.free if job.wake_at <= self.now]

    def _lane(self, queue: str, priority: int) -> list[Job]:
        return [job for job in self._due() if (job.queue, job.priority) == (queue, priority)]


def is_held(tables: Tables, key: RunKey, held: JobRef) -> bool:
    """Tell whether the job is there, in the hands it is said to be in."""
    job = tables.jobs.get(key, {}).get(held.key)
    return job is not None and (job.owner, job.epoch) == (held.owner, held.epoch)


def is_managed(tables: Tables, key: RunKey, held: JobRef) -> bool:
    """Tell whether the end of a job frees something that others may wait for."""
    job = tables.jobs.get(key, {}).get(held.key)
    return job is not None and (job.ns, job.queue) in tables.queues


def release(tables: Tables, worker: str, now: int) -> int:
    """Take its jobs from a worker that is gone; return how many."""
    held = [job for job in every(tables) if job.owner == worker]
    for job in held:
        tables.put_job(
            job._replace(
                owner=None, begun_at=None, wake_at=now, start_by=None, strikes=job.strikes + 1
            )
        )
    return len(held)


def _order(job: Job) -> tuple[int, int, str, str]:
    return job.priority, job.wake_at, job.run, job.key


def _is_free(tables: Tables, job: Job, claim: JobClaim) -> bool:
    run = tables.runs.get((job.ns, job.run))
    is_paused = run is not None and run.status == "paused"
    return _is_in_reach(job, claim) and job.step in claim.steps and not is_paused


def _is_in_reach(job: Job, claim: JobClaim) -> bool:
    """Tell whether a job that nobody has is on a queue that the claimer serves."""
    is_served = claim.queues is None or job.queue in claim.queues
    return job.ns == claim.ns and job.owner is None and is_served
