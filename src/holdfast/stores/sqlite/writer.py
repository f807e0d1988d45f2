"""One writer for all writes of a process: group commit.

Everything that became ready while the previous commit was on its way is written as one transaction:
turns of many runs, starts, signals, claims. The writer never waits to gather more.

A group is staged in the store's own loop, where its statements contend with nobody for the
interpreter. As long as the disk is quick it is committed there too: to wake a thread and be woken
by it takes longer than the commit. When the disk is slow, another process holds the file, or a job
of the group fails, a thread does what has to be waited for. Jobs that come from other loops, such
as the renewal of a lease, are the thread's too: a busy loop cannot hold them up.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue

from holdfast.model.writes import Notice, Write
from holdfast.stores.sqlite.together import Batch, write_alone, write_together
from holdfast.stores.sqlite.transactions import Errand, Job, Transactions, Work

log = logging.getLogger("holdfast.store")

QUICK = 0.001
"""Seconds a commit may take, as a moving average, to be waited for in the loop."""

LONELY = 8
"""Groups of one job in a row after which the next job is not expected to have company."""

NOBODY = "\0"
"""In place of a run, before a tick of the loop has brought any job."""

Told = Callable[[list[Notice]], None]
Task = tuple[Callable[[list[Job]], None], list[Job]]


class Writer:
    """Owns the writing connection. With `threaded=False` it writes in the caller's thread."""

    def __init__(self, path: Path, clock: Callable[[], int], *, threaded: bool = True) -> None:
        self._transactions = Transactions(path, clock, write_together, write_alone)
        self._threaded = threaded
        self._home, self._home_thread = asyncio.get_running_loop(), threading.get_ident()
        self._ready: list[Job] = []
        self._foreign: deque[Job] = deque()
        self._turn = threading.Lock()
        self._alone = 0
        self._came = NOBODY
        self._has_code = False
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._is_followed: Callable[[], bool] = bool
        self._after_commit: Told = _nobody
        self._tell: Told = _nobody

    @property
    def transactions(self) -> int:
        """How many transactions that changed something were committed."""
        return self._transactions.count

    def tell(self, is_followed: Callable[[], bool], *, after_commit: Told, in_loop: Told) -> None:
        """Have both get what each group changed: in the writer's thread, and in the loop that
        gave the work, right before the results are there.

        That a run only goes on is told if `is_followed`.
        """
        self._is_followed, self._after_commit, self._tell = is_followed, after_commit, in_loop

    def submit_code(self, work: Work) -> Job:
        """As `submit`, of work that calls users' code: in the thread, whatever the pace."""
        self._has_code = True
        return self.submit(work)

    def submit(self, work: Work, *, is_soft: bool = False) -> Job:
        """Run `work` in a transaction; the reply is its result, once that is durable.

        What `is_soft` may be lost with the power.
        """
        return self._take(Errand(work, asyncio.get_running_loop(), is_soft=is_soft))

    def write(self, batch: Sequence[Write]) -> Job:
        """Carry out a batch in a transaction; the reply is its outcomes, once they are durable."""
        return self._take(Batch(batch, asyncio.get_running_loop()))

    def _take(self, job: Job) -> Job:
        """Have the jobs of this tick of the loop flushed together, at its end.

        When tick after tick has brought one job only, or the turns of one run, which come one after
        the other, the first is not kept waiting for others.
        """
        if job.loop is not self._home or not self._threaded:
            self._take_apart(job)
            return job
        came, run = self._came, job.run
        if self._alone >= LONELY and (came is NOBODY or (run and came == run)):
            if came is NOBODY:
                self._home.call_soon(self._tick)
                self._came = run
            if not (job.sql and self._wrote_alone(job)):
                self._ready.append(job)
                self._flush()
        else:
            if came is not NOBODY:
                self._alone = 0
            self._ready.append(job)
            if len(self._ready) == 1:
                self._home.call_soon(self._flush)
        return job

    def _wrote_alone(self, job: Job) -> bool:
        """Write a plain job that has no company, if nobody is in the way; else do nothing."""
        transactions = self._transactions
        is_clear = not (self._ready or self._foreign) and transactions.pace <= QUICK
        if not is_clear or not self._turn.acquire(blocking=False):
            return False
        told: list[Notice] = []
        try:
            is_done = transactions.write_alone(job)
            if is_done and not (job.goes_on and not self._is_followed()):
                told = job.told()
                self._after_commit(told)
        except BaseException as error:
            transactions.give_up([job], error)
            is_done = True
        finally:
            self._turn.release()
        if is_done:
            if told:
                self._tell(told)
            job.settle(job.outcome)
            if self._ready or self._foreign:
                self._flush()
        return is_done

    def _take_apart(self, job: Job) -> None:
        """Take a job of another loop, or one that is written where it is given."""
        if self._threaded:
            self._hand_over(self._write_foreign, [job])
        else:
            self._transactions.write([job])
            told = job.told()
            self._after_commit(told)
            self._resolve([job], told)

    def lend(self) -> sqlite3.Connection | None:
        """Return the connection to somebody who reads now; `take_back` must be called after it.

        None while a group is on its way, and for other threads than that of the home loop.
        """
        is_home = threading.get_ident() == self._home_thread
        if not is_home or not self._turn.acquire(blocking=False):
            return None
        return self._transactions.connection

    def take_back(self) -> None:
        """Go on with writing: the thread takes what came from other loops meanwhile.

        Not this loop, however soon: what was read may be replayed first, for as long as that takes.
        """
        self._turn.release()
        if self._foreign:
            self._hand_over(self._write_foreign, [])

    async def close(self) -> None:
        """Finish what was given, then close the connection."""
        if self._threaded:
            await self.submit(lambda _connection, _now: (None, []))
        if self._thread is not None:
            self._tasks.put(None)
            await asyncio.to_thread(self._thread.join)
        self._transactions.close()

    # --- in the home loop

    def _tick(self) -> None:
        self._came = NOBODY

    def _flush(self) -> None:
        """Stage what is ready, unless a group is on its way: its end will call again."""
        if not (self._ready or self._foreign) or not self._turn.acquire(blocking=False):
            return
        group, self._ready = self._ready, []
        if self._foreign:
            _drain(self._foreign, group)
        self._alone = self._alone + 1 if len(group) == 1 else 0
        has_code, self._has_code = self._has_code, False
        transactions = self._transactions
        if has_code or not transactions.stage(group, wait=False):
            self._hand_over(transactions.write, group)
        elif transactions.pace > QUICK:
            self._hand_over(transactions.commit, group)
        else:
            self._resolve(group, self._do(transactions.commit, group))

    def _resolve(self, jobs: list[Job], told: list[Notice]) -> None:
        if told:
            self._tell(told)
        for job in jobs:
            if job.loop is self._home:
                job.resolve()
            else:
                _call(job.loop, job.resolve)
        if self._ready or self._foreign:
            self._flush()

    def _hand_over(self, work: Callable[[list[Job]], None], group: list[Job]) -> None:
        """Have the thread do it; there is none before the first time."""
        self._tasks.put((work, group))
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    name = "holdfast-writer"
                    self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
                    self._thread.start()

    # --- in the thread

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            work, group = task
            if work == self._write_foreign:
                work(group)
                continue
            _call(self._home, self._resolve, group, self._do(work, group))
            self._write_foreign([])

    def _do(self, work: Callable[[list[Job]], None], group: list[Job]) -> list[Notice]:
        """Work on a group, return what it changed, and give the turn back, whatever happens: no
        error ends the thread."""
        try:
            work(group)
            told = self._notices(group)
            self._after_commit(told)
        except BaseException as error:
            log.exception("the writer failed on %d jobs", len(group))
            self._transactions.give_up(group, error)
            return []
        finally:
            self._turn.release()
        return told

    def _notices(self, jobs: list[Job]) -> list[Notice]:
        """Return what the jobs have changed that anybody wants to hear of."""
        if not self._is_followed():
            jobs = [job for job in jobs if not job.goes_on]
        return [told for job in jobs for told in job.told()]

    def _write_foreign(self, jobs: list[Job]) -> None:
        """Write the jobs of other loops now, unless a group is on its way: then they go next."""
        self._foreign.extend(jobs)
        if not self._foreign or not self._turn.acquire(blocking=False):
            return
        group = _drain(self._foreign, [])
        self._do(self._transactions.write, group)
        for job in group:
            _call(job.loop, job.resolve)
        _call(self._home, self._flush)


def _call(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: object) -> None:
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:  # that loop was closed: nobody waits any more
        return


def _drain(waiting: deque[Job], group: list[Job]) -> list[Job]:
    """Move to `group` what waits, while another thread may add to it."""
    while waiting:
        group.append(waiting.popleft())
    return group


def _nobody(notices: list[Notice]) -> None:
    """Hear nothing."""
