"""A file that many processes may share.

Writes go through the process's one `Writer`. Reads by key happen in the loop, on the writer's
connection; while that is busy, on one of their own, which is opened when it is first needed: to
read the schema takes a connection longer than a small run takes to resume. Searches happen in a
thread, on a third. `Street` and `Doorbell` tell who lives and wake them.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from holdfast.errors import StoreError, StoreMoved, StoreUnavailable
from holdfast.model.annotations import LogFilter, LogLine
from holdfast.model.exports import Export
from holdfast.model.labels import Labels
from holdfast.model.run import Loaded, Posted, Run
from holdfast.model.waits import Wait, WaitFilter
from holdfast.model.writes import (
    Claim,
    Claimed,
    Filter,
    Notice,
    Outcome,
    Page,
    Reap,
    Write,
)
from holdfast.ports.jobs import Jobs
from holdfast.ports.store import Hear
from holdfast.ports.transaction import Work as Made
from holdfast.ports.transaction import WorkFailed
from holdfast.stores.clock import SteadyClock
from holdfast.stores.notices import FOR_WORKERS
from holdfast.stores.sqlite import reader, said, waiting
from holdfast.stores.sqlite.business import Business
from holdfast.stores.sqlite.connection import connect, prepare
from holdfast.stores.sqlite.doorbell import CLIENT, MOMENT, WORKER, Doorbell, Street
from holdfast.stores.sqlite.inspection import Inspection
from holdfast.stores.sqlite.job_queue import SqliteJobs
from holdfast.stores.sqlite.statements import queries
from holdfast.stores.sqlite.takeover import take_named, take_over
from holdfast.stores.sqlite.writer import Writer
from holdfast.stores.sqlite.writes import take

T = TypeVar("T")
SQL = queries()


class SqliteStore(Inspection):
    """Keeps runs in an SQLite file.

    With `threaded=False` everything happens in the caller's thread and no bell is hung, so that a
    test on a virtual clock can count every call.
    """

    def __init__(
        self, path: str | Path, *, clock: Callable[[], int] | None = None, threaded: bool = True
    ) -> None:
        self.path: Path = Path(path)
        self._clock, self._threaded = clock or SteadyClock(), threaded
        self._latest = 0
        self._hearers: list[Hear] = []
        self._followers = 0
        self._bells: list[Doorbell] = []
        self._second_looks: dict[Doorbell, asyncio.TimerHandle] = {}
        self._gone: set[str] = set()
        self._reads: sqlite3.Connection | None = None
        self._searches: sqlite3.Connection | None = None
        self._business = Business()
        self.jobs: Jobs = SqliteJobs(
            self.now,
            self._look,
            lambda work: self._writer.submit(work),
            lambda worker: self._street.is_dead(worker),
        )

    async def open(self) -> None:
        """Open the file, creating or migrating it.

        Raises `StoreVersion` or `StoreSettings`, and `StoreMoved` while a move fills it.
        """
        prepare(self.path)
        self._writer = Writer(self.path, self.now, threaded=self._threaded)
        self._street = Street(self.path.with_name(self.path.name + "-workers"))
        self._writer.tell(self._is_followed, after_commit=self._ring, in_loop=self._tell)
        await self._see_moves()
        marked = self._read(lambda reads: reads.execute(SQL.meta, ("clock",)).fetchone())
        # A clock that was set back while nobody was looking does not move time back here.
        self._latest = max(self._latest, marked[0] if marked else 0)
        if isinstance(self._clock, SteadyClock):
            self._clock.raise_to(self._latest)

    async def _see_moves(self) -> None:
        """Learn where the runs went, if they did. Raises `StoreMoved` if they are not all here."""
        closed = self._read(lambda reads: reads.execute(SQL.closed_by).fetchone())
        role, _, place = closed[0].partition(" ") if closed else ("", "", "")
        self.moved_to = place if role == "source" else ""
        if role == "target":
            await self.close()
            raise StoreMoved(role=role, place=place)

    async def close(self) -> None:
        """Finish the writes under way and let go of every file and thread."""
        for bell in self._bells:
            self._take_down(bell)
        self._bury_all()
        self._hearers.clear()
        if self._writer.transactions:
            with contextlib.suppress(StoreError):
                await self._writer.submit(_mark_clock)
        if self._searches is not None:
            self._pool.shutdown()
            self._searches.close()
        if self._reads is not None:
            self._reads.close()
            self._reads = None
        await self._writer.close()
        self._street.close()

    def now(self) -> int:
        """Return the clock, which never goes back."""
        now = self._clock()
        if now < self._latest:
            return self._latest
        self._latest = now
        return now

    @property
    def transactions(self) -> int:
        """How many transactions this process has committed: at most one fdatasync each."""
        return self._writer.transactions

    def write(self, batch: Sequence[Write]) -> Awaitable[list[Outcome]]:
        """Carry out the batch with whatever else is ready, in one transaction."""
        return self._writer.write(batch)

    async def transact(self, work: Made, seconds: float | None = None) -> Outcome:
        """Do a user's work and write its turn, in the writer's thread."""

        def both(connection: sqlite3.Connection, now: int) -> tuple[Any, list[Notice]]:
            return self._business.carry_out(connection, work, seconds, now)

        found: Outcome | WorkFailed = await self._writer.submit_code(both)
        if isinstance(found, WorkFailed):
            raise found
        return found

    async def claim(self, claim: Claim) -> Claimed:
        """Look first, on the reading side; write only if there is something to take."""
        if not (claim.eager or claim.reaps):
            now = self.now()
            queue = await self._look(lambda reads: reader.peek(reads, claim, now))
            if not queue.claimable or claim.limit <= 0:
                return await self._claimed(queue, Claimed())
        if claim.eager and not claim.hints:
            others = self._read(lambda reads: reader.others(reads, claim.worker))
            dead = tuple(Reap(name, True) for name, _ in others if self._street.is_dead(name))
            claim = claim._replace(reaps=claim.reaps + dead)
        # Strikes must outlive a machine that a run brings down again and again.
        is_soft = all(self._street.has_outlived(reap.worker) for reap in claim.reaps)
        seen, taken = await self._writer.submit(self._taker(claim), is_soft=is_soft)
        self._bury_soon({*(reap.worker for reap in claim.reaps), *dict(taken.reaped)})
        return taken if seen is None else await self._claimed(seen, taken)

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        """Return the run with its living events and unread messages, as of one moment."""
        return await self._look(lambda reads: reader.load(reads, ns, run, after))

    async def message(self, ns: str, run: str, id: str) -> Posted | None:
        """Return a message and the row of its run, as of one moment."""
        return await self._look(lambda reads: reader.message(reads, ns, run, id))

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        """Return runs, newest first."""
        return await self._search(lambda reads: reader.find(reads, filter, page))

    async def labels(self, ns: str, runs: Sequence[str]) -> Mapping[str, Labels]:
        """Return the tags and attributes of those runs that have some."""
        return await self._look(lambda reads: reader.labels(reads, ns, runs))

    async def export(self, ns: str, run: str) -> Export | None:
        """Return everything of a run, superseded events too, as of one moment."""
        return await self._search(lambda reads: reader.export(reads, ns, run))

    async def logs(self, wanted: LogFilter) -> list[LogLine]:
        """Return lines of a run's log, oldest first."""
        return await self._search(lambda reads: said.lines(reads, wanted))

    async def waits(self, wanted: WaitFilter) -> list[Wait]:
        """Return what runs wait for from outside, the oldest first."""
        look = self._look if wanted.run else self._search
        return await look(lambda reads: waiting.read(reads, wanted))

    def listen(
        self, hear: Hear, *, worker: str = "", near: bool = False, turns: bool = True
    ) -> Callable[[], None]:
        """Call `hear` after each commit here, and when another process rings."""
        self._hearers.append(hear)
        self._followers += turns
        bell = self._hang(hear, worker) if self._threaded and not near else None

        def stop() -> None:
            if hear in self._hearers:
                self._hearers.remove(hear)
                self._followers -= turns
            if bell in self._bells:
                self._take_down(bell)

        return stop

    async def _look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read what an index finds, right here: a thread's wake-up costs more than the read."""
        await asyncio.sleep(0)
        return self._read(work)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read on the writer's connection if it is free, else on the one for that."""
        lent = self._writer.lend()
        if lent is not None:
            try:
                return work(lent)
            except sqlite3.Error as error:
                if not _is_busy(error):
                    raise _unread(error) from error
                # The writer's own does not wait for others, but the one for reading does.
            finally:
                self._writer.take_back()
        with _reading():
            if self._reads is None:
                self._reads = connect(self.path, writes=False)
            return work(self._reads)

    async def _search(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read what may take a while, on a connection and in a thread of its own."""
        if not self._threaded:
            return await self._look(work)
        with _reading():
            if self._searches is None:
                self._searches = connect(self.path, writes=False)
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="holdfast-reader")
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, work, self._searches)

    def _taker(self, claim: Claim) -> Callable[[sqlite3.Connection, int], Any]:
        """Return the work of a claim: reap, take, and look at what is left, as of one moment.

        What is taken goes on first: the look is left to the next call.
        """

        def work(connection: sqlite3.Connection, now: int) -> tuple[Any, list[Notice]]:
            taken, reaped = take_over(connection, claim, now)
            if claim.hints and claim.eager and not reaped:
                taken = take_named(connection, claim, now)
            if not taken.runs and claim.limit > 0:
                taken = take(connection, claim, now)
            seen = None if taken.runs else reader.peek(connection, claim, now)
            runs = taken.runs
            # What we do not take may be for others: in a queue of theirs, or one suspect too many.
            is_all = sum(run.strikes > 0 for run in runs) >= sum(dict(reaped).values())
            others_may = claim.queues is not None or len(runs) >= claim.limit or not is_all
            left = [Notice(what="ready")] if reaped and others_may else []
            fresh = {run.id: reader.first_event(connection, run) for run in runs if run.seq == 1}
            found = Claimed(
                runs=runs, first_events=fresh, reaped=reaped, convicts=taken.convicts,
                ticketed=taken.ticketed,
            )  # fmt: skip
            return (seen, found), left

        return work

    async def _claimed(self, seen: reader.Peek, taken: Claimed) -> Claimed:
        """Add what was seen in the queue, and who is gone, to what was taken."""
        now = self.now()
        dead = {name: True for name, _ in seen.others if self._street.is_dead(name)}
        expired = [name for name, lease in seen.others if lease <= now and name not in dead]
        if expired:
            # A worker that holds nothing does not renew: only holders are missed.
            holders = await self._look(lambda reads: reader.holders(reads, expired))
            dead.update(dict.fromkeys(holders, False))
        return taken._replace(
            mail=seen.mail,
            held=seen.held,
            dead=tuple(dead.items()),
            unregistered=seen.unregistered,
            unserved=seen.unserved,
            next_wake_at=seen.next_wake_at,
            overdue=seen.overdue,
            schedule_at=seen.schedule_at,
        )

    def _hang(self, hear: Hear, worker: str) -> Doorbell:
        kind = WORKER if worker else CLIENT
        bell = Doorbell(
            self.path.with_name(self.path.name + "-workers"), worker or uuid4().hex, kind
        )
        self._street.own.update({bell.address, worker})
        self._bells.append(bell)

        def rung() -> None:
            told = bell.answer()
            # A client looks at all it waits for: a name alone does not say how a run has ended.
            hear(told if worker else [Notice()])

        loop = asyncio.get_running_loop()
        loop.add_reader(bell.socket.fileno(), rung)
        if kind == CLIENT:
            self._second_looks[bell] = loop.call_later(2 * MOMENT, hear, [Notice()])
        return bell

    def _take_down(self, bell: Doorbell) -> None:
        asyncio.get_running_loop().remove_reader(bell.socket.fileno())
        self._bells = [other for other in self._bells if other is not bell]
        if (second_look := self._second_looks.pop(bell, None)) is not None:
            second_look.cancel()
        bell.close()

    def _bury_soon(self, workers: set[str]) -> None:
        """Remove what dead workers left, once the runs that were taken from them go on."""
        self._gone |= workers
        if not self._threaded:
            self._bury_all()
        elif workers:
            asyncio.get_running_loop().call_later(MOMENT, self._bury_all)

    def _bury_all(self) -> None:
        while self._gone:
            self._street.bury(self._gone.pop())

    def _tell(self, heard: list[Notice]) -> None:
        for hear in tuple(self._hearers):
            hear(heard)

    def _is_followed(self) -> bool:
        """Tell whether anybody wants to hear of runs that only go on."""
        return self._followers > 0 or not self._street.seems_empty()

    def _ring(self, told: list[Notice]) -> None:
        """Wake other processes, once a group, in the writer's thread."""
        if not told or not self._threaded:
            return
        whats = {notice.what for notice in told}
        if not whats.isdisjoint(FOR_WORKERS):
            self._street.ring((WORKER, CLIENT), told)
        elif "closed" in whats or not self._street.seems_empty():
            self._street.ring((CLIENT,))


@contextlib.contextmanager
def _reading() -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _unread(error) from error


def _unread(error: sqlite3.Error) -> StoreUnavailable:
    return StoreUnavailable(f"The read failed: {error}. Try again.")


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _mark_clock(connection: sqlite3.Connection, now: int) -> tuple[None, list[Notice]]:
    connection.execute(SQL.mark_clock, (now,))
    return None, []
