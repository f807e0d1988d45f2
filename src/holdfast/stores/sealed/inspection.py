"""The half of the store around a store that operators see, and how what it reads is opened."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from holdfast.model import sizes
from holdfast.model.backlog import Backlog
from holdfast.model.definitions import Definition
from holdfast.model.dump import Dump, RunKey
from holdfast.model.events import Event
from holdfast.model.limits import Ticket
from holdfast.model.moving import Change, Row, Standing, Table
from holdfast.model.run import ROW_ONLY, Loaded, Run
from holdfast.model.workers import WorkerRow
from holdfast.model.writes import Filter, Page
from holdfast.ports.blobs import BlobStore
from holdfast.ports.inspection import InspectedStore, Readable
from holdfast.ports.keys import Keys
from holdfast.ports.moving import Side
from holdfast.ports.store import Store
from holdfast.stores.sealed.blobs import Blobs
from holdfast.stores.sealed.caching import Recalled
from holdfast.stores.sealed.collecting import GRACE, Collected, collect
from holdfast.stores.sealed.dumping import Dumping
from holdfast.stores.sealed.opening import Opener, is_any_sealed, references

codec_of = itemgetter(Event._fields.index("codec"))
"""The codec of an event, told without a call of ours: it is asked of every event that is read."""


class Inspection(Recalled):
    """What operators ask, and what all reads share."""

    inner: Store
    keys: Keys | None
    blobs: Blobs | None

    @property
    def path(self) -> Path | None:
        """The file of the store, if it is one."""
        return getattr(self.inner, "path", None)

    @property
    def transactions(self) -> int:
        """How many transactions this process has committed."""
        return cast("int", cast("Any", self.inner).transactions)

    async def dump(self) -> Dump:
        """Return everything, opened; what cannot be opened is named in it."""
        return await Dumping(self.keys, self.blobs).opened(await self._inspected.dump())

    async def collect(self, *, grace: int = GRACE, only_looks: bool = False) -> Collected:
        """Forget blobs that nobody names and that are older than `grace`, in microseconds."""
        return await collect(self, grace=grace, only_looks=only_looks)

    async def buckets(self) -> dict[RunKey, tuple[str, ...]]:
        """Return the bucket of every run."""
        return await self._inspected.buckets()

    async def workers(self) -> list[WorkerRow]:
        """Return the workers."""
        return await self._inspected.workers()

    async def definitions(self, ns: str, workflow: str) -> tuple[Definition, ...]:
        """Return the known definitions of a workflow."""
        return await self._inspected.definitions(ns, workflow)

    async def named_blobs(self) -> frozenset[str]:
        """Return the names of the blobs that rows name, as of one moment."""
        if hasattr(self.inner, "named_blobs"):
            return await self._inspected.named_blobs()
        dump = await self._inspected.dump()  # in memory there is no index to ask
        events = (event for history in dump.events.values() for event in history)
        mail = (message for inbox in dump.inbox.values() for message in inbox)
        return frozenset(references(events, mail, dump.cache))

    async def facts(self) -> dict[str, Any]:
        """Return what is known of the store, and where its blobs are."""
        facts = await self._inspected.facts()
        keys = "none" if self.keys is None else f"encrypts with {self.keys.current}"
        where = "none" if self.blobs is None else str(self.blobs.store)
        return {**facts, "blobs": where, "keys": keys}

    async def ticket(self, ns: str, run: str) -> Ticket | None:
        """Return the place of a run at its queue."""
        return await self._inspected.ticket(ns, run)

    async def backlog(self, ns: str) -> list[Backlog]:
        """Return what waits for workers, by workflow and queue."""
        return await self._inspected.backlog(ns)

    @property
    def moved_to(self) -> str:
        """Where the runs went, if the store was moved."""
        return cast("str", getattr(self.inner, "moved_to", ""))

    async def went_to(self) -> str:
        """Return where the runs went, as of now; an empty text if they are here."""
        if hasattr(self.inner, "went_to"):
            return await self._inspected.went_to()
        return ""  # what is in memory is never moved

    async def rekeyed_at(self) -> int:
        """Return when rows were last sealed anew; 0 if they never were."""
        if hasattr(self.inner, "rekeyed_at"):
            return await self._inspected.rekeyed_at()
        return 0  # what is in memory is never sealed anew

    def side(self) -> SealedSide:
        """Return it as a mover sees it: rows as they are, and a dump that is opened."""
        return SealedSide(self, self._inspected.side())

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[Readable]:
        """Open the store only to read."""
        if self.blobs is not None:
            await self.blobs.store.open()
        try:
            async with self._inspected.reading() as opened:
                yield _Reading(self, opened)
        finally:
            if self.blobs is not None:
                await self.blobs.store.close()

    @property
    def _inspected(self) -> InspectedStore:
        return cast("InspectedStore", self.inner)

    async def _opener(self, names: Iterable[str]) -> Opener:
        """Return what opens payloads, with these blobs at hand."""
        wanted = tuple(names)
        found: Mapping[str, bytes | None] = {}
        if wanted and self.blobs is not None:
            sizes.note_large()  # what is read may be written again: into a continuation, a fork
            found = await self.blobs.fetched(wanted)
        return Opener(self.keys, found)

    async def opened(self, loaded: Loaded | None, after: int) -> Loaded | None:
        """Return a run as it was given. Raises `CannotDecrypt` or `BlobMissing`."""
        if loaded is None:
            return None
        row, events, mail, progress = loaded
        are_sealed = any(map(codec_of, events))
        if self.keys is None and not (are_sealed or mail or progress):
            return loaded
        if after >= ROW_ONLY:  # the row was wanted, and nothing that may have to be fetched
            mail = tuple(message for message in mail if not is_any_sealed(message))
        opener = await self._opener(references(events, mail))
        ns, run = row.ns, row.id
        return Loaded(
            opener.row(row),
            opener.events(ns, run, events) if are_sealed else events,
            tuple(opener.message(ns, run, message) for message in mail),
            tuple(opener.progress(ns, run, beat) for beat in progress),
        )


class SealedSide:
    """One side of a move. Rows are copied as they are sealed: both sides need the same keys."""

    def __init__(self, store: Inspection, inner: Side) -> None:
        self._store, self._inner = store, inner

    @property
    def place(self) -> str:
        """Where it is."""
        return self._inner.place

    @property
    def blobs(self) -> BlobStore | None:
        """Where its large payloads are."""
        return None if self._store.blobs is None else self._store.blobs.store

    async def open(self) -> None:
        """Connect."""
        if self._store.blobs is not None:
            await self._store.blobs.store.open()
        await self._inner.open()

    async def close(self) -> None:
        """Let go of every resource."""
        await self._inner.close()
        if self._store.blobs is not None:
            await self._store.blobs.store.close()

    async def standing(self) -> Standing:
        """Return the time, and the move that the store is part of."""
        return await self._inner.standing()

    async def read(self, table: Table, after: Row, limit: int) -> list[Row]:
        """Return the next rows."""
        return await self._inner.read(table, after, limit)

    async def count(self, table: Table) -> int:
        """Return how many rows there are."""
        return await self._inner.count(table)

    async def dump(self) -> Dump:
        """Return everything, opened; what cannot be opened is named in it."""
        return await Dumping(self._store.keys, self._store.blobs).opened(await self._inner.dump())

    async def change(self, change: Change) -> bool:
        """Carry out a change."""
        return await self._inner.change(change)


class _Reading:
    """The two reads of a replay, opened."""

    def __init__(self, store: Inspection, inner: Readable) -> None:
        self._store, self._inner = store, inner

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        """Return the run with its living events."""
        return await self._store.opened(await self._inner.load(ns, run, after), after)

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        """Return runs, newest first."""
        found = await self._inner.find(filter, page)
        return list(map(Opener(self._store.keys, {}).row, found))
