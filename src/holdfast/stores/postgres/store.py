"""A database that many hosts share.

Writes go through the process's one `Writer`, each round as one statement. Claims, reads, renewals
and notices have connections of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.model.annotations import LogFilter, LogLine
from holdfast.model.exports import Export
from holdfast.model.labels import Labels
from holdfast.model.run import Loaded, Run
from holdfast.model.writes import Claim, Claimed, Filter, Notice, Outcome, Page, Write
from holdfast.ports.store import Hear
from holdfast.stores.postgres import checks, claims, reader
from holdfast.stores.postgres.alone import reap
from holdfast.stores.postgres.bells import Listener, Ringer
from holdfast.stores.postgres.clock import DatabaseClock
from holdfast.stores.postgres.connection import Line
from holdfast.stores.postgres.failures import Conflict, of_a_write, reading
from holdfast.stores.postgres.filtering import statement_of
from holdfast.stores.postgres.heartbeat import Heartbeat
from holdfast.stores.postgres.inspection import Inspection
from holdfast.stores.postgres.statements import queries
from holdfast.stores.postgres.target import BY_KEY, BY_ORDER, Target
from holdfast.stores.postgres.writer import Writer

SQL = queries()


class PostgresStore(Inspection):
    """Keeps runs in a PostgreSQL database, in the schema `holdfast`.

    `clock` is for tests: time is then what it says, instead of what the database's clock says.
    With `rings=False` nobody is told of changes but listeners of this object.
    """

    def __init__(
        self, url: str | Target, *, clock: Callable[[], int] | None = None, rings: bool = True
    ) -> None:
        self._target: Target = Target(url) if isinstance(url, str) else url
        self._given, self._rings = clock, rings
        self._database = DatabaseClock()
        self._latest = 0
        self._hearers: list[Hear] = []
        self._workers: list[Hear] = []
        self._near: list[Hear] = []
        self._listener: Listener | None = None
        self._dialling: list[asyncio.Task[None]] = []
        self._me = uuid4().hex

    async def open(self) -> None:
        """Connect, and create or migrate the schema. Raises `StoreVersion` or `StoreSettings`."""
        self._home = asyncio.get_running_loop()
        target = self._target
        self._writes = Line(target, {**BY_KEY, "application_name": "holdfast writes"})
        self._claims = Line(target, {**BY_ORDER, "application_name": "holdfast claims"})
        self._reads = Line(target, {**BY_KEY, "application_name": "holdfast reads"})
        self._searches = Line(target, {"application_name": "holdfast searches"})
        self._bells = Line(target, {"application_name": "holdfast bells"})
        self._heartbeat = Heartbeat(target, self.test_time)
        self._ringer = Ringer(self._bells, self._me)
        self._writer = Writer(self._writes, self.test_time, self._tell)
        # To connect takes longer than all that is asked then: several lines at a time.
        dialled = asyncio.create_task(self._claims.dial())
        try:
            with reading():
                await checks.check(self._writes, target)
                await checks.migrate(self._writes)
                await dialled
                await self._ask_the_time()
        except BaseException:
            dialled.cancel()
            await asyncio.gather(dialled, return_exceptions=True)
            await self._writes.close()
            await self._claims.close()
            raise

    async def close(self) -> None:
        """Finish the writes under way and hang up every line."""
        self._hearers.clear()
        if self._listener is not None:
            await self._listener.close()
        await asyncio.gather(*self._dialling, return_exceptions=True)
        await self._writer.close()
        await self._ringer.close()
        await self._heartbeat.close()
        for line in self._lines:
            await line.close()

    @property
    def _lines(self) -> tuple[Line, ...]:
        return self._writes, self._claims, self._reads, self._searches, self._bells

    @property
    def statements(self) -> int:
        """How many statements this process has sent, whatever for."""
        heard = 0 if self._listener is None else self._listener.statements
        return sum(line.statements for line in self._lines) + self._heartbeat.statements + heard

    @property
    def transactions(self) -> int:
        """How many transactions the writer has committed."""
        return self._writer.commits

    def now(self) -> int:
        """Return the database's clock as it is known here; it never goes back."""
        self._latest = max(self._latest, (self._given or self._database)())
        return self._latest

    def test_time(self) -> int | None:
        """Return the time a statement is to use, or None for the database's own."""
        return None if self._given is None else self.now()

    async def _ask_the_time(self) -> None:
        sent = self._database.ticked()
        [[told]] = await self._writes.fetch(SQL.clock)
        self._database.learn(told, sent)

    def write(self, batch: Sequence[Write]) -> Awaitable[list[Outcome]]:
        """Carry out the batch with whatever else is ready, in one transaction."""
        if asyncio.get_running_loop() is self._home:
            return self._writer.submit(batch)
        return self._heartbeat.write(batch)

    async def claim(self, claim: Claim) -> Claimed:
        """Look first; write only if there is something to take."""
        now = self.test_time()
        if not (claim.eager or claim.reaps):
            row = await self._look(claim, now)
            if not row["claimable"] or claim.limit <= 0:
                return claims.seen(row, Claimed())
        found = Claimed()
        with _writing():
            reaped = await self._reap(claim, now) if claim.reaps else ()
            if claim.limit > 0:
                rows = await self._claims.fetch(claims.TAKE, **claims.taking(claim, now))
                found = claims.taken(rows)
        row = await self._look(claim, now)
        # What we do not take may be for others: in a queue of theirs.
        if reaped and (row["claimable"] or claim.queues is not None):
            self._tell([Notice(what="ready")])
        return claims.seen(row, found._replace(reaped=reaped))

    async def _look(self, claim: Claim, now: int | None) -> Any:
        sent = self._database.ticked()
        with reading():
            [row] = await self._claims.fetch(claims.LOOK, **claims.looking(claim, now))
        if now is None:
            self._database.learn(row["now"], sent)
        return row

    async def _reap(self, claim: Claim, now: int | None) -> tuple[tuple[str, int], ...]:
        async with self._claims.transaction() as ask:
            counts = [(each.worker, (await reap(ask, each, now)).total) for each in claim.reaps]
        return tuple((worker, count) for worker, count in counts if count)

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        """Return the run with its living events and unread messages, as of one moment."""
        with reading():
            return await reader.load(self._reads, ns, run, after)

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        """Return runs, newest first."""
        asked, binds = statement_of(filter, page)
        with reading():
            rows = await self._searches.fetch(asked, **binds)
        return list(map(Run._make, rows))[: page.limit]

    async def labels(self, ns: str, runs: Sequence[str]) -> Mapping[str, Labels]:
        """Return the tags and attributes of those runs that have some."""
        with reading():
            return await reader.labels(self._reads, ns, runs)

    async def export(self, ns: str, run: str) -> Export | None:
        """Return everything of a run, superseded events too, as of one moment."""
        with reading():
            async with self._searches.transaction(reads=True) as ask:
                return await reader.export(ask, ns, run)

    async def logs(self, wanted: LogFilter) -> list[LogLine]:
        """Return lines of a run's log, oldest first."""
        with reading():
            return await reader.lines(self._searches, wanted)

    def listen(self, hear: Hear, *, worker: str = "", near: bool = False) -> Callable[[], None]:
        """Call `hear` after each commit here, and when another process rings."""
        self._hearers.append(hear)
        if worker:
            self._workers.append(hear)
            # It will read a history soon. Should this fail, the read tries again and tells.
            self._dialling.append(asyncio.create_task(self._reads.dial()))
            self._dialling[-1].add_done_callback(_looked_at)
        if near:
            self._near.append(hear)
        elif self._rings and self._listener is None:
            self._listener = Listener(self._target, self._me, self._rung)
        if worker and self._listener is not None:
            self._listener.worker = worker

        def stop() -> None:
            for listed in (self._hearers, self._workers, self._near):
                if hear in listed:
                    listed.remove(hear)

        return stop

    def _rung(self, for_workers: bool) -> None:
        for hear in tuple(self._hearers):
            if hear not in self._near and (for_workers or hear not in self._workers):
                hear([Notice()])

    def _tell(self, heard: list[Notice]) -> None:
        for hear in tuple(self._hearers):
            hear(heard)
        if self._rings:
            self._ringer.ring(heard)


@contextlib.contextmanager
def _writing() -> Generator[None]:
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        meant = of_a_write(error)
        if isinstance(meant, Conflict):
            told = f"Nothing was written, another writer was there: {meant}. Try again."
            meant = StoreUnavailable(told)
        raise meant from error


def _looked_at(dialled: asyncio.Task[None]) -> None:
    """Take note of an error that whoever uses the line will meet again."""
    if not dialled.cancelled():
        dialled.exception()
