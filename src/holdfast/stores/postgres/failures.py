"""What an error of the driver or the server means: not written, perhaps written, or a bug.

A statement that the server answers with an error was rolled back. A connection that ends before
the answer says nothing: the commit may have happened.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from typing import TypeVar

import asyncpg

from holdfast.errors import (
    OutcomeUnknown,
    StoreError,
    StoreFull,
    StoreMoved,
    StoreUnavailable,
)

E = TypeVar("E", bound=Exception)

AGAIN = frozenset({"40001", "40P01", "55P03"})
"""Two writers met: a deadlock, or a lock that took too long."""

NO_ROOM = frozenset({"53100"})
MOVED = "HFMOV"
"""What `holdfast.refuse` raises in a store that is closed by a move."""
ENDS = ("08", "57P")
"""Classes of errors with which the server ends a connection."""

WRONG = ("22", "23", "42")
"""Classes of errors that no second try mends: a value that cannot be kept, a statement of ours."""

HOMELESS = (
    asyncpg.UndefinedTableError,
    asyncpg.InvalidSchemaNameError,
    asyncpg.UndefinedFunctionError,
)
"""What a server says that has no schema of ours, or only the beginning of one."""

LOST = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncio.TimeoutError)
FAILED = (asyncpg.PostgresError, *LOST)
"""All that can be expected of the driver; see `asking`."""


class BadWrite(StoreUnavailable):
    """The server refuses what was written, whenever it is tried; nothing was written."""


class Conflict(Exception):
    """Another writer came in between; nothing was written, and the same can be tried again."""


@contextlib.contextmanager
def asking() -> Generator[None]:
    """Have the driver raise nothing that is not expected of it.

    On a session that the server has just ended it stumbles over itself, with a `TypeError` for
    one. Whatever that is, the link is of no more use.
    """
    try:
        yield
    except (StoreError, *FAILED):
        raise
    except Exception as error:
        raise expected(error) from error


def expected(error: BaseException) -> BaseException:
    """Return the error, or what it means if the driver is not expected to raise it."""
    if isinstance(error, FAILED) or not isinstance(error, Exception):
        return error
    return asyncpg.InternalClientError(f"{type(error).__name__}: {told(error)}")


def is_lost(error: BaseException) -> bool:
    """Tell whether the connection is of no more use."""
    if isinstance(error, asyncpg.PostgresError):
        return code_of(error).startswith(ENDS) or code_of(error) == "25006"
    return isinstance(error, LOST)


def code_of(error: BaseException) -> str:
    """Return the server's five letters, or an empty text."""
    return str(getattr(error, "sqlstate", "") or "")


def of_a_read(error: Exception) -> Exception:
    """Translate what a read failed with."""
    if isinstance(error, FAILED):
        return caused(StoreUnavailable(f"The read failed: {told(error)}. Try again."), error)
    return error


@contextlib.contextmanager
def reading() -> Generator[None]:
    """Have what fails in the block raise errors of ours."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        raise of_a_read(error) from error


def of_a_write(error: Exception) -> Exception:
    """Translate what a write failed with; what is no failure of the store stays what it is."""
    if isinstance(error, asyncpg.PostgresError):
        return _answered(error)
    return unknown(error) if isinstance(error, LOST) else error


def _answered(error: asyncpg.PostgresError) -> Exception:
    code = code_of(error)
    # A message that another process put meanwhile: seen only once its transaction is over.
    if code in AGAIN or (code == "23505" and getattr(error, "table_name", "") == "inbox"):
        return caused(Conflict(told(error)), error)
    if code == MOVED:
        role, _, place = told(error).partition(" ")
        return caused(StoreMoved(role=role, place=place), error)
    if code in NO_ROOM:
        return caused(
            StoreFull(
                f"Nothing was written, the database has no room: {told(error)}. Make room on the "
                f"server's disk; workers go on by themselves."
            ),
            error,
        )
    if code.startswith(WRONG):
        return caused(
            BadWrite(
                f"Nothing was written, PostgreSQL refused it: {told(error)}. If a migration or a "
                f"person changed the schema `holdfast`, undo that; else report this as a bug."
            ),
            error,
        )
    if code.startswith(ENDS) and code != "57014":  # 57014: only this statement was stopped
        return unknown(error)
    return caused(StoreUnavailable(f"Nothing was written: {told(error)}. Try again."), error)


def unknown(error: BaseException) -> StoreError:
    """Say that nobody knows whether the commit happened."""
    return caused(OutcomeUnknown(f"The connection was lost: {told(error)}. Read again."), error)


def told(error: BaseException) -> str:
    """Return the first line of an error, or its kind if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def caused(error: E, cause: BaseException) -> E:
    """Return the error with its cause."""
    error.__cause__ = cause
    return error
