"""One writer for all writes of a process: group commit under a file lock.

The writer takes everything that became ready while its previous commit was on its way and writes
it as one transaction: turns of many runs, starts, signals, claims and renewals. It never waits to
gather more. `flock` on `<file>-lock` makes waiting between processes fair, and keeps checkpoints
and writes of two processes apart. When a group fails it is rolled back and written one by one, so
that one bad write cannot take others with it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.model.writes import Notice
from holdfast.stores.sqlite.connection import connect, migrate

Work = Callable[[sqlite3.Connection, int], tuple[Any, list[Notice]]]
"""Given a connection in a transaction and the time, returns a result and what changed."""

Told = Callable[[list[Notice]], None]
BUSY_TRIES = 6
"""Times the busy time-out of 5 s: only a process that ignores our lock can make us wait."""


class Job:
    """Work for the writer, and where its result goes."""

    __slots__ = ("error", "future", "loop", "notices", "result", "work")

    def __init__(
        self, work: Work, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]
    ) -> None:
        self.work, self.loop, self.future = work, loop, future
        self.result: Any = None
        self.notices: list[Notice] = []
        self.error: Exception | None = None


class FileLock:
    """An exclusive `flock` on a file, between processes and between stores of one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def __enter__(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


class Writer:
    """Owns the one writing connection. With `threaded=False` it writes in the caller's thread."""

    def __init__(self, path: Path, clock: Callable[[], int], *, threaded: bool = True) -> None:
        self._clock = clock
        self._lock = FileLock(path.with_name(path.name + "-lock"))
        with self._lock:
            self._connection = connect(path, writes=True)
            migrate(self._connection)
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="holdfast-writer", daemon=True)
        self._threaded = threaded
        self._after_commit: Told = _nobody
        self._tell: Told = _nobody
        self.transactions = 0
        if threaded:
            self._thread.start()

    def tell(self, *, after_commit: Told, in_loop: Told) -> None:
        """Have both get what each group changed: in the writer's thread, and in the loop that
        gave the work, right before the results are there."""
        self._after_commit, self._tell = after_commit, in_loop

    def submit(self, work: Work) -> asyncio.Future[Any]:
        """Run `work` in a transaction; the future has its result once that is durable."""
        loop = asyncio.get_running_loop()
        job = Job(work, loop, loop.create_future())
        if self._threaded:
            self._jobs.put(job)
        else:
            self._commit([job])
            self._resolve([job])
        return job.future

    def close(self) -> None:
        """Finish what was given, then close the connection under the lock."""
        if self._threaded:
            self._jobs.put(None)
            self._thread.join()
        with self._lock:
            self._connection.close()
        self._lock.close()

    def _serve(self) -> None:
        stopping = False
        while not stopping:
            group, stopping = self._next_group()
            if group:
                self._commit(group)
                self._deliver(group)

    def _next_group(self) -> tuple[list[Job], bool]:
        first = self._jobs.get()
        if first is None:
            return [], True
        group = [first]
        try:
            while (job := self._jobs.get_nowait()) is not None:
                group.append(job)
        except Empty:
            return group, False
        return group, True

    def _commit(self, group: list[Job]) -> None:
        try:
            with self._lock, self._transaction():
                now = self._clock()
                for job in group:
                    job.result, job.notices = job.work(self._connection, now)
        except OutcomeUnknown as error:
            for job in group:
                job.error = error
        except Exception as error:
            if len(group) > 1:
                for job in group:
                    self._commit([job])
            else:
                group[0].error = _translated(error)
        else:
            self._after_commit(_notices(group))

    def _deliver(self, group: list[Job]) -> None:
        """Hand the results over in the loops that asked, one wake-up a loop."""
        loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        for job in group:
            loops.setdefault(job.loop, []).append(job)
        for loop, jobs in loops.items():
            try:
                loop.call_soon_threadsafe(self._resolve, jobs)
            except RuntimeError:  # that loop was closed: nobody waits any more
                continue

    def _resolve(self, jobs: list[Job]) -> None:
        self._tell(_notices(jobs))
        for job in jobs:
            if job.future.done():
                continue
            if job.error is None:
                job.future.set_result(job.result)
            else:
                job.future.set_exception(job.error)

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._begin()
        before = self._connection.total_changes
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self.transactions += self._connection.total_changes > before
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise OutcomeUnknown(f"The commit failed: {error}. Read again.") from error

    def _begin(self) -> None:
        for attempt in range(1, BUSY_TRIES + 1):
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if attempt == BUSY_TRIES or "locked" not in str(error):
                    raise
            else:
                return


def _notices(jobs: list[Job]) -> list[Notice]:
    """Return what the jobs that were committed have changed."""
    return [notice for job in jobs if job.error is None for notice in job.notices]


def _nobody(notices: list[Notice]) -> None:
    """Hear nothing."""


def _translated(error: Exception) -> Exception:
    """Turn the driver's errors into ours; everything else is a bug and stays what it is."""
    if isinstance(error, sqlite3.Error | OSError):
        translated = StoreUnavailable(f"Nothing was written: {error}. Try again.")
        translated.__cause__ = error
        return translated
    return error
