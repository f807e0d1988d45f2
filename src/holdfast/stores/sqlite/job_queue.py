"""Jobs as those see them who take them: looked at on the reading side, taken in one commit."""

from __future__ import annotations

import heapq
import json
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from itertools import product
from sqlite3 import Connection, Cursor
from typing import Any, NamedTuple

from holdfast.model.jobs import ClaimedJobs, Job, JobClaim, JobFilter
from holdfast.model.limits import Queue, queue_of
from holdfast.model.queues import PRIORITIES
from holdfast.model.writes import Notice
from holdfast.stores.job_lines import UNMANAGED, Head, JobLines
from holdfast.stores.sqlite import limits
from holdfast.stores.sqlite.statements import queries
from holdfast.stores.sqlite.writes import renew_for

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


class Taken(NamedTuple):
    """What a claim took, and what is left."""

    jobs: tuple[Job, ...]
    held: tuple[Job, ...]
    next_wake_at: int | None


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
            took: Taken = await self._submit(lambda writes, at: _take(writes, claim, at))
            found, seen = took.jobs, seen._replace(held=took.held, next_wake_at=took.next_wake_at)
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
    lines = Lines(connection, claim, now)
    is_due = any(
        name == UNMANAGED or lines.is_open(name, priority) for priority, _, name in lines.heads()
    )
    held, holders = _held(connection, claim), _holders(connection, claim)
    return Seen(is_due, True, lines.next_wake_at(), held, holders)


def _take(connection: Connection, claim: JobClaim, now: int) -> tuple[Taken, list[Notice]]:
    lines = Lines(connection, claim, now)
    jobs = tuple(lines.take())
    if jobs:
        renew_for(connection, claim, now)
    lines.suspects = claim.suspects  # what the claimer may take next
    return Taken(jobs, _held(connection, claim), lines.next_wake_at()), []


class Lines(JobLines):
    """The lanes of jobs."""

    def __init__(self, connection: Connection, claim: JobClaim, now: int) -> None:
        rows = connection.execute(SQL.queues_of_namespace, {"ns": claim.ns})
        super().__init__(claim, now, map(queue_of, rows))
        self._connection = connection
        served = claim.queues
        if served is None:
            served = tuple(name for (name,) in connection.execute(SQL.job_queues, {"ns": claim.ns}))
        self._plain = [name for name in served if name not in self.queues]
        self._managed = [name for name in served if name in self.queues]
        self._steps = json.dumps(claim.steps)

    def heads(self) -> list[Head]:
        """Return the lanes with due jobs that the claimer may take."""
        found: list[Head] = []
        for priority in PRIORITIES:
            plain = [self._first_at(name, priority) for name in self._plain]
            known = [at for at in plain if at is not None]
            if known:
                found.append((priority, min(known), UNMANAGED))
            for name in self._managed:
                at = self._first_at(name, priority)
                if at is not None:
                    found.append((priority, at, name))
        return found

    def _first_at(self, queue: str, priority: int) -> int | None:
        with closing(self._ask(SQL.due_jobs, queue, priority, limit=1)) as rows:
            first = rows.fetchone()
        return None if first is None else Job._make(first).wake_at

    def due(self, priority: int) -> Generator[Job]:
        """Yield due jobs of the unmanaged queues, in their order, read as they are needed."""
        lanes = [
            map(Job._make, self._ask(SQL.due_jobs, name, priority, limit=-1))
            for name in self._plain
        ]
        # Rows are changed after all of them are chosen: `taken` makes a list.
        yield from heapq.merge(*lanes, key=lambda job: (job.wake_at, job.run, job.key))

    def next_wake_at(self) -> int | None:
        """Return when the next job becomes due, or a rate lets more begin."""
        lanes = product((*self._plain, *self._managed), PRIORITIES)
        found = [self._ask(SQL.next_job_at, *lane).fetchone()[0] for lane in lanes]
        later = [at for at in found if at is not None]
        return min(later + (self.next_at() if self.queues else []), default=None)

    def riders(self, queue: str, priority: int) -> Generator[tuple[Job, str]]:
        """Yield due jobs whose run holds a slot with no job in it."""
        with closing(self._ask(SQL.riding_jobs, queue, priority)) as rows:
            for *fields, key in rows:
                yield Job._make(fields), key

    def key_after(self, queue: str, priority: int, key: str | None) -> str | None:
        """Return the next key that has a job there, due or not."""
        asked = SQL.first_job_key if key is None else SQL.next_job_key
        row = self._ask(asked, queue, priority, key=key).fetchone()
        return None if row is None else row[0]

    def first(self, queue: str, priority: int, key: str) -> Job | None:
        """Return the due job of a key that goes first."""
        row = self._ask(SQL.first_job_of_key, queue, priority, key=key).fetchone()
        return None if row is None else Job._make(row)

    def held(self, queue: str, key: str | None = None) -> int:
        """Return how many slots are held."""
        here = {"ns": self.claim.ns, "queue": queue, "key": key}
        asked = SQL.held_of_queue if key is None else SQL.held_of_key
        return int(self._connection.execute(asked, here).fetchone()[0])

    def held_by_claimer(self, queue: str) -> int:
        """Return how many runs and jobs of a queue the claimer has in hand."""
        here = {"ns": self.claim.ns, "queue": queue, "worker": self.claim.worker}
        return int(self._connection.execute(SQL.held_on_worker, here).fetchone()[0])

    def in_time(self, queue: Queue) -> tuple[int, int | None]:
        """Return how many the rate lets begin now; if none, when it lets the next one."""
        return limits.in_time(self._connection, queue, self.now)

    def give(self, job: Job) -> None:
        """Write that the claimer has a job."""
        here = {"ns": job.ns, "run": job.run, "key": job.key}
        who = {"worker": self.claim.worker, "now": self.now}
        self._connection.execute(SQL.claim_job, {**here, **who})

    def count(self, queue: Queue, added: int) -> Queue:
        """Write that so many were admitted."""
        return limits.count(self._connection, queue, added, self.now)

    def _ask(self, statement: str, queue: str, priority: int, **more: int | str | None) -> Cursor:
        binds = {
            "ns": self.claim.ns, "queue": queue, "priority": priority, "now": self.now,
            "steps": self._steps, "suspects": self.suspects,
        }  # fmt: skip
        return self._connection.execute(statement, {**binds, **more})


def _held(connection: Connection, claim: JobClaim) -> tuple[Job, ...]:
    binds = {"worker": claim.worker, "ns": claim.ns}
    return tuple(map(Job._make, connection.execute(SQL.held_jobs, binds)))


def _holders(connection: Connection, claim: JobClaim) -> tuple[tuple[str, int], ...]:
    return tuple(connection.execute(SQL.holders_of_jobs, {"worker": claim.worker}))
