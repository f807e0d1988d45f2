"""A witness in an SQLite file of the user's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

from holdfast.model.deeds import Deed
from holdfast.witnesses.rows import PAGE, before, now, outcome_of

CREATE = """
CREATE TABLE IF NOT EXISTS holdfast_witness (
    ns TEXT NOT NULL,
    run TEXT NOT NULL,
    generation INTEGER NOT NULL,
    step TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    done_at INTEGER NOT NULL,
    outcome BLOB,
    PRIMARY KEY (ns, run, generation, step)
)
"""
FIND = """
SELECT outcome FROM holdfast_witness WHERE ns = ? AND run = ? AND generation = ? AND step = ?
"""
ADD = """
INSERT INTO holdfast_witness (ns, run, generation, step, epoch, done_at) VALUES (?, ?, ?, ?, ?, ?)
"""
KEEP = """
UPDATE holdfast_witness SET outcome = ? WHERE ns = ? AND run = ? AND generation = ? AND step = ?
"""
PRUNE = "DELETE FROM holdfast_witness WHERE done_at < ?"
RUNS = """
SELECT DISTINCT run FROM holdfast_witness WHERE ns = ? AND run > ? AND done_at < ?
ORDER BY run LIMIT ?
"""
FORGET = "DELETE FROM holdfast_witness WHERE ns = ? AND run = ? AND done_at < ?"


class SqliteWitness:
    """`SqliteWitness("books.db")`, or a function that returns a new connection.

    Steps get the `sqlite3.Connection`, in a transaction that they must not end.
    """

    def __init__(self, source: str | Path | Callable[[], sqlite3.Connection]) -> None:
        self._source = source

    def once(self, deed: Deed, work: Callable[[sqlite3.Connection], bytes]) -> bytes:
        """Do `work` unless it was done; return what came of it."""
        name = deed[:4]
        with self._transaction() as connection:
            found = connection.execute(FIND, name).fetchone()
            if found is not None:
                return outcome_of(deed, found[0])
            connection.execute(ADD, (*name, deed.epoch, now()))
            outcome = work(connection)
            if not connection.in_transaction:
                return outcome_of(deed, None)
            connection.execute(KEEP, (outcome, *name))
            return outcome

    def prune(self, older_than: timedelta) -> int:
        """Forget deeds that were done so long ago; return how many."""
        with self._transaction() as connection:
            return connection.execute(PRUNE, (before(older_than),)).rowcount

    def runs(self, ns: str, older_than: timedelta, after: str = "") -> list[str]:
        """Return runs that did something so long ago, in order, some at a time."""
        with self._transaction() as connection:
            found = connection.execute(RUNS, (ns, after, before(older_than), PAGE)).fetchall()
        return [run for (run,) in found]

    def forget(self, ns: str, runs: Sequence[str], older_than: timedelta) -> int:
        """Forget what these runs did so long ago; return how many deeds."""
        age = before(older_than)
        with self._transaction() as connection:
            return connection.executemany(FORGET, [(ns, run, age) for run in runs]).rowcount

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        """Have the file to ourselves; whoever comes second waits, and then finds the row.

        Begun and ended by hand: what `commit()` does depends on how a connection was made.
        """
        with closing(self._open()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute(CREATE)
                yield connection
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _open(self) -> sqlite3.Connection:
        if callable(self._source):
            return self._source()
        return sqlite3.connect(self._source, timeout=5.0)
