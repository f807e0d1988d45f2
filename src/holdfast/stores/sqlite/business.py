"""Users' tables in our file: a function and the turn that records it, as one part of a group.

The function runs in the writer's thread, in a savepoint: what it wrote is taken back if it raises,
or if the turn is refused. If the database ends the whole transaction, the group is written again,
one by one.
"""

from __future__ import annotations

import sqlite3

from holdfast.model.writes import Notice, Outcome
from holdfast.ports.transaction import Work, WorkFailed
from holdfast.stores.business import Guard, OnSqlite, tables_in
from holdfast.stores.notices import notices_of
from holdfast.stores.sqlite.statements import migrations
from holdfast.stores.sqlite.transactions import is_full
from holdfast.stores.sqlite.writes import apply


class Business:
    """What is kept of a writing connection that users' functions work on."""

    def __init__(self) -> None:
        self._guard: tuple[sqlite3.Connection, Guard] | None = None

    def carry_out(
        self, connection: sqlite3.Connection, work: Work, seconds: float | None, now: int
    ) -> tuple[Outcome | WorkFailed, list[Notice]]:
        """Do the work and write its turn, or leave no trace of either."""
        given = OnSqlite(connection, self._guard_of(connection), seconds)
        connection.execute("SAVEPOINT business")
        try:
            with given.limited():
                turn = work(given)
                given.look_at_clock()
        except BaseException as error:
            _undo(connection, error)
            return WorkFailed(error), []
        if not connection.in_transaction:  # it caught what ended the transaction
            raise WorkFailed(RuntimeError("the database has ended the transaction"))
        outcome = apply(connection, turn, now)
        if outcome.applied:
            connection.execute("RELEASE business")
            return outcome, notices_of([turn], [outcome])
        _undo(connection)
        return outcome, []

    def _guard_of(self, connection: sqlite3.Connection) -> Guard:
        if self._guard is None or self._guard[0] is not connection:
            self._guard = (connection, Guard(connection, tables_in(migrations())))
        return self._guard[1]


def _undo(connection: sqlite3.Connection, error: BaseException | None = None) -> None:
    """Take back what the function wrote. Raises if more than that is gone."""
    if connection.in_transaction:
        connection.execute("ROLLBACK TO business")
        connection.execute("RELEASE business")
    elif isinstance(error, sqlite3.Error) and is_full(error):
        raise error
    elif error is not None:
        raise WorkFailed(error) from error
