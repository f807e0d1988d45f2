"""A database that many hosts share.

Writes go through the process's one `Writer`, each round as one statement. Claims, reads, renewals
and notices have connections of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any

from holdfast.errors import StoreError, StoreMoved, StoreUnavailable
from holdfast.model.annotations import LogFilter, LogLine
from holdfast.model.exports import Export
from holdfast.model.labels import Labels
from holdfast.model.run import Loaded, Posted, Run
from holdfast.model.writes import Claim, Claimed, Filter, Notice, Outcome, Page, Reap, Write
from holdfast.ports.jobs import Jobs
from holdfast.ports.store import Hear
from holdfast.stores.postgres import checks, claims, limits, reader
from holdfast.stores.postgres.alone import reaping
from holdfast.stores.postgres.bells import Listener, Ringer
from holdfast.stores.postgres.business import Business, Transacting
from holdfast.stores.postgres.clock import DatabaseClock
from holdfast.stores.postgres.connection import Line
from holdfast.stores.postgres.doorbells import Doorbell, new_name
from holdfast.stores.postgres.failures import Conflict, of_a_write, reading
from holdfast.stores.postgres.filtering import statement_of
from holdfast.stores.postgres.heartbeat import Heartbeat
from holdfast.stores.postgres.inspection import Inspection
from holdfast.stores.postgres.jobs import PostgresJobs
from holdfast.stores.postgres.statements import queries
from holdfast.stores.postgres.takeover import (
    Ahead,
    Left,
    left_behind,
    rehearse_taking,
    take_over,
)
from holdfast.stores.postgres.target import BY_KEY, BY_ORDER, Target
from holdfast.stores.postgres.writer import Writer

SQL = queries()


class PostgresStore(Inspection, Transacting):
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
        self._followers = 0
        self._workers: list[Hear] = []
        self._near: list[Hear] = []
        self._listener: Listener | None = None
        self._errands: set[asyncio.Task[None]] = set()
        self._has_looked = False
        self._left: Sequence[Left] = ()
        """What processes of this machine that have ended held when this was opened."""
        self._ahead: Ahead | None = None
        self._managed: set[str] = set()
        """Namespaces in which queues are managed: no queue ever stops being so."""
        self._me = new_name()
        self._bell = Doorbell(self._me)
        self.jobs: Jobs = PostgresJobs(
            lambda: self._claims, lambda: self._reads, self.test_time, _writing
        )

    async def open(self) -> None:
        """Connect, and create or migrate the schema.

        Raises `StoreVersion` or `StoreSettings`, and `StoreMoved` while a move fills it.
        """
        self._home = asyncio.get_running_loop()
        target = self._target
        self._writes = Line(target, {**BY_KEY, "application_name": "holdfast writes"})
        self._claims = Line(target, {**BY_ORDER, "application_name": "holdfast claims"})
        self._reads = Line(target, {**BY_KEY, "application_name": "holdfast reads"})
        self._searches = Line(target, {"application_name": "holdfast searches"})
        self._bells = Line(target, {"application_name": "holdfast bells"})
        self._heartbeat = Heartbeat(target, self.test_time)
        self._ringer = Ringer(self._bells, self._me, self._bell)
        self._writer = Writer(self._writes, self.test_time, self._tell, self._is_followed)
        self._business = Business(target, self.test_time, self._tell)
        try:
            with reading():
                # A worker's first question goes on the line that is greeted.
                await self._greet(self._claims)
        except BaseException:
            await self._hang_up()
            raise

    async def _greet(self, line: Line) -> None:
        """See that the database can be used, and ask what time it is."""
        sent = self._database.ticked()
        # To connect takes longer than all that is asked then: a second line at the same time.
        self._dial(self._writes)
        greeted = await checks.greet(line, self._target)
        if greeted is None:
            await checks.check(line, self._target)
            await checks.migrate(line)
            sent = self._database.ticked()
            [[now]] = await line.fetch(SQL.clock)
            closed = "".join(row[0] for row in await line.fetch(SQL.closed_by))
            greeted = checks.Greeted(now, closed, ())
        self._database.learn(greeted.now, sent)
        self._left = left_behind(greeted.holders)
        if self._left:
            self._begin(rehearse_taking(line))
            await asyncio.sleep(0)  # so that it is on its way
        role, _, place = greeted.closed.partition(" ")
        self.moved_to = place if role == "source" else ""
        if role == "target":
            raise StoreMoved(role=role, place=place)

    async def close(self) -> None:
        """Finish the writes under way and hang up every line."""
        self._hearers.clear()
        if self._listener is not None:
            await self._listener.close()
        await self._writer.close()
        await self._ringer.close()
        await self._heartbeat.close()
        await self._hang_up()

    def _dial(self, line: Line) -> None:
        """Connect a line that will be needed soon. Should this fail, its first use tells."""
        self._begin(line.dial())

    def _begin(self, errand: Coroutine[Any, Any, None]) -> None:
        """Do with a line what nobody waits for."""
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._done)

    def _done(self, errand: asyncio.Task[None]) -> None:
        self._errands.discard(errand)
        if not errand.cancelled():
            errand.exception()  # whoever uses the line will meet it again

    async def _hang_up(self) -> None:
        # To the end: the driver leaves something behind if it is stopped while it connects.
        await asyncio.gather(*self._errands, return_exceptions=True)
        for line in self._lines:
            await line.close()
        await self._business.close()

    @property
    def _lines(self) -> tuple[Line, ...]:
        return self._writes, self._claims, self._reads, self._searches, self._bells

    @property
    def statements(self) -> int:
        """How many statements this process has sent, whatever for."""
        heard = 0 if self._listener is None else self._listener.statements
        heard += self._heartbeat.statements + self._business.statements
        return sum(line.statements for line in self._lines) + heard

    @property
    def transactions(self) -> int:
        """How many transactions the writer has committed."""
        return self._writer.commits + self._business.commits

    def now(self) -> int:
        """Return the database's clock as it is known here; it never goes back."""
        self._latest = max(self._latest, (self._given or self._database)())
        return self._latest

    def test_time(self) -> int | None:
        """Return the time a statement is to use, or None for the database's own."""
        return None if self._given is None else self.now()

    def write(self, batch: Sequence[Write]) -> Awaitable[list[Outcome]]:
        """Carry out the batch with whatever else is ready, in one transaction."""
        if asyncio.get_running_loop() is self._home:
            return self._writer.submit(batch)
        return self._heartbeat.write(batch)

    async def claim(self, claim: Claim) -> Claimed:
        """Look first; write only if there is something to take."""
        known = Claimed()
        if claim.eager and not claim.reaps:
            known = await self._take_known(claim, self.test_time())
            if known.runs:
                return known  # they begin before anything else is looked at
        self._ahead = None
        found = await self._look_and_take(claim)
        if self._listener is not None and not (found.runs or found.dead):
            self._listener.hurry()
        return found._replace(reaped=known.reaped) if known.reaped else found

    async def _take_known(self, claim: Claim, now: int | None) -> Claimed:
        """Take what the dead have left, or what a hint named, without a search."""
        with _writing():
            if self._left:
                self._ahead = Ahead.of(self._left, claim, self._writes)
                over = await take_over(self._claims, claim, self._left, now)
                self._left = ()
                if self._ahead is not None:
                    self._ahead.know(over.runs)
                if sum(freed for _, freed in over.reaped) > len(over.runs):
                    self._tell([Notice(what="ready")])
                return over
            if claim.hints and self._has_looked and claim.ns not in self._managed:
                rows = await self._claims.fetch(SQL.claim_named, **claims.taking(claim, now))
                return claims.taken(rows)
        return Claimed()

    async def _look_and_take(self, claim: Claim) -> Claimed:
        now, seen = self.test_time(), None
        # Also when it is the first time: only a look shows what the dead have left.
        if not (claim.reaps or (claim.eager and self._has_looked)):
            seen = await self._look(claim, now)
            if not seen.claimable or claim.limit <= 0:
                return seen.joined(Claimed())
        found, knew = Claimed(), claim.ns in self._managed
        with _writing():
            reaped = [await self._reap(each, now) for each in claim.reaps]
            if claim.limit > 0:
                found = await self._take(claim, now)
        # What we did not take of it may be for others, or in a queue of theirs.
        if sum(freed for _, freed in reaped) > sum(run.strikes > 0 for run in found.runs):
            self._tell([Notice(what="ready")])
        found = found._replace(reaped=tuple(each for each in reaped if each[1]))
        if seen is None and found.runs:
            return found  # they begin before anything else is looked at
        if seen is None or knew:  # lines have moved on meanwhile
            seen = await self._look(claim, now)
        return seen.joined(found, is_news=not knew)

    async def _take(self, claim: Claim, now: int | None) -> Claimed:
        if claim.ns not in self._managed:
            return claims.taken(await self._claims.fetch(claims.TAKE, **claims.taking(claim, now)))
        async with self._claims.transaction() as ask:
            return await limits.take(ask, claim, now)

    async def _look(self, claim: Claim, now: int | None) -> limits.Seen:
        sent = self._database.ticked()
        with reading():
            [row] = await self._claims.fetch(claims.LOOK, **claims.looking(claim, now))
            self._has_looked = True
            if now is None:
                self._database.learn(row["now"], sent)
            if not row["managed"]:
                return limits.Seen(row)
            self._managed.add(claim.ns)
            return await limits.look(self._claims, claim, row)

    async def _reap(self, reap: Reap, now: int | None) -> tuple[str, int]:
        """Take the runs of a worker that is gone; return how many."""
        [[_, freed]] = await self._claims.fetch(SQL.reap_worker, **reaping(reap, now))
        return reap.worker, freed

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        """Return the run with its living events and unread messages, as of one moment."""
        with reading():
            if not after and self._ahead is not None and self._ahead.is_of(ns, run):
                ahead, self._ahead = self._ahead, None
                if (loaded := await ahead.loaded()) is not None:
                    return loaded
            return await reader.load(self._reading_line(), ns, run, after)

    async def message(self, ns: str, run: str, id: str) -> Posted | None:
        """Return a message and the row of its run, as of one moment."""
        with reading():
            return await reader.message(self._reading_line(), ns, run, id)

    def _reading_line(self) -> Line:
        """Return the line for reads, or another that is ready before it."""
        if self._reads.is_connected or not self._claims.is_idle:
            return self._reads
        if self._workers:  # a claim must not wait behind the next one
            self._dial(self._reads)
        return self._claims

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

    def listen(
        self, hear: Hear, *, worker: str = "", near: bool = False, turns: bool = True
    ) -> Callable[[], None]:
        """Call `hear` after each commit here, and when another process rings."""
        self._hearers.append(hear)
        self._followers += turns
        if worker:
            self._workers.append(hear)
        if near:
            self._near.append(hear)
        elif self._rings and self._listener is None:
            self._listener = Listener(self._target, self._me, self._rung, self._bell, worker)
        if worker and self._listener is not None:
            self._listener.worker = worker

        return lambda: self._forget(hear, turns=turns)

    def _forget(self, hear: Hear, *, turns: bool) -> None:
        if hear in self._hearers:
            self._followers -= turns
        for listed in (self._hearers, self._workers, self._near):
            if hear in listed:
                listed.remove(hear)

    def _rung(self, rung: Notice | None) -> None:
        """Have those look who listen for others' changes; workers only for what there may be."""
        for hear in tuple(self._hearers):
            if hear in self._near:
                continue
            if hear not in self._workers:
                hear([Notice()])
            elif rung is not None:
                hear([rung])

    def _is_followed(self) -> bool:
        """Tell whether anybody has yet to hear that a run only goes on."""
        return self._followers > 0 or (self._rings and not self._ringer.is_told)

    def _tell(self, heard: list[Notice]) -> None:
        if self._rings:
            self._ringer.ring(heard)  # first: it has the longer way
        for hear in tuple(self._hearers):
            hear(heard)


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
