"""Wiring: the one place that knows which store a URL means and what a client is made of."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

from holdfast.errors import StoreMoved, StoreSettings
from holdfast.model.settings import Settings
from holdfast.ports.secrets import Keys
from holdfast.ports.store import Store

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.client import Client

EXAMPLES = (
    "sqlite:///shop.db (a file), sqlite:////var/lib/shop.db (absolute), "
    "postgresql://user@host/database or memory://"
)


@asynccontextmanager
async def open_client(
    app: App,
    url: str | Store,
    *,
    worker: bool = True,
    settings: Settings | None = None,
    keys: Keys | None = None,
) -> AsyncGenerator[Client]:
    """Open a store and, with `worker`, run the app's workflows in this process meanwhile."""
    # Imported late: whoever only wants a store, like the command line, need not pay for these.
    from holdfast.client import Client
    from holdfast.engines.local import LocalEngine
    from holdfast.talking import new_id

    is_store = not isinstance(url, str) and hasattr(url, "claim")
    store = cast("Store", url) if is_store else store_of(cast("str", url))
    async with AsyncExitStack() as stack:
        await store.open()
        stack.push_async_callback(store.close)
        if not moved_to(store):
            await declare(app, store)  # before anything here can begin
        host = None
        if worker:
            must_be_here(store)
            # Imported late: a pure client needs no worker.
            from holdfast.hosts.worker import Worker

            host = Worker(app, store, id=new_id(store.now()), settings=settings)
        engine = LocalEngine(store, app.namespace, host)
        engine.vault.keys = keys_of(keys)
        engine.open()
        stack.push_async_callback(engine.close)
        if host is not None:
            await stack.enter_async_context(host)
        yield Client(app, engine)


def must_be_here(store: Store) -> None:
    """Refuse to work on an open store whose runs went elsewhere. Raises `StoreMoved`."""
    if place := moved_to(store):
        raise StoreMoved(role="source", place=place)


def moved_to(store: Store) -> str:
    """Return where the runs of an open store went; an empty text if they are here."""
    place: str = getattr(store, "moved_to", "")
    return place


def keys_of(keys: Keys | None = None) -> Keys | None:
    """Return the keys that encrypt secrets: those given, or those of the environment, or none."""
    if keys is not None or not os.environ.get("HOLDFAST_KEYS", "").strip():
        return keys
    from holdfast.codecs.keyring import KeyRing

    return KeyRing.from_env()


async def declare(app: App, store: Store) -> None:
    """Keep in the store what the app says of its queues and schedules."""
    if app.queues:
        from holdfast import queues

        await queues.declare(store, app.namespace, app.queues)
    if app.schedules:
        from holdfast import schedules

        await schedules.declare(store, app.namespace, app.schedules)


def store_of(url: str) -> Store:
    """Return the store a URL names, not yet opened. Raises `StoreSettings`."""
    try:
        parts = urlsplit(url)
    except (ValueError, AttributeError):
        raise StoreSettings(f"{url!r:.60} is no URL. Use {EXAMPLES}.") from None
    if parts.scheme == "memory":
        from holdfast.stores.memory import MemoryStore

        return MemoryStore()
    if parts.scheme == "sqlite":
        return _sqlite(url, parts.netloc, unquote(parts.path))
    if parts.scheme in ("postgresql", "postgres"):
        return _postgres(url)
    raise StoreSettings(f"Unknown store in {masked(url)!r}. Use {EXAMPLES}.")


def _sqlite(url: str, host: str, path: str) -> Store:
    from holdfast.stores.sqlite import SqliteStore

    if host or len(path) < 2 or "\0" in path:
        raise StoreSettings(f"No file in {url!r}. Use {EXAMPLES}.")
    return SqliteStore(Path(path[1:]))


def _postgres(url: str) -> Store:
    try:
        from holdfast.stores.postgres import PostgresStore
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise StoreSettings(
            "PostgreSQL needs an extra. Install it with `pip install 'holdfast[postgres]'`."
        ) from error
    return PostgresStore(url)


def masked(url: str) -> str:
    """Return the URL as it may be shown: without its password."""
    parts = urlsplit(url)
    return url.replace(f":{parts.password}@", ":***@") if parts.password else url
