"""Users' own tables beside ours: what a transaction may ask, and how it asks an SQLite database.

A statement names its values (`:id`), on every store. It may do what it likes to tables of the
user's. It may not end the transaction, reach other databases, or write to ours.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from holdfast.errors import BadStatement
from holdfast.ports.transaction import Overdue

TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(\w*)\$.*?\$\1\$
        | (?<![:\w]):(?P<name>[A-Za-z_]\w*)""",
    re.VERBOSE | re.DOTALL,
)
"""A text, a quoted name, a comment, or a place for a value."""

BLANK = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)

REFUSED = frozenset({
    "abort", "attach", "begin", "commit", "detach", "discard", "end", "listen", "notify", "pragma",
    "prepare", "release", "reset", "rollback", "savepoint", "set", "start", "unlisten", "vacuum",
})  # fmt: skip
"""What a statement may not begin with: it would end the transaction, or outlive it."""

DEADLINE_OPS = 10_000
"""Instructions of SQLite's between two looks at the clock: a fraction of a millisecond."""


class Asked(NamedTuple):
    """A statement of the user's: as it was written, and with numbered places."""

    text: str
    numbered: str
    names: tuple[str, ...]

    def bound(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the values in the order of their places. Raises `BadStatement`."""
        if set(values) != set(self.names):
            missing = [name for name in self.names if name not in values]
            what = f"names :{missing[0]}, which was given no value" if missing else ""
            what = what or f"has no place :{min(set(values) - set(self.names))}"
            raise BadStatement(sql=self.text, what=what, hint="Give each place a value by its name")
        return [values[name] for name in self.names]


@lru_cache(maxsize=512)
def asked_by(sql: str) -> Asked:
    """Read a statement. Raises `BadStatement` for one that does not belong in a transaction."""
    first = re.compile(r"\w*").match(sql, BLANK.match(sql).end())  # type: ignore[union-attr]
    verb = first[0].lower() if first else ""
    if not verb:
        raise BadStatement(sql=sql, what="is empty", hint="Give one statement of SQL")
    if verb in REFUSED:
        hint = "Leave that out: it begins with the step, and ends with it"
        raise BadStatement(sql=sql, what=f"begins with {verb.upper()}", hint=hint)
    names: list[str] = []

    def place(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None:
            return found[0]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return Asked(sql, TOKEN.sub(place, sql), tuple(names))


class Guard:
    """Looks at what statements would do before they are carried out, while it is `on`."""

    def __init__(self, connection: sqlite3.Connection, ours: frozenset[str]) -> None:
        self._ours, self._is_on = ours, False
        self.refused = ""
        # Once: SQLite forgets how it meant to carry out every statement it knew.
        connection.set_authorizer(self._judge)

    @contextmanager
    def on(self) -> Generator[None]:
        """Judge the statements of the block."""
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False

    def _judge(self, action: int, *about: str | None) -> int:
        if not self._is_on or action in (sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT):
            return sqlite3.SQLITE_OK
        if action in FORBIDDEN:
            self.refused = FORBIDDEN[action]
        elif self._ours.intersection(about[:2]):
            self.refused = "would change a table of Holdfast's"
        else:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY


FORBIDDEN: Mapping[int, str] = {
    sqlite3.SQLITE_ATTACH: "reaches for another file",
    sqlite3.SQLITE_DETACH: "reaches for another file",
    sqlite3.SQLITE_PRAGMA: "changes a setting",
    sqlite3.SQLITE_SAVEPOINT: "ends a part of the transaction",
    sqlite3.SQLITE_TRANSACTION: "ends the transaction",
}


class OnSqlite:
    """A transaction on an SQLite connection, for as long as it may take."""

    def __init__(self, connection: sqlite3.Connection, guard: Guard, seconds: float | None) -> None:
        self._connection, self._guard = connection, guard
        self._ends = None if seconds is None else time.monotonic() + seconds
        self._is_over = False

    def execute(self, sql: str, /, **values: Any) -> list[dict[str, Any]]:
        """Carry out one statement and return its rows."""
        asked = asked_by(sql)
        asked.bound(values)
        if self._is_over or not self._connection.in_transaction:
            # The database ends a transaction by itself, too: after INSERT OR ROLLBACK, for one.
            raise BadStatement(sql=sql, what="comes after the end of the transaction", hint=LATE)
        self.look_at_clock()
        try:
            with self._guard.on():
                cursor = self._connection.execute(sql, values)
                names = [column[0] for column in cursor.description or ()]
                return [dict(zip(names, row, strict=True)) for row in cursor]
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_AUTH:
                hint = "Use tables of your own, in this database"
                raise BadStatement(sql=sql, what=self._guard.refused, hint=hint) from error
            self.look_at_clock()
            raise

    @contextmanager
    def limited(self) -> Generator[None]:
        """Stop statements of the block that go on after the time is up; the end comes with it."""
        if self._ends is not None:
            self._connection.set_progress_handler(self._is_late, DEADLINE_OPS)
        try:
            yield
        finally:
            self._is_over = True
            if self._ends is not None:
                self._connection.set_progress_handler(None, 0)

    def look_at_clock(self) -> None:
        """Raise `Overdue` if the time is up."""
        if self._is_late():
            raise Overdue

    def _is_late(self) -> bool:
        return self._ends is not None and time.monotonic() > self._ends


LATE = "Use the transaction only in the function it was given to"


def tables_in(scripts: tuple[str, ...]) -> frozenset[str]:
    """Return the names of the tables that migrations make."""
    made = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", re.IGNORECASE)
    return frozenset(name for script in scripts for name in made.findall(script))
