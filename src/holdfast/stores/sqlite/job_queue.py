"""Jobs as those see them who take them: looked at on the reading side, taken in one commit."""

from __future__ import annotations

import heapq
import json
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from itertools import product
from sqlite3 import Connection
from typing import Any, NamedTuple

from holdfast.model.jobs import ClaimedJobs, Job, JobClaim, JobFilter, taken
from holdfast.model.queues import PRIORITIES
from holdfast.model.writes import Notice, Renew
from holdfast.stores.sqlite.statements import queries
from holdfast.stores.sqlite.writes import renew

SQL = queries()

Look = Callable[[Callable[[Connection], Any]], Awaitable[Any]]
Work = Callable[[Connection, int], tuple[Any, list[Notice]]]


class Seen(NamedTuple):
    """What a look found."""

    is_due: bool
    is_any: bool
    next_wake_at: int | None
    held: tuple[Job, ...]
    holders: tuple[tuple[str, int], ...]


class SqliteJobs:
    """The jobs of an SQLite file."""

    def __init__(
        self,
        now: Callable[[], int],
        look: Look,
        submit: Callable[[Work], Awaitable[Any]],
        is_dead: Callable[[str], bool],
    ) -> None:
        self._now, self._look, self._submit, self._is_dead = now, look, submit, is_dead

    async def claim(self, claim: JobClaim) -> ClaimedJobs:
        """Take those that go first, if there are any, and look at the rest."""
        now = self._now()
        seen: Seen = await self._look(lambda reads: _seen(reads, claim, now))
        found: tuple[Job, ...] = ()
        if seen.is_due and claim.limit > 0:
            # Durable before it begins: of a step that runs at most once this is all the record.
            found, held = await self._submit(lambda writes, at: _take(writes, claim, at))
            seen = seen._replace(held=held)
        dead = {name: True for name, _ in seen.holders if self._is_dead(name)}
        late = [name for name, until in seen.holders if until <= now]
        dead.update((name, False) for name in late if name not in dead)
        return ClaimedJobs(
            found, seen.held, tuple(sorted(dead.items())), seen.next_wake_at, seen.is_any
        )

    async def find(self, wanted: JobFilter) -> list[Job]:
        """Return jobs, those first that are taken first."""
        found: list[Job] = await self._look(
            lambda reads: list(map(Job._make, reads.execute(SQL.find_jobs, wanted._asdict())))
        )
        return found


def _seen(connection: Connection, claim: JobClaim, now: int) -> Seen:
    is_any = bool(connection.execute(SQL.is_any_job, {"ns": claim.ns}).fetchone()[0])
    if not is_any:
        return Seen(False, False, None, (), _holders(connection, claim))
    with closing(_due(connection, claim, now, limit=1)) as due:
        is_due = next(due, None) is not None
    lanes = _lanes(connection, claim)
    asked = (_ask(connection, SQL.next_job_at, claim, now, lane) for lane in lanes)
    later = [row[0] for rows in asked for row in rows if row[0] is not None]
    held, holders = _held(connection, claim), _holders(connection, claim)
    return Seen(is_due, True, min(later, default=None), held, holders)


def _take(
    connection: Connection, claim: JobClaim, now: int
) -> tuple[tuple[tuple[Job, ...], tuple[Job, ...]], list[Notice]]:
    with closing(_due(connection, claim, now, limit=-1)) as due:
        chosen = taken(due, claim)
    if chosen:
        renew(connection, Renew(claim.worker, claim.lease, info=claim.info), now)
    who = {"worker": claim.worker, "now": now}
    connection.executemany(
        SQL.claim_job, [{**who, "ns": job.ns, "run": job.run, "key": job.key} for job in chosen]
    )
    jobs = tuple(
        job._replace(owner=claim.worker, epoch=job.epoch + 1, begun_at=now) for job in chosen
    )
    return (jobs, _held(connection, claim)), []


def _due(connection: Connection, claim: JobClaim, now: int, *, limit: int) -> Generator[Job]:
    """Yield the jobs that can begin, in their order; the rows are read as they are needed."""
    lanes = [
        map(Job._make, _ask(connection, SQL.due_jobs, claim, now, lane, limit=limit))
        for lane in _lanes(connection, claim)
    ]
    yield from heapq.merge(*lanes, key=lambda job: (job.priority, job.wake_at, job.run, job.key))


def _lanes(connection: Connection, claim: JobClaim) -> list[tuple[str, int]]:
    """Return the queues that a claim may take from, each at each priority."""
    queues = claim.queues
    if queues is None:
        queues = tuple(queue for (queue,) in connection.execute(SQL.job_queues, {"ns": claim.ns}))
    return list(product(queues, PRIORITIES))


def _ask(
    connection: Connection, statement: str, claim: JobClaim, now: int, lane: tuple[str, int],
    **more: int,
) -> Any:  # fmt: skip
    binds = {
        "ns": claim.ns, "queue": lane[0], "priority": lane[1], "now": now,
        "steps": json.dumps(claim.steps), "suspects": claim.suspects,
    }  # fmt: skip
    return connection.execute(statement, {**binds, **more})


def _held(connection: Connection, claim: JobClaim) -> tuple[Job, ...]:
    binds = {"worker": claim.worker, "ns": claim.ns}
    return tuple(map(Job._make, connection.execute(SQL.held_jobs, binds)))


def _holders(connection: Connection, claim: JobClaim) -> tuple[tuple[str, int], ...]:
    return tuple(connection.execute(SQL.holders_of_jobs, {"worker": claim.worker}))
