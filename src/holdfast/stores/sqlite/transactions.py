"""Transactions on the one writing connection of a process, under a lock on the file.

A group of jobs is *staged* (its statements are run in an open transaction) and then committed.
`flock` on `<file>-lock` is held from the one to the other: it makes waiting between processes fair
and keeps writes and checkpoints of two processes apart. When a group fails it is rolled back and
written one by one, so that one bad write cannot take others with it.

Claims and leases are not brought to disk before they count: what is lost with the power is lost
together with every process that held something by it. The next commit that has to be durable takes
them along, as it stands after them in the log.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.errors import OutcomeUnknown, StoreFull, StoreMoved, StoreUnavailable
from holdfast.model.writes import Advance, Notice
from holdfast.ports.reply import Reply
from holdfast.stores.sqlite.connection import connect, migrate

log = logging.getLogger("holdfast.store")

Work = Callable[[sqlite3.Connection, int], tuple[Any, list[Notice]]]
"""Given a connection in a transaction and the time, returns a result and what changed."""

Together = Callable[[sqlite3.Connection, list["Job"]], list["Job"] | None]
"""Does many jobs at once and returns those left to do; None if it has to be undone."""

NOTHING: list[Notice] = []
"""Shared by all that change nothing; never changed."""

BUSY_WAIT = 0.01
BUSY_SECONDS = 30.0
"""How long to wait for a program that writes to the file without taking our lock."""


class Job(Reply[Any]):
    """Work for a transaction, and the reply to whoever gave it.

    `turn` is what it writes, if that is a plain turn, and `run` the run whose turn it is, if it is
    any. `is_soft` says that it need not outlive the machine.
    """

    __slots__ = ("is_soft", "loop", "notices", "outcome", "run", "turn")

    def __init__(self, loop: asyncio.AbstractEventLoop, *, is_soft: bool = False) -> None:
        super().__init__()
        self.loop, self.is_soft = loop, is_soft
        self.turn: Advance | None = None
        self.run = ""
        self.outcome: Any = None
        self.notices: list[Notice] = NOTHING

    @abstractmethod
    def work(self, connection: sqlite3.Connection, now: int) -> tuple[Any, list[Notice]]:
        """Do it in an open transaction, and return a result and what changed."""

    def resolve(self) -> None:
        """Give the outcome to whoever waits, in the loop that asked."""
        self.settle(self.outcome)


class Errand(Job):
    """Work that somebody else knows how to do."""

    __slots__ = ("_work",)

    def __init__(
        self, work: Work, loop: asyncio.AbstractEventLoop, *, is_soft: bool = False
    ) -> None:
        super().__init__(loop, is_soft=is_soft)
        self._work = work

    def work(self, connection: sqlite3.Connection, now: int) -> tuple[Any, list[Notice]]:
        """Have it done."""
        return self._work(connection, now)


class FileLock:
    """An exclusive `flock` on a file, between processes and between stores of one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def acquire(self, *, wait: bool) -> bool:
        """Take the lock; without `wait`, tell at once whether it was free."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let others have it."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


class Transactions:
    """The writing connection. One thread at a time may call in, which is the caller's care."""

    def __init__(self, path: Path, clock: Callable[[], int], together: Together) -> None:
        self._clock, self._together = clock, together
        self._lock = FileLock(path.with_name(path.name + "-lock"))
        self._changes = 0
        self._is_soft = False
        self.count = 0
        self._lock.acquire(wait=True)
        try:
            self.connection = connect(path, writes=True)
            migrate(self.connection)
        finally:
            self._lock.release()
        # Waiting is done in `_begin`, where the caller can bear it.
        self.connection.execute("PRAGMA busy_timeout = 0")

    def stage(self, group: list[Job], *, wait: bool) -> bool:
        """Run the group's statements and leave the transaction open for `commit`.

        False means that nothing is open: somebody else is writing (only without `wait`), or one of
        the jobs failed.
        """
        if not self._lock.acquire(wait=wait):
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
            self._run(group)
        except Exception as error:  # told to whoever gave the job, when it is alone
            self._undo()
            _fail(group, _translated(error))
            return False
        return True

    def _soften(self, is_soft: bool) -> None:
        """Let commits from now on wait for the disk, or not.

        SQLite does not listen while a transaction is open, so this may fail after one that could
        not be rolled back: whoever begins the next one makes sure again.
        """
        if is_soft is not self._is_soft:
            self.connection.execute(f"PRAGMA synchronous = {'NORMAL' if is_soft else 'FULL'}")
            self._is_soft = is_soft

    def _run(self, group: list[Job]) -> None:
        others = self._together(self.connection, group)
        if others is None:
            self._roll_back()
            self._begin(0)
            others = group
        now = self._clock() if others else 0
        for job in others:
            job.outcome, job.notices = job.work(self.connection, now)

    def commit(self, group: list[Job]) -> None:
        """Make a staged group durable, or say of all its jobs that nobody knows."""
        connection = self.connection
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            _fail(group, _uncommitted(error))
            return
        if self._is_soft:
            self._soften(False)
        self._lock.release()
        if connection.total_changes > self._changes:
            self._changes = connection.total_changes
            self.count += 1

    def write(self, group: list[Job]) -> None:
        """Stage and commit, waiting for others; if the group fails, one by one."""
        for job in group:
            job.error = None
        if self.stage(group, wait=True):
            self.commit(group)
        elif len(group) > 1:
            for job in group:
                self.write([job])

    def close(self) -> None:
        """Close the connection under the lock: the last one to leave checkpoints."""
        self._lock.acquire(wait=True)
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
        patience = time.monotonic() + seconds
        while True:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= patience:
                    raise
                time.sleep(BUSY_WAIT)
            else:
                return


def _fail(group: list[Job], error: Exception) -> None:
    for job in group:
        job.error = error


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
