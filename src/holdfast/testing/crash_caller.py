"""A careful caller: repeats what may not have happened, under the same key, until it knows.

Its process may die at any moment and run its script again from the start. So every method may be
called again after it has succeeded, and then changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from holdfast.client import Client
from holdfast.errors import IllegalMove, RunClosed, RunConflict, RunFailed, StoreError
from holdfast.fronts.function.workflow import Bound
from holdfast.machine.signals import Signal
from holdfast.machine.values import digest
from holdfast.model.commands import CancelRun, ImportRun, PauseRun, PruneRuns
from holdfast.model.dump import Journal, Sent, Started
from holdfast.model.run import Run
from holdfast.model.status import CLOSED, RunStatus

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
        self.endings: list[tuple[str, Ending]] = []
        self.early: list[str] = []
        """Runs whose end was told before it was stored."""

    def journal(self) -> Journal:
        """Return what the store must hold."""
        return Journal(tuple(self.starts), tuple(self.signals), tuple(self.cancels))


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


class Caller(Looker):
    """What a script talks to."""

    def __init__(
        self, client: Client, told: Acknowledged, is_closed: Callable[[str], bool]
    ) -> None:
        super().__init__(client)
        self._told, self._is_closed = told, is_closed

    async def start(self, bound: Bound[Any], id: str) -> None:
        """Start a run, or find it; its id is also its tag."""
        await self._surely(lambda: self._client.start(bound, id=id, tags=[id]))
        ns = self._client.engine.ns
        self._told.starts.append(Started(ns, id, bound.workflow.name, digest(bound.input)))

    async def copy(self, run: str, id: str) -> tuple[str, ...]:
        """Export a run and import it under another id, once; return the copy's tags."""
        engine = self._client.engine
        export = await self._surely(lambda: engine.export(run))
        command = ImportRun(engine.ns, id, export, engine.store.now())
        with suppress(RunConflict):
            await self._surely(lambda: engine.do(command))
        return (await self._surely(self._client.get(id).labels)).tags

    async def signal(self, run: str, signal: Signal[Any], value: Any, id: str) -> None:
        """Send a signal once."""
        await self._surely(lambda: self._client.get(run).signal(signal, value, id=id))
        self._told.signals.append(Sent(self._client.engine.ns, run, id))

    async def cancel(self, run: str) -> None:
        """Ask the run to stop, if it is open."""
        engine, id = self._client.engine, f"cancel-{run}"
        command = CancelRun(engine.ns, run, id, engine.store.now())
        try:
            await self._surely(lambda: engine.do(command))
        except RunClosed:
            return
        self._told.cancels.append(Sent(engine.ns, run, id))

    async def pause(self, run: str) -> None:
        """Have the run start nothing more."""
        engine = self._client.engine
        command = PauseRun(engine.ns, run, f"pause-{run}", engine.store.now())
        try:
            await self._surely(lambda: engine.do(command))
        except RunClosed:
            return

    async def resume(self, run: str) -> None:
        """Let a paused run go on; one that goes on already is left alone."""
        try:
            await self._surely(self._client.get(run).resume)
        except (IllegalMove, RunClosed):
            return

    async def terminate(self, run: str) -> None:
        """End the run, unless it has ended."""
        try:
            await self._surely(lambda: self._client.get(run).terminate("by design"))
        except RunClosed:
            return

    async def retry(self, run: str) -> None:
        """Let a failed run try again, once; a blocked one whenever it is blocked."""
        if (await self.row(run)).generation > 1:
            return
        try:
            await self._surely(self._client.get(run).retry)
        except IllegalMove:
            row = await self.row(run)
            if row.generation == 1 and row.status in ("failed", "compensation_failed", "blocked"):
                raise  # it was not our own first try, of unknown outcome, that moved it

    async def rerun(self, run: str, key: str | None, id: str) -> None:
        """Take a run back to a step, once for each id."""
        await self._surely(lambda: self._client.get(run).rerun(key, id=id))

    async def forget(self, run: str) -> None:
        """Delete the run, which must be closed, and all the others that closed by then."""
        engine = self._client.engine
        closed_at = (await self.row(run)).closed_at or 0
        await self._surely(lambda: engine.do(PruneRuns(engine.ns, closed_at + 1)))
        self._told.starts = [start for start in self._told.starts if start.run != run]

    async def result(self, run: str) -> Ending:
        """Return how the run ended, when it has; what is told must be stored by then."""
        await self._surely(lambda: self._client.engine.closing(run))
        if not self._is_closed(run):
            self._told.early.append(run)
        ending = await self._surely(lambda: self._ending(run))
        self._told.endings.append((run, ending))
        return ending

    async def _ending(self, run: str) -> Ending:
        try:
            return Ending("completed", await self._client.get(run).result())
        except RunFailed as error:
            return Ending(error.status, error.type)
