"""Jobs: looked at and taken with SKIP LOCKED, handed in under the lock of their run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.model.jobs import ClaimedJobs, Job, JobClaim, JobFilter, JobRef
from holdfast.model.queues import PRIORITIES
from holdfast.model.writes import Notice, Outcome, Report
from holdfast.stores import processes
from holdfast.stores.postgres import job_lines
from holdfast.stores.postgres.connection import Ask, Line
from holdfast.stores.postgres.failures import reading
from holdfast.stores.postgres.job_lines import CLAIM, LOOK, TAKE, Looked
from holdfast.stores.postgres.statements import queries
from holdfast.stores.postgres.target import Row

SQL = queries()
IS_NEW, JOB = 5, slice(6, None)
"""Where the statement that claims says whether a job is taken now, and which it is."""


class PostgresJobs:
    """The jobs of a database."""

    def __init__(
        self,
        claims: Callable[[], Line],
        reads: Callable[[], Line],
        clock: Callable[[], int | None],
        writing: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self._claims, self._reads, self._clock, self._writing = claims, reads, clock, writing
        self._managed: set[str] = set()
        """Namespaces with managed queues that have had jobs."""

    async def claim(self, claim: JobClaim) -> ClaimedJobs:
        """Take those that go first, and look at the rest: at once, if no queue is managed."""
        given = _given(claim, self._clock())
        if claim.ns not in self._managed:
            with self._writing():
                rows = await self._claims().fetch(CLAIM, **given)
            if not rows[0]["managed"]:
                return _claimed(rows)
            self._managed.add(claim.ns)
        return await self._claim_in_lines(claim, {**given, "is_one_lane": True})

    async def _claim_in_lines(self, claim: JobClaim, given: dict[str, Any]) -> ClaimedJobs:
        """Look first; where a line is open, take in a transaction that locks the queues."""
        line, lines = self._claims(), Looked()
        with reading():
            [seen] = await line.fetch(LOOK, **given)
            if seen["managed"] and seen["is_any"]:
                lines = await job_lines.look(line, claim, given, seen)
        found: tuple[Job, ...] = ()
        times = lines.next_at
        if (seen["is_due"] or lines.is_open) and claim.limit > 0:
            with self._writing():
                if lines.is_open:
                    async with line.transaction() as ask:
                        found, times = await job_lines.take(ask, claim, given)
                else:
                    found = tuple(map(Job._make, await line.fetch(TAKE, **given)))
        with reading():
            here = {"worker": claim.worker, "ns": claim.ns}
            held = await line.fetch(SQL.held_jobs, **here) if seen["is_any"] else ()
        return _all_seen(seen, found, map(Job._make, held), times)

    async def find(self, wanted: JobFilter) -> list[Job]:
        """Return jobs, those first that are taken first."""
        with reading():
            rows = await self._reads().fetch(SQL.find_jobs, **wanted._asdict())
        return list(map(Job._make, rows))


def _given(claim: JobClaim, now: int | None) -> dict[str, Any]:
    return {
        "ns": claim.ns, "worker": claim.worker, "steps": list(claim.steps), "limit": claim.limit,
        "suspects": claim.suspects, "lease": claim.lease, "info": claim.info, "now": now,
        "queues": None if claim.queues is None else list(claim.queues), "priorities": PRIORITIES,
        "address": processes.this(), "is_one_lane": False,
    }  # fmt: skip


def _claimed(rows: list[Row]) -> ClaimedJobs:
    """Return what was seen and taken by one statement."""
    held = [(row[IS_NEW], Job._make(row[JOB])) for row in rows if row[IS_NEW] is not None]
    new = tuple(job for is_new, job in held if is_new)
    return _all_seen(rows[0], new, (job for _, job in held))


def _all_seen(
    seen: Row, found: tuple[Job, ...], held: Iterable[Job], times: tuple[int, ...] = ()
) -> ClaimedJobs:
    later = [at for at in (seen["next_wake_at"], *times) if at is not None]
    return ClaimedJobs(
        found, tuple(sorted(held, key=lambda job: job.place)),
        _dead(seen["holders"] or (), seen["now"]), min(later, default=None), seen["is_any"],
    )  # fmt: skip


def _dead(holders: Any, now: int) -> tuple[tuple[str, bool], ...]:
    found: dict[str, bool] = {}
    for holder in holders:
        worker, until, address = holder.split(" ", 2)
        if int(until) <= now:
            found[worker] = False
        elif address and processes.has_ended(address):
            found[worker] = True
    return tuple(sorted(found.items()))


async def is_held(ask: Ask, ns: str, run: str, job: JobRef) -> bool:
    """Tell whether the job is there, in the hands it is said to be in."""
    return bool(await ask(SQL.is_job_held, **_named(ns, run, job)))


async def end(ask: Ask, ns: str, run: str, job: JobRef) -> tuple[Notice, ...]:
    """Take a held job off the list; whoever waits for its slot should look."""
    [[frees]] = await ask(SQL.end_job, **_named(ns, run, job))
    return (Notice(ns, "", "ready"),) if frees else ()


async def change(ask: Ask, write: Report) -> Outcome:
    """Do with a held job what a report says, beside keeping its words; locks the run."""
    ns, run, job = write.ns, write.run, write.job
    await ask(SQL.lock_run, ns=ns, run=run)
    if not await is_held(ask, ns, run, job):
        return Outcome(False)
    if write.moves_on:
        await ask(SQL.clear_job_strikes, ns=ns, run=run, key=job.key)
    if write.back_at is not None:
        await ask(SQL.give_job_back, **_named(ns, run, job), at=write.back_at)
    return Outcome(True)


def _named(ns: str, run: str, job: JobRef) -> dict[str, Any]:
    return {"ns": ns, "run": run, "key": job.key, "owner": job.owner, "epoch": job.epoch}
