"""Transactions on the one writing connection of a process, under a lock on the file.

A group of jobs is *staged* (its statements are run in an open transaction) and then committed.
`flock` on `<file>-lock` is held from the one to the other: it makes waiting between processes fair
and keeps writes and checkpoints of two processes apart. When a group fails it is rolled back and
written one by one, so that one bad write cannot take others with it.

Claims and leases are not brought to disk before they count: what is lost with the power is lost
together with every process that held something by it. The next commit that has to be durable takes
them along, as it stands after them in the log. Only a claim from a worker that went down with its
machine waits for the disk, or a run that brings the machine down would never be convicted.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import sqlite3
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import OutcomeUnknown, StoreFull, StoreMoved, StoreSettings, StoreUnavailable
from holdfast.model.writes import Notice
from holdfast.ports.reply import Reply
from holdfast.stores.sqlite.connection import CHECKPOINT_PAGES, connect, migrate

log = logging.getLogger("holdfast.store")

Work = Callable[[sqlite3.Connection, int], tuple[Any, list[Notice]]]
"""Given a connection in a transaction and the time, returns a result and what changed."""

Together = Callable[[sqlite3.Connection, list["Job"]], list["Job"] | None]
"""Does many jobs at once and returns those left to do; None if it has to be undone."""

Alone = Callable[[sqlite3.Cursor, "Job"], bool]
"""Does one plain job, or nothing if it is refused."""

NOTHING: list[Notice] = []
"""Shared by all that change nothing; never changed."""

AT_ONCE = fcntl.LOCK_EX | fcntl.LOCK_NB
BUSY_WAIT = 0.01
BUSY_SECONDS = 30.0
"""How long to wait for a program that writes to the file without taking our lock."""


class Job(Reply[Any]):
    """Work for a transaction, and the reply to whoever gave it.

    `run` is the run whose turn it is, if it is any. `is_soft` says that it need not outlive the
    machine. A *plain* job is done by one statement, `sql`, that with the values of `row` makes just
    as many `changes`, and by adding the events in `events`. One that `goes_on` changes nothing that
    others wait for.
    """

    is_soft = False
    run = ""
    sql = ""
    changes = 1
    goes_on = False
    row: tuple[object, ...] = ()
    events: Sequence[tuple[object, ...]] = ()
    outcome: Any = None
    notices: list[Notice] = NOTHING

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    @abstractmethod
    def work(self, connection: sqlite3.Connection, now: int) -> tuple[Any, list[Notice]]:
        """Do it in an open transaction, and return a result and what changed."""

    def applied(self) -> None:
        """Take note that it was done, of a plain one."""

    def told(self) -> list[Notice]:
        """Return what changed; nothing if it failed."""
        return self.notices

    def resolve(self) -> None:
        """Give the outcome to whoever waits, in the loop that asked."""
        self.settle(self.outcome)


class Errand(Job):
    """Work that somebody else knows how to do."""

    def __init__(
        self, work: Work, loop: asyncio.AbstractEventLoop, *, is_soft: bool = False
    ) -> None:
        self.loop, self._work, self.is_soft = loop, work, is_soft

    def work(self, connection: sqlite3.Connection, now: int) -> tuple[Any, list[Notice]]:
        """Have it done."""
        return self._work(connection, now)


class FileLock:
    """An exclusive `flock` on a file, between processes and between stores of one process."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreSettings(
                f"Cannot open {str(path)!r}: {error.strerror}. It belongs beside the database: "
                f"give this user the right to write there, or name another file."
            ) from error

    def acquire(self, how: int = fcntl.LOCK_EX) -> bool:
        """Take the lock; with `AT_ONCE`, tell whether it was free."""
        try:
            fcntl.flock(self._file, how)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let others have it."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


def _opened(path: Path) -> sqlite3.Connection:
    """Return the connection that writes, to a file with our schema."""
    connection = connect(path, writes=True)
    try:
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


class Transactions:
    """The writing connection. One thread at a time may call in, which is the caller's care."""

    def __init__(
        self, path: Path, clock: Callable[[], int], together: Together, alone: Alone
    ) -> None:
        self._clock, self._together, self._alone = clock, together, alone
        self._lock = FileLock(path.with_name(path.name + "-lock"))
        self._changes = 0
        self._is_soft = False
        self.count = 0
        self.pace = 0.0
        """Seconds that a commit takes, as a moving average."""
        self._lock.acquire()
        try:
            self.connection = _opened(path)
        except BaseException:
            self._lock.close()
            raise
        self._lock.release()
        # Waiting is done in `_begin`, where the caller can bear it.
        self.connection.execute("PRAGMA busy_timeout = 0")
        # One for all statements without rows: a new one each time costs a tenth of them.
        self._cursor = self.connection.cursor()

    def stage(self, group: list[Job], *, wait: bool) -> bool:
        """Run the group's statements and leave the transaction open for `commit`.

        False means that nothing is open: somebody else is writing (only without `wait`), or one of
        the jobs failed.
        """
        if not self._lock.acquire(fcntl.LOCK_EX if wait else AT_ONCE):
            return False
        try:
            if group[0].is_soft or self._is_soft:
                self._soften(all(job.is_soft for job in group))
            self._begin(BUSY_SECONDS if wait else 0)
        except sqlite3.Error as error:
            self._lock.release()
            if wait:
                _fail(group, _translated(error))
            return False
        try:
            others = self._together(self.connection, group)
            if others or others is None:
                self._do(group, others)
        except Exception as error:  # told to whoever gave the job, when it is alone
            self._undo()
            _fail(group, _translated(error))
            return False
        return True

    def _soften(self, is_soft: bool) -> None:
        """Let commits from now on wait for the disk, or not, nor copy the log into the file.

        SQLite does not listen while a transaction is open, so this may fail after one that could
        not be rolled back: whoever begins the next one makes sure again.
        """
        if is_soft is not self._is_soft:
            execute, pages = self._cursor.execute, 0 if is_soft else CHECKPOINT_PAGES
            execute(f"PRAGMA synchronous = {'NORMAL' if is_soft else 'FULL'}")
            execute(f"PRAGMA wal_autocheckpoint = {pages}")
            self._is_soft = is_soft

    def _do(self, group: list[Job], others: list[Job] | None) -> None:
        """Do one by one what is left of a group; all of it if it has to be begun again."""
        if others is None:
            self._roll_back()
            self._begin(0)
            others = group
        now = self._clock()
        for job in others:
            job.outcome, job.notices = job.work(self.connection, now)

    def commit(self, group: list[Job]) -> None:
        """Make a staged group durable, or say of all its jobs that nobody knows."""
        began = time.perf_counter()
        try:
            self._cursor.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            _fail(group, _uncommitted(error))
            return
        if self._is_soft:
            self._soften(False)
        self._end(began)

    def _end(self, began: float) -> None:
        """Let others write after a commit, and take note of how long it took."""
        self._lock.release()
        if (changes := self.connection.total_changes) > self._changes:
            self._changes = changes
            self.count += 1
        self.pace += 0.1 * (time.perf_counter() - began - self.pace)

    def write(self, group: list[Job]) -> None:
        """Stage and commit, waiting for others; if the group fails, one by one."""
        for job in group:
            job.error = None
        if self.stage(group, wait=True):
            self.commit(group)
        elif len(group) > 1:
            for job in group:
                self.write([job])

    def write_alone(self, job: Job) -> bool:
        """Write a plain job without ado. False: nothing was done; `write` will find out why."""
        if self._is_soft or not self._lock.acquire(AT_ONCE):
            return False
        if not job.events:
            return self._write_at_once(job)
        cursor = self._cursor
        try:
            cursor.execute("BEGIN IMMEDIATE")
            is_done = self._alone(cursor, job)
        except Exception:
            is_done = False
        if is_done:
            self.commit([job])
        else:
            self._undo()
        return is_done

    def _write_at_once(self, job: Job) -> bool:
        """Do so by its one statement, which is a transaction by itself."""
        began = time.perf_counter()
        try:
            is_done = self._alone(self._cursor, job)
        except Exception as error:
            self._undo()
            if not isinstance(error, sqlite3.Error) or _is_before_all(error):
                return False
            _fail([job], _uncommitted(error))
            return True
        if is_done:
            self._end(began)
        else:
            self._lock.release()
        return is_done

    def close(self) -> None:
        """Close the connection under the lock: the last one to leave checkpoints."""
        self._lock.acquire()
        self.connection.close()
        self._lock.release()
        self._lock.close()

    def give_up(self, group: list[Job], error: BaseException) -> None:
        """Let go of whatever a group held that ended in a way nobody foresaw."""
        with contextlib.suppress(OSError):  # it may have been released before
            self._undo()
        broken = OutcomeUnknown(f"The writer failed: {error!r}. Read again; report this as a bug.")
        broken.__cause__ = error
        _fail(group, broken)

    def _roll_back(self) -> None:
        # When the disk is full or fails, SQLite has rolled back already.
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def _undo(self) -> None:
        """Roll back and let others write."""
        try:
            self._roll_back()
            self._soften(False)
        except sqlite3.Error as error:
            log.warning("a transaction could not be rolled back: %s", error)
        finally:
            self._lock.release()

    def _begin(self, seconds: float) -> None:
        patience: float | None = None
        while True:
            try:
                self._cursor.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                patience = now + seconds if patience is None else patience
                if "locked" not in str(error) or now >= patience:
                    raise
                time.sleep(BUSY_WAIT)
            else:
                return


def _fail(group: list[Job], error: Exception) -> None:
    for job in group:
        job.error, job.notices = error, NOTHING


BEFORE_ALL = (
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR,
)  # fmt: skip
"""A statement failed before anything of it was on its way to the disk."""


def _is_before_all(error: sqlite3.Error) -> bool:
    """Tell whether nothing can have happened; what the driver itself refuses has no code."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in BEFORE_ALL


NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE)
"""Writing failed before the end of the transaction was in the log, so none of it counts: the disk,
a quota or the largest allowed file is full."""


def _uncommitted(error: sqlite3.Error) -> Exception:
    """Say what a failed commit means: without room nothing happened, else nobody knows."""
    if is_full(error):
        return _full(error)
    unknown = OutcomeUnknown(f"The commit failed: {error}. Read again.")
    unknown.__cause__ = error
    return unknown


def is_full(error: BaseException) -> bool:
    """Tell whether there is no room left."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return getattr(error, "sqlite_errorcode", None) in NO_ROOM


def _full(error: BaseException) -> StoreFull:
    full = StoreFull(
        f"Nothing was written, the database has no room: {error}. Make room on the disk, or raise "
        f"its quota; workers go on by themselves."
    )
    full.__cause__ = error
    return full


MOVED = "holdfast moved: "
"""What the triggers of a closed store say, before this store's part in the move and the place."""


def _translated(error: Exception) -> Exception:
    """Turn the driver's errors into ours; everything else is a bug and stays what it is."""
    if is_full(error):
        return _full(error)
    if isinstance(error, sqlite3.IntegrityError) and str(error).startswith(MOVED):
        role, _, place = str(error).removeprefix(MOVED).partition(" ")
        moved = StoreMoved(role=role, place=place)
        moved.__cause__ = error
        return moved
    if isinstance(error, sqlite3.Error | OSError):
        translated = StoreUnavailable(f"Nothing was written: {error}. Try again.")
        translated.__cause__ = error
        return translated
    return error
