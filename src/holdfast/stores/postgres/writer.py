"""One writer for a process: group commit.

Everything that became ready while the previous commit was on its way goes as one round. The writer
never waits to gather more. A round that the server refuses as a whole is written batch by batch,
so that one bad write cannot take others with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from random import random
from typing import Any

import asyncpg

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.model.run import Run
from holdfast.model.writes import Create, Notice, Outcome, Write
from holdfast.ports.reply import Reply
from holdfast.stores.notices import notices_of
from holdfast.stores.postgres.alone import write_alone
from holdfast.stores.postgres.connection import Line
from holdfast.stores.postgres.failures import BadWrite, Conflict, of_a_write, unknown
from holdfast.stores.postgres.kindred import reaching, write_turns
from holdfast.stores.postgres.lone import lone_of
from holdfast.stores.postgres.rounds import MANY, Round
from holdfast.stores.postgres.statements import queries

SQL = queries()
log = logging.getLogger("holdfast.store")

TRIES = 5
"""How often a batch is tried that other writers come in the way of."""
PAUSE = 0.01
"""Seconds before the second try, by chance up to twice as many; longer before each further one."""

CROWD = 16
"""Batches that are worth two rounds."""

Told = Callable[[list[Notice]], None]


class Job(Reply[list[Outcome]]):
    """A batch that waits, and the reply to whoever gave it."""

    is_pushable = True

    def __init__(self, batch: Sequence[Write], writer: Writer) -> None:
        self.batch, self._writer = batch, writer

    def call(self) -> None:
        """Have it written."""
        self._writer.call()

    def push(self) -> Coroutine[Any, Any, None] | None:
        """Return what writes it, if it is alone."""
        return self._writer.push(self)


class Group:
    """Jobs that are carried out together."""

    __slots__ = ("_round", "jobs")

    def __init__(self, jobs: list[Job], round: Round | None = None) -> None:
        self.jobs, self._round = jobs, round

    def round(self) -> Round | None:
        """Return the round of these jobs; None if it is one that fits into none."""
        if self._round is None:
            # Made only now: most lone jobs are written without.
            alone = Round()
            self._round = alone if alone.takes(self.jobs[0].batch) else None
        return self._round


class Writer:
    """Writes on one line. `clock` gives the time of a test, or None for the database's own."""

    def __init__(
        self,
        line: Line,
        clock: Callable[[], int | None],
        tell: Told,
        is_followed: Callable[[], bool] = bool,
    ) -> None:
        self._line, self._clock, self._tell = line, clock, tell
        self._is_followed = is_followed
        self._waiting: deque[Job] = deque()
        self._serving: asyncio.Task[None] | None = None
        self._is_pushed = False
        self._call: asyncio.Handle | None = None
        self.commits = 0
        """How many transactions were committed."""

    def submit(self, batch: Sequence[Write]) -> Job:
        """Write the batch with whatever else is ready; the reply is what became of it."""
        job = Job(batch, self)
        if batch:
            self._waiting.append(job)
        else:
            job.settle([])
        return job

    def call(self) -> None:
        """Begin after what is ready now: all of this tick goes together."""
        if self._serving is None and self._call is None and not self._is_pushed:
            self._call = asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._call = None
        if self._waiting and self._serving is None and not self._is_pushed:
            loop = asyncio.get_running_loop()
            self._serving = loop.create_task(self._serve(), name="holdfast writer")

    def push(self, job: Job) -> Coroutine[Any, Any, None] | None:
        """Return what writes this job, if nothing else waits or is on its way; else see to it."""
        is_alone = len(self._waiting) == 1 and self._waiting[0] is job
        if not is_alone or self._serving is not None or self._call is not None or self._is_pushed:
            self.call()
            return None
        self._is_pushed = True
        return self._write_pushed(Group([self._waiting.popleft()]))

    async def _write_pushed(self, group: Group) -> None:
        try:
            await self._write(group)
        finally:
            self._is_pushed = False
            self._begin()

    async def close(self) -> None:
        """Finish what was given."""
        while self._waiting or self._serving is not None or self._is_pushed:
            self._begin()
            serving = [] if self._serving is None else [self._serving]
            await asyncio.gather(asyncio.sleep(0), *serving, return_exceptions=True)

    async def _serve(self) -> None:
        try:
            # Of a crowd that comes at once, half: from then on one half is on its way while the
            # other is at work here. Together they would wait for the server, and then it for them.
            most = len(self._waiting) // 2 if len(self._waiting) >= CROWD else MANY
            while self._waiting:
                await self._write(self._next(most))
                most = MANY
        finally:
            self._serving = None

    def _next(self, most: int) -> Group:
        """Take the batches from the head of the queue that fit into one round."""
        if len(self._waiting) == 1:
            return Group([self._waiting.popleft()])
        waiting, jobs, round_ = self._waiting, list[Job](), Round()
        while waiting and len(jobs) < most and round_.takes(waiting[0].batch):
            jobs.append(waiting.popleft())
        return Group(jobs, round_) if jobs else Group(self._with_likes(waiting.popleft()))

    def _with_likes(self, first: Job) -> list[Job]:
        """Take all that waits and reaches other runs, if the first one does."""
        jobs, found = [first], reaching(first.batch)
        if found is None:
            return jobs
        keys, left = {(found.ns, found.run)}, deque[Job]()
        while self._waiting and len(jobs) < MANY:
            job = self._waiting.popleft()
            turn = reaching(job.batch)
            if turn is None or turn.ns != found.ns or (turn.ns, turn.run) in keys:
                left.append(job)
            else:
                keys.add((turn.ns, turn.run))
                jobs.append(job)
        self._waiting.extendleft(reversed(left))
        return jobs

    async def _write(self, group: Group) -> None:
        """Carry the group out, or one by one if that fails; everybody hears of their own."""
        if len(group.jobs) == 1 and await self._write_lone(group.jobs[0]):
            return
        try:
            outcomes = await self._patiently(group)
        except Exception as error:
            if len(group.jobs) == 1 or not isinstance(error, BadWrite | Conflict):
                _fail(group.jobs, error)
                return
            for job in group.jobs:
                await self._write(Group([job]))
        except BaseException as error:
            _fail(group.jobs, unknown(error))
            raise
        else:
            self._done(group, await self._filled(group, outcomes))

    async def _write_lone(self, job: Job) -> bool:
        """Write what is written most often, in the quickest way; tell whether that is all of it.

        It is not if the write is of another kind, or refused: this way does not tell why.
        """
        lone = lone_of(job.batch)
        if lone is None:
            return False
        try:
            rows = await self._line.run(*lone.question(self._clock()))
        except Exception as error:
            meant = error if isinstance(error, StoreError) else of_a_write(error)
            if isinstance(meant, Conflict):
                return False
            _fail([job], meant)
            return True
        except BaseException as error:
            _fail([job], unknown(error))
            raise
        if not rows:
            return False
        self.commits += 1
        outcome = lone.outcome(rows[0])
        if not lone.goes_on or self._is_followed():
            self._tell([lone.notice])
        job.settle([outcome])
        return True

    async def _patiently(self, group: Group) -> list[Outcome]:
        """Try again when other writers come in the way."""
        for tried in range(TRIES):
            try:
                return await self._carry_out(group)
            except Conflict as conflict:
                log.debug("two writers met, once more: %s", conflict)
                if tried == TRIES - 1:
                    if len(group.jobs) > 1:
                        raise
                    raise StoreUnavailable(
                        f"Nothing was written, others came in the way: {conflict}. Try again."
                    ) from conflict
            await asyncio.sleep(PAUSE * 2**tried * (1 + random()))
        raise AssertionError("the last try returns or raises")

    async def _carry_out(self, group: Group) -> list[Outcome]:
        try:
            outcomes = await self._attempt(group)
        except StoreError:
            raise
        except Exception as error:
            raise of_a_write(error) from error
        self.commits += 1
        return outcomes

    async def _attempt(self, group: Group) -> list[Outcome]:
        now, turns = self._clock(), [reaching(job.batch) for job in group.jobs]
        if turns[0] is not None:
            async with self._line.transaction() as ask:
                return await write_turns(ask, [turn for turn in turns if turn], now, write_alone)
        round_ = group.round()
        if round_ is None:
            async with self._line.transaction() as ask:
                return await write_alone(ask, group.jobs[0].batch, now)
        if round_.is_quick and len(round_.writes) > 1:
            try:
                return round_.outcomes(await self._line.run(*round_.question(now, quick=True)))
            except (asyncpg.InvalidTextRepresentationError, asyncpg.UniqueViolationError) as error:
                log.debug("a write of a quick round was refused: each by itself")
                if len(group.jobs) > 1:
                    raise BadWrite("Nothing was written: one of them was refused.") from error
        return round_.outcomes(await self._line.run(*round_.question(now)))

    async def _filled(self, group: Group, outcomes: list[Outcome]) -> list[Outcome]:
        """Add the rows of runs that others started while our start was on its way.

        The statement could not see them. If they cannot be read, nobody knows of that start.
        """
        writes = [write for job in group.jobs for write in job.batch]
        for n, (write, outcome) in enumerate(zip(writes, outcomes, strict=True)):
            if type(write) is Create and outcome.run is None:
                try:
                    rows = await self._line.fetch(SQL.run, ns=write.ns, run=write.id)
                except Exception as error:
                    _fail([job for job in group.jobs if write in job.batch], unknown(error))
                    continue
                outcomes[n] = Outcome(False, Run._make(rows[0]) if rows else None)
        return outcomes

    def _done(self, group: Group, outcomes: list[Outcome]) -> None:
        begin, results = 0, list[list[Outcome]]()
        heard: list[Notice] = []
        for job in group.jobs:
            results.append(outcomes[begin : begin + len(job.batch)])
            heard += notices_of(job.batch, results[-1])
            begin += len(job.batch)
        if heard:
            self._tell(heard)
        for job, result in zip(group.jobs, results, strict=True):
            if job.error is None:
                job.settle(result)


def _fail(jobs: Sequence[Job], error: Exception) -> None:
    for job in jobs:
        if job.error is None:
            job.error = error
            job.settle(None)
