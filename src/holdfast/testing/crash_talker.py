"""What a careful caller was told, and how it talks to runs; `crash_caller.py` has the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from holdfast.client import Client
from holdfast.errors import RunClosed, StoreError, UpdateFailed, UpdateRejected
from holdfast.fronts.function.workflow import Bound
from holdfast.machine.signals import Signal
from holdfast.machine.talk import BoundUpdate, Query, Update
from holdfast.machine.values import digest
from holdfast.model.dump import Journal, Sent, Started
from holdfast.model.run import Run
from holdfast.model.status import CLOSED, RunStatus
from holdfast.talking import updating

T = TypeVar("T")
AGAIN = 0.25
"""Seconds before a call of unknown outcome is repeated."""


class Ending(NamedTuple):
    """How a run ended, as its caller was told."""

    status: str
    value: Any


class Acknowledged:
    """What callers were told, kept outside the store and outside every process."""

    def __init__(self) -> None:
        self.starts: list[Started] = []
        self.signals: list[Sent] = []
        self.cancels: list[Sent] = []
        self.updates: list[Sent] = []
        self.answers: set[tuple[str, str, str]] = set()
        """Whose answers to which question of which run were taken."""
        self.endings: list[tuple[str, Ending]] = []
        self.early: list[str] = []
        """Runs whose end was told before it was stored."""

    def journal(self) -> Journal:
        """Return what the store must hold."""
        kinds = (self.starts, self.signals, self.cancels, self.updates)
        return Journal(*map(tuple, kinds))  # type: ignore[arg-type]


class Looker:
    """Looks at runs, however long the store is away."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def logged(self, run: str) -> list[str]:
        """Return the messages of the run's log."""

        async def read() -> list[str]:
            return [line.message async for line in self._client.get(run).logs()]

        return await self._surely(read)

    async def row(self, run: str) -> Run:
        """Return the run's row."""
        return await self._surely(self._client.get(run).describe)

    async def listed(self) -> list[str]:
        """Return the ids of all runs, newest first."""
        return [run.id for run in (await self._surely(self._client.list)).runs]

    async def until(self, run: str, *statuses: RunStatus) -> None:
        """Return when the run has one of these statuses, or is closed."""
        while True:
            status = (await self.row(run)).status
            if status in statuses or status in CLOSED:
                return
            await asyncio.sleep(0.5)

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)

    async def _surely(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except StoreError:
                await asyncio.sleep(AGAIN)


class Talker(Looker):
    """Sends messages, and starts with messages; everything once."""

    def __init__(
        self, client: Client, told: Acknowledged, is_closed: Callable[[str], bool]
    ) -> None:
        super().__init__(client)
        self._told, self._is_closed = told, is_closed

    async def post(self, run: str, update: Update[Any, Any], value: Any, id: str) -> None:
        """Send an update once, and wait for nothing."""
        engine = self._client.engine
        command = updating(engine, run, BoundUpdate(update, update.encode(value), id))
        with suppress(RunClosed):  # it was sent, and done, before our process began again
            await self._surely(lambda: engine.do(command))
        self._told.updates.append(Sent(engine.ns, run, id))

    async def update(self, run: str, update: Update[Any, Any], value: Any, id: str) -> Ending:
        """Have an update carried out once; return what became of it."""
        return await self._ending_of(
            run, id, lambda: self._client.get(run).update(update, value, id=id)
        )

    async def updated(self, run: str, update: Update[Any, T], value: Any, id: str) -> T:
        """Have an update carried out once; return its result, or raise what its caller hears."""
        await self.update(run, update, value, id)
        return await self._surely(lambda: self._client.get(run).update(update, value, id=id))

    async def query(self, run: str, query: Query[Any, T], value: Any = None) -> T:
        """Ask the run."""
        return await self._surely(lambda: self._client.get(run).query(query, value))

    async def signal_with_start(
        self, bound: Bound[Any], signal: Signal[Any], value: Any, run: str, id: str
    ) -> None:
        """Start a run with a signal, or signal it, once."""
        message = signal.bind(value, id=id)
        await self._surely(lambda: self._client.signal_with_start(bound, message, id=run))
        self._started(bound, run)
        self._told.signals.append(Sent(self._client.engine.ns, run, id))

    async def update_with_start(
        self, bound: Bound[Any], update: Update[Any, Any], value: Any, run: str, id: str
    ) -> Ending:
        """Start a run with an update, or update it, once."""
        message = update.bind(value, id=id)
        ending = await self._ending_of(
            run, id, lambda: self._client.update_with_start(bound, message, id=run)
        )
        self._started(bound, run)
        return ending

    async def _ending_of(self, run: str, id: str, call: Callable[[], Awaitable[Any]]) -> Ending:
        try:
            ending = Ending("completed", await self._surely(call))
        except UpdateRejected as error:
            ending = Ending("rejected", error.type)
        except UpdateFailed as error:
            ending = Ending("failed", error.type)
        self._told.updates.append(Sent(self._client.engine.ns, run, id))
        self._told.endings.append((f"{run} update {id}", ending))
        return ending

    def _started(self, bound: Bound[Any], id: str) -> None:
        ns = self._client.engine.ns
        self._told.starts.append(Started(ns, id, bound.workflow.name, digest(bound.input)))
