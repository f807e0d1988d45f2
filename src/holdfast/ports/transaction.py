"""What a transactional step works with: its own tables, in the same commit as its record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from holdfast.model.failures import said
from holdfast.model.writes import Advance


class Transaction(Protocol):
    """The database in which the runs are kept, inside the transaction that records this step.

    What is written here is kept if and only if the step is recorded. It begins and ends by itself,
    and is over when the function returns.
    """

    def execute(self, sql: str, /, **values: Any) -> list[dict[str, Any]]:
        """Carry out one statement and return its rows, each as a dict by column name.

        A value goes where the statement says `:name`: `tx.execute("... = :id", id=7)`. Raises what
        the database's driver raises, and `BadStatement` for what a transaction may not do.
        """
        ...


Work = Callable[[Transaction], Advance]
"""Writes to tables of the user's, and returns the turn that goes with it."""


class WorkFailed(Exception):
    """The user's part of a transaction raised `error`: nothing was kept."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(said(error))
        self.error = error


class Overdue(Exception):
    """A transaction took longer than it may. Others wait while it is open."""
