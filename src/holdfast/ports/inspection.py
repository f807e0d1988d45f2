"""What operators ask a store that processes share, beside the port."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from holdfast.model.backlog import Backlog
from holdfast.model.definitions import Definition
from holdfast.model.dump import Dump, RunKey
from holdfast.model.limits import Ticket
from holdfast.model.run import Loaded, Run
from holdfast.model.workers import WorkerRow
from holdfast.model.writes import Filter, Page
from holdfast.ports.moving import Side
from holdfast.ports.store import Store


class Readable(Protocol):
    """What a replay needs of a store: to find runs and to read them."""

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        """Return the run with its living events."""
        ...

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        """Return runs, newest first."""
        ...


class InspectedStore(Store, Protocol):
    """A store that shows all of itself. Every method may raise `StoreUnavailable`."""

    @property
    def moved_to(self) -> str:
        """Where the runs went, if the store was moved; known once it is open."""
        ...

    async def went_to(self) -> str:
        """Return where the runs have gone for good by now; empty if they are here."""
        ...

    def side(self) -> Side:
        """Return it as a mover sees it, not yet opened. Not after `open`."""
        ...

    async def dump(self) -> Dump:
        """Return everything, superseded events too, as of one moment."""
        ...

    async def buckets(self) -> dict[RunKey, tuple[str, ...]]:
        """Return the bucket of every run; a run that is in none, or in two, is lost."""
        ...

    async def ticket(self, ns: str, run: str) -> Ticket | None:
        """Return the place of a run at its queue, if that is managed."""
        ...

    async def workers(self) -> list[WorkerRow]:
        """Return the workers that have a lease or listen for work."""
        ...

    async def definitions(self, ns: str, workflow: str) -> tuple[Definition, ...]:
        """Return the known definitions of a workflow, the one seen last at the end."""
        ...

    async def backlog(self, ns: str) -> list[Backlog]:
        """Return what waits for workers, by workflow and queue; closed runs cost nothing."""
        ...

    async def named_blobs(self) -> frozenset[str]:
        """Return the names of the blobs that events and messages name, as of one moment."""
        ...

    async def rekeyed_at(self) -> int:
        """Return when rows were last sealed anew, by the store's clock; 0 if they never were."""
        ...

    def reading(self) -> AbstractAsyncContextManager[Readable]:
        """Open it only to read: nothing is made, migrated or written. Not after `open`.

        Raises `StoreVersion` if the schema is of another release, `StoreUnavailable` if there is
        no database of ours.
        """
        ...

    async def facts(self) -> dict[str, Any]:
        """Return where the data is, its schema and its settings; may be asked before `open`.

        Changes nothing. Raises `StoreUnavailable` if there is no database of ours.
        """
        ...
