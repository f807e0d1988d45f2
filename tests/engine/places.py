"""Where the engine's tests run: one store that outlives the clients opened on it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import holdfast as hf
from holdfast.compose import open_client
from holdfast.engines.local import LocalEngine
from holdfast.hosts.worker import Worker
from holdfast.model.run import Loaded
from holdfast.stores.memory import MemoryStore
from holdfast.testing import invariants

FAST = {"poll": 0.05, "drain": 0.05, "flush": 0.02, "paranoid": True}
PATIENCE = 10.0
"""How long a test waits for something that should come at once, in seconds."""


class Place:
    """One store. `open` it again and the runs are still there."""

    def __init__(self, kind: str, folder: Path, url: str = "") -> None:
        self.kind = kind
        self.path = folder / "engine.db"
        memory = MemoryStore()
        self.url: str | MemoryStore = url or {"memory": memory}.get(kind, f"sqlite:///{self.path}")

    def open(
        self, app: hf.App, *, worker: bool = True, **settings: Any
    ) -> AbstractAsyncContextManager[hf.Client]:
        chosen = hf.Settings(**{**FAST, **settings})
        return self._open(app, worker, chosen)

    @asynccontextmanager
    async def _open(
        self, app: hf.App, worker: bool, settings: hf.Settings
    ) -> AsyncIterator[hf.Client]:
        async with open_client(app, self.url, worker=worker, settings=settings) as client:
            yield client
            found = invariants.check(await invariants.dump(cast("Any", client.engine.store)))
            assert found == []


def worker_of(client: hf.Client) -> Worker:
    """Return the worker embedded in a client."""
    engine: LocalEngine = client.engine
    assert isinstance(engine.host, Worker)
    return engine.host


async def kinds(run: hf.RunHandle[Any]) -> list[str]:
    """Return the kinds of the run's living events, without the marks of slow steps."""
    events = (await run.history()).events
    return [event.kind for event in events if event.kind != "step.started"]


async def event_of(run: hf.RunHandle[Any], kind: str) -> hf.Event:
    """Return the run's first event of that kind, when it has come."""
    async with asyncio.timeout(PATIENCE):
        async for event in run.events():
            if event.kind == kind:
                return event
    raise AssertionError(f"{run} ended without {kind}")


async def status_of(run: hf.RunHandle[Any], *wanted: str) -> hf.Run:
    """Return the run's row once it has one of these statuses."""
    return (await history_when(run, lambda loaded: loaded.run.status in wanted)).run


async def history_when(run: hf.RunHandle[Any], holds: Callable[[Loaded], bool]) -> Loaded:
    """Return the run's history once `holds` is true of it."""
    found: list[Loaded] = []

    async def look() -> bool:
        found[:] = [await run.history()]
        return holds(found[0])

    await until(look)
    return found[0]


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Return once `holds` is true; it is asked again and again, for lack of anything to hear."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = holds()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.005)


async def within(awaitable: Awaitable[Any], seconds: float = PATIENCE) -> Any:
    """Return what comes, or fail loudly instead of hanging."""
    async with asyncio.timeout(seconds):
        return await awaitable
