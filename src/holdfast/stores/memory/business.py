"""Users' tables beside the dictionaries: an SQLite database in memory, made when it is needed."""

from __future__ import annotations

import sqlite3

from holdfast.model.writes import Advance, Outcome
from holdfast.ports.transaction import Work, WorkFailed
from holdfast.stores.business import Guard, OnSqlite
from holdfast.stores.memory.tables import Tables
from holdfast.stores.memory.writes import apply


class Business:
    """The database. It lives as long as the store."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._guard = Guard(self.connection, frozenset())

    def carry_out(
        self, tables: Tables, work: Work, seconds: float | None, now: int
    ) -> tuple[Advance, Outcome]:
        """Do the work and write its turn, or leave no trace of either. Raises `WorkFailed`."""
        connection = self.connection
        given = OnSqlite(connection, self._guard, seconds)
        connection.execute("BEGIN")
        try:
            with given.limited():
                turn = work(given)
                given.look_at_clock()
        except BaseException as error:
            self._undo()
            if isinstance(error, KeyboardInterrupt):
                raise  # this is the thread in which a person's is raised
            raise WorkFailed(error) from error
        if not connection.in_transaction:
            raise WorkFailed(RuntimeError("the database has ended the transaction"))
        try:
            with tables.transaction():
                outcome = apply(tables, turn, now)
            if outcome.applied:
                connection.execute("COMMIT")
        finally:
            self._undo()
        return turn, outcome

    def _undo(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
