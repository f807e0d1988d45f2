"""Jobs: looked at and taken with SKIP LOCKED, handed in under the lock of their run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from holdfast.model.jobs import ClaimedJobs, Job, JobClaim, JobFilter, JobRef
from holdfast.model.queues import PRIORITIES
from holdfast.model.writes import Notice, Outcome, Report
from holdfast.stores import processes
from holdfast.stores.postgres import job_lines
from holdfast.stores.postgres.connection import Ask, Line
from holdfast.stores.postgres.failures import reading
from holdfast.stores.postgres.job_lines import LOOK, TAKE
from holdfast.stores.postgres.statements import queries

SQL = queries()


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

    async def claim(self, claim: JobClaim) -> ClaimedJobs:
        """Take those that go first, if there are any, and look at the rest."""
        given, line = _given(claim, self._clock()), self._claims()
        with reading():
            [seen] = await line.fetch(LOOK, **given)
            lines = None
            if seen["managed"] and seen["is_any"]:
                lines = await job_lines.look(line, claim, given, seen)
        found: tuple[Job, ...] = ()
        is_open = lines is not None and lines.is_open
        if (seen["is_due"] or is_open) and claim.limit > 0:
            with self._writing():
                if lines is not None and is_open:
                    async with line.transaction() as ask:
                        found = await job_lines.take(ask, claim, given)
                else:
                    found = tuple(map(Job._make, await line.fetch(TAKE, **given)))
        with reading():
            here = {"worker": claim.worker, "ns": claim.ns}
            held = await line.fetch(SQL.held_jobs, **here) if seen["is_any"] else ()
        times = [seen["next_wake_at"], *(() if lines is None else lines.next_at)]
        return ClaimedJobs(
            found, tuple(map(Job._make, held)), _dead(seen["holders"] or (), seen["now"]),
            min((at for at in times if at is not None), default=None), seen["is_any"],
        )  # fmt: skip

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
        "address": processes.this(),
    }  # fmt: skip


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
