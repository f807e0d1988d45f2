"""One side of a move: a store as the mover sees it, past the door that is closed to others."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.dump import Dump
from holdfast.model.moving import Change, Row, Standing, Table


class Side(Protocol):
    """A store that is moved, or moved into. Every method may raise `StoreUnavailable`."""

    @property
    def place(self) -> str:
        """Where it is, as a URL without user and password."""
        ...

    async def open(self) -> None:
        """Connect, and create or migrate the schema. Raises `StoreVersion` or `StoreSettings`."""
        ...

    async def close(self) -> None:
        """Let go of every resource."""
        ...

    async def standing(self) -> Standing:
        """Return the time, the move that the store is part of, and who works on it."""
        ...

    async def read(self, table: Table, after: Row, limit: int) -> list[Row]:
        """Return the next rows behind a key (empty: from the start), in the order of the keys."""
        ...

    async def count(self, table: Table) -> int:
        """Return how many rows there are."""
        ...

    async def dump(self) -> Dump:
        """Return everything, as of one moment."""
        ...

    async def change(self, change: Change) -> bool:
        """Carry out a change in one transaction, durable on return; False if its guard refused it.

        Raises `OutcomeUnknown` when the commit may or may not have happened.
        """
        ...
