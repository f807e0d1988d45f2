"""The way from a command to the store: opening it, and finding the run that was meant."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from holdfast.cli.telling import Forbidden, Refused
from holdfast.errors import InvalidName, RunNotFound, StoreUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.client import RunHandle
    from holdfast.engines.local import LocalEngine
    from holdfast.ports.inspection import InspectedStore

T = TypeVar("T")
DEFAULT_STORE = "sqlite:///holdfast.db"
DEFAULT_NAMESPACE = "default"
SHORTCUTS = {"@last": (), "@failed": ("failed", "timed_out", "compensation_failed")}


class Door(NamedTuple):
    """Which store, and which namespace in it."""

    url: str
    namespace: str = DEFAULT_NAMESPACE

    def enter(self, work: Callable[[LocalEngine], Coroutine[Any, Any, T]]) -> T:
        """Open the store, do the work, close it."""
        import asyncio

        async def inside() -> T:
            async with opened(self) as engine:
                return await work(engine)

        return asyncio.run(inside())


@asynccontextmanager
async def opened(door: Door, *, creates: bool = False) -> AsyncGenerator[LocalEngine]:
    """Open the store without a worker. It must be there already, unless `creates`."""
    from holdfast.engines.local import LocalEngine

    if not door.namespace or not door.namespace.isprintable():
        raise InvalidName(field="namespace", value=door.namespace, problem="cannot be stored")
    store = store_at(door.url)
    if not creates:
        await must_exist(store, door.url)
    await store.open()
    engine = LocalEngine(store, door.namespace)
    try:
        yield engine
    finally:
        await engine.close()
        await store.close()


def store_at(url: str, *, blobs: str | None = None) -> InspectedStore:
    """Return the store, not yet opened; `memory://` lives in one process and is refused."""
    from holdfast.compose import store_of

    store = store_of(url, blobs=blobs)
    if url.startswith("memory:"):
        raise Refused(
            f"{url} lives and dies with the process that opened it, so no command can reach it. "
            f"Use a file, such as {DEFAULT_STORE}."
        )
    return cast("InspectedStore", store)


async def must_exist(store: InspectedStore, url: str) -> None:
    """Refuse to read a database that is not there (or not ours), instead of making one."""
    path: Path | None = getattr(store, "path", None)
    if path is not None:
        _must_exist(path, url)
    await store.facts()


def _must_exist(path: Path, url: str) -> None:
    if not path.exists():
        raise StoreUnavailable(
            f"There is no database at {str(path)!r} ({url}). Name the right one with --store or "
            f"HOLDFAST_STORE, or make it with `holdfast db migrate`."
        )
    if not os.access(path, os.R_OK | os.W_OK):
        raise Forbidden(
            f"You may not read and write {str(path)!r} ({url}). Run this as its owner, or have the "
            f"file's mode changed."
        )


async def found(engine: LocalEngine, text: str) -> str:
    """Return the id a person meant: an id, a unique prefix, `@last` or `@failed`."""
    from holdfast.model.writes import Filter, Page

    if not text.isprintable() or not text:
        raise RunNotFound(run=text)
    if text in SHORTCUTS:
        statuses: Any = SHORTCUTS[text]
        newest = await engine.find(Filter(engine.ns, statuses=statuses), Page(limit=1))
        if not newest:
            raise RunNotFound(run=text)
        return newest[0].id
    if await engine.find(Filter(engine.ns, ids=(text,)), Page(limit=1)):
        return text
    similar = await engine.find(Filter(engine.ns, id_prefix=text), Page(limit=4))
    if not similar:
        raise RunNotFound(run=text)
    if len(similar) > 1:
        listed = "\n".join(f"  {run.id}" for run in similar[:3])
        more = "\n  …" if len(similar) > 3 else ""
        raise Refused(f"{text!r} is the beginning of several runs:\n{listed}{more}")
    return similar[0].id


async def handle(engine: LocalEngine, text: str) -> RunHandle[Any]:
    """Return a handle on the run a person meant."""
    from holdfast.client import RunHandle

    return RunHandle(engine, await found(engine, text))


def store_in(engine: LocalEngine) -> InspectedStore:
    """Return the engine's store, which `opened` made sure shows itself."""
    return cast("InspectedStore", engine.store)
