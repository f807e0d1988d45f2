"""A witness in a PostgreSQL database of the user's, by psycopg."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.errors import MissingExtra
from holdfast.model.deeds import Deed
from holdfast.witnesses.rows import PAGE, before, now, outcome_of

if TYPE_CHECKING:
    import psycopg

CREATE = """
CREATE TABLE IF NOT EXISTS holdfast_witness (
    ns text NOT NULL,
    run text NOT NULL,
    generation bigint NOT NULL,
    step text NOT NULL,
    epoch bigint NOT NULL,
    done_at bigint NOT NULL,
    outcome bytea,
    PRIMARY KEY (ns, run, generation, step)
)
"""
ADD = """
INSERT INTO holdfast_witness (ns, run, generation, step, epoch, done_at)
VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING 1
"""
FIND = """
SELECT outcome FROM holdfast_witness WHERE ns = %s AND run = %s AND generation = %s AND step = %s
"""
KEEP = """
UPDATE holdfast_witness SET outcome = %s
WHERE ns = %s AND run = %s AND generation = %s AND step = %s
"""
PRUNE = "DELETE FROM holdfast_witness WHERE done_at < %s"
RUNS = """
SELECT DISTINCT run FROM holdfast_witness WHERE ns = %s AND run > %s AND done_at < %s
ORDER BY run LIMIT %s
"""
FORGET = "DELETE FROM holdfast_witness WHERE ns = %s AND run = ANY (%s) AND done_at < %s"
EXISTS = "SELECT to_regclass('holdfast_witness') IS NOT NULL"

Open = Callable[[], "AbstractContextManager[psycopg.Connection[Any]]"]


class PsycopgWitness:
    """`PsycopgWitness("postgresql://...")`, or what opens a connection, as `pool.connection` does.

    Steps get the `psycopg.Connection`, in a transaction that they cannot end.
    """

    def __init__(self, source: str | Open) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise MissingExtra(what="PsycopgWitness", extra="psycopg") from error
        self._open: Open
        if callable(source):
            self._open = source
        else:
            self._open = lambda: psycopg.connect(source)
        self._is_there = False

    def once(self, deed: Deed, work: Callable[[psycopg.Connection[Any]], bytes]) -> bytes:
        """Do `work` unless it was done; return what came of it."""
        name = deed[:4]
        with self._open() as connection:
            self._make_table(connection)
            with connection.transaction():
                # Whoever comes second waits here for the first to commit or to fail.
                added = connection.execute(ADD, (*name, deed.epoch, now())).fetchone()
                if added is None:
                    found = connection.execute(FIND, name).fetchone()
                    return outcome_of(deed, found[0] if found else None)
                outcome = work(connection)
                connection.execute(KEEP, (outcome, *name))
                return outcome

    def prune(self, older_than: timedelta) -> int:
        """Forget deeds that were done so long ago; return how many."""
        with self._open() as connection:
            self._make_table(connection)
            with connection.transaction():
                return connection.execute(PRUNE, (before(older_than),)).rowcount

    def runs(self, ns: str, older_than: timedelta, after: str = "") -> list[str]:
        """Return runs that did something so long ago, in order, some at a time."""
        with self._open() as connection:
            self._make_table(connection)
            found = connection.execute(RUNS, (ns, after, before(older_than), PAGE)).fetchall()
        return [run for (run,) in found]

    def forget(self, ns: str, runs: Sequence[str], older_than: timedelta) -> int:
        """Forget what these runs did so long ago; return how many deeds."""
        with self._open() as connection:
            self._make_table(connection)
            with connection.transaction():
                return connection.execute(FORGET, (ns, [*runs], before(older_than))).rowcount

    def _make_table(self, connection: psycopg.Connection[Any]) -> None:
        """Make the table, once: two who make it at the same time would meet in the catalogue."""
        if self._is_there:
            return
        with connection.transaction():
            [is_there] = connection.execute(EXISTS).fetchone() or [False]
            if not is_there:
                connection.execute("SELECT pg_advisory_xact_lock(hashtext('holdfast_witness'))")
                connection.execute(CREATE)
        self._is_there = True
