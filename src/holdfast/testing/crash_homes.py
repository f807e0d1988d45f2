"""Where a small world keeps its runs: in memory, in a file, or in a place of a test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from holdfast.model.dump import Dump, RunKey
from holdfast.model.run import Run
from holdfast.model.status import CLOSED
from holdfast.ports.store import Store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.sqlite import SqliteStore

Clock = Callable[[], int]


class Observed(Store, Protocol):
    """A store that can give all it holds."""

    async def dump(self) -> Dump:
        """Return everything, superseded events too."""
        ...

    async def buckets(self) -> dict[RunKey, tuple[str, ...]]:
        """Return the buckets of every run."""
        ...


class Home(Protocol):
    """One set of data, empty at first. Every process of a world gets a store on it."""

    owns: bool
    """Whether each process has a store of its own, which it closes."""

    def store(self, clock: Clock) -> Observed:
        """Return a store on the data, whose time is `clock`."""
        ...

    def is_closed(self, ns: str, run: str) -> bool:
        """Look at the stored row right now, without going through any process's store."""
        ...

    async def leave(self) -> None:
        """Close what dead processes left open, as the operating system would."""
        ...


class MemoryHome:
    """All processes share one store."""

    owns = False

    def __init__(self) -> None:
        self._store: MemoryStore | None = None

    def store(self, clock: Clock) -> Observed:
        """Return the one store."""
        if self._store is None:
            self._store = MemoryStore(clock=clock)
        return self._store

    def is_closed(self, ns: str, run: str) -> bool:
        """Look at the row."""
        row: Run = vars(self._store)["_tables"].runs[ns, run]
        return row.status in CLOSED

    async def leave(self) -> None:
        """Leave nothing."""


class FileHome:
    """Every process opens the file."""

    owns = True

    def __init__(self, folder: Path) -> None:
        self._path = folder / "world.db"
        self._stores: list[_File] = []

    def store(self, clock: Clock) -> Observed:
        """Return a store of the file."""
        self._stores.append(_File(self._path, clock=clock, threaded=False))
        return self._stores[-1]

    def is_closed(self, ns: str, run: str) -> bool:
        """Look at the row, on the connection of the first to come: the observer."""
        return self._stores[0].is_closed(ns, run)

    async def leave(self) -> None:
        """Close the connections of the dead."""
        for store in self._stores:
            if store.is_open:
                await store.close()


class _File(SqliteStore):
    """A process's own connections to the file."""

    is_open = False

    async def open(self) -> None:
        """Open the file."""
        await super().open()
        self.is_open = True

    def is_closed(self, ns: str, run: str) -> bool:
        """Look at the row."""
        asked = "SELECT closed_at FROM runs WHERE ns = ? AND id = ?"
        found = self._read(lambda reads: reads.execute(asked, (ns, run)).fetchone())
        return found is not None and found[0] is not None

    async def close(self) -> None:
        """Close the file."""
        self.is_open = False
        await super().close()
