"""A store that is open, a clock moved by hand, and the way a host takes through the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from holdfast.kernel.dispatch import decide, read
from holdfast.model.commands import Command
from holdfast.model.run import Loaded, Run
from holdfast.ports.store import Store
from holdfast.testing.clock import ManualClock

Make = Callable[[Callable[[], int]], Store]


class Access:
    """Opens stores on one set of data, sends commands to them and reads them back."""

    def __init__(self, make: Make, *, remote: str = "") -> None:
        self.clock = ManualClock()
        self.remote = remote
        self._make = make
        self._opened: list[Store] = []
        self.store: Store = make(self.clock)

    async def __aenter__(self) -> Self:
        await self._open(self.store)
        return self

    async def __aexit__(self, *_: object) -> None:
        for store in self._opened:
            await store.close()

    async def another(self) -> Store:
        """Open a second store on the same data."""
        return await self._open(self._make(self.clock))

    async def reopen(self) -> None:
        """Close the store and open it again, as a new process would."""
        self._opened.remove(self.store)
        await self.store.close()
        self.store = await self._open(self._make(self.clock))

    async def _open(self, store: Store) -> Store:
        await store.open()
        self._opened.append(store)
        return store

    async def send(self, command: Command, store: Store | None = None) -> Any:
        """Carry one command out and return its reply, or raise why it was refused."""
        [outcome] = await (store or self.store).write([decide(command)])
        return read(command, outcome)

    async def send_all(self, commands: Iterable[Command]) -> list[Any]:
        """Carry commands out as one batch and return their replies."""
        listed = list(commands)
        outcomes = await self.store.write([decide(command) for command in listed])
        return [read(command, outcome) for command, outcome in zip(listed, outcomes, strict=True)]

    async def load(self, run: str = "r", ns: str = "default", after: int = 0) -> Loaded:
        """Return a run that must be there."""
        loaded = await self.store.load(ns, run, after)
        assert loaded is not None, f"{ns}/{run} is not there"
        return loaded

    async def row(self, run: str = "r", ns: str = "default") -> Run:
        """Return the row of a run that must be there."""
        return (await self.load(run, ns)).run

    async def kinds(self, run: str = "r") -> list[str]:
        """Return the kinds of the living events."""
        return [each.kind for each in (await self.load(run)).events]
