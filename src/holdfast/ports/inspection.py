"""What operators ask a store that processes share, beside the port."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.model.definitions import Definition
from holdfast.model.dump import Dump, RunKey
from holdfast.model.workers import WorkerRow
from holdfast.ports.store import Store


class InspectedStore(Store, Protocol):
    """A store that shows all of itself. Every method may raise `StoreUnavailable`."""

    async def dump(self) -> Dump:
        """Return everything, superseded events too, as of one moment."""
        ...

    async def buckets(self) -> dict[RunKey, tuple[str, ...]]:
        """Return the bucket of every run; a run that is in none, or in two, is lost."""
        ...

    async def workers(self) -> list[WorkerRow]:
        """Return the workers that have a lease or listen for work."""
        ...

    async def definitions(self, ns: str, workflow: str) -> tuple[Definition, ...]:
        """Return the known definitions of a workflow, the one seen last at the end."""
        ...

    async def facts(self) -> dict[str, Any]:
        """Return where the data is, its schema and its settings; may be asked before `open`.

        Changes nothing. Raises `StoreUnavailable` if there is no database of ours.
        """
        ...
