"""Jobs in dictionaries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from holdfast.model.jobs import ClaimedJobs, Job, JobClaim, JobFilter, JobRef, taken
from holdfast.stores.memory.tables import RunKey, Tables


class MemoryJobs:
    """The jobs of a memory store."""

    def __init__(self, tables: Tables, now: Callable[[], int]) -> None:
        self._tables, self._now = tables, now

    async def claim(self, claim: JobClaim) -> ClaimedJobs:
        """Take those that go first, and look at the rest."""
        await asyncio.sleep(0)
        now, tables = self._now(), self._tables
        free = [job for job in every(tables) if _is_free(tables, job, claim)]
        due = sorted((job for job in free if job.wake_at <= now), key=_order)
        later = [job.wake_at for job in free if job.wake_at > now]
        with tables.transaction():
            chosen = [
                job._replace(owner=claim.worker, epoch=job.epoch + 1, begun_at=now)
                for job in taken(due, claim)
            ]
            if chosen:
                tables.put_worker(claim.worker, now + claim.lease)
            for job in chosen:
                tables.put_job(job)
        held = [job for job in every(tables) if job.owner == claim.worker and job.ns == claim.ns]
        owners = {job.owner for job in every(tables) if job.owner}
        gone = [each for each in owners - {claim.worker} if tables.workers.get(each, 0) <= now]
        return ClaimedJobs(
            tuple(chosen), tuple(sorted(held, key=lambda job: job.place)),
            tuple((each, False) for each in sorted(gone)), min(later, default=None),
            any(job.ns == claim.ns for job in every(tables)),
        )  # fmt: skip

    async def find(self, wanted: JobFilter) -> list[Job]:
        """Return jobs, those first that are taken first."""
        await asyncio.sleep(0)
        found = sorted((job for job in every(self._tables) if wanted.fits(job)), key=_order)
        return found[: wanted.limit]


def every(tables: Tables) -> Iterator[Job]:
    """Yield all jobs there are."""
    for jobs in tables.jobs.values():
        yield from jobs.values()


def is_held(tables: Tables, key: RunKey, held: JobRef) -> bool:
    """Tell whether the job is there, in the hands it is said to be in."""
    job = tables.jobs.get(key, {}).get(held.key)
    return job is not None and (job.owner, job.epoch) == (held.owner, held.epoch)


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
    return (
        job.ns == claim.ns
        and job.owner is None
        and job.step in claim.steps
        and (claim.queues is None or job.queue in claim.queues)
        and (run is None or run.status != "paused")
    )
