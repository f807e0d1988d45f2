"""Wiring: the one place that knows which store a URL means and what a client is made of."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

from holdfast.blobs.files import FileBlobs
from holdfast.errors import StoreMoved, StoreSettings
from holdfast.model.settings import Settings
from holdfast.ports.blobs import BlobStore
from holdfast.ports.keys import Keys
from holdfast.ports.store import Store
from holdfast.stores.sealed import SealedStore

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.client import Client

EXAMPLES = (
    "sqlite:///shop.db (a file), sqlite:////var/lib/shop.db (absolute), "
    "postgresql://user@host/database or memory://"
)
OF_USER = re.compile(r"^(\w+://[^:/?@]*:).*@")
AS_OPTION = re.compile(r"([?&](?:ssl)?password=)[^&]*")
"""Where a URL has a password. Up to the last @: one that is not escaped may hold anything."""


@asynccontextmanager
async def open_client(
    app: App,
    url: str | Store,
    *,
    worker: bool = True,
    settings: Settings | None = None,
    keys: Keys | None = None,
    blobs: str | BlobStore | None = None,
) -> AsyncGenerator[Client]:
    """Open a store and, with `worker`, run the app's workflows in this process meanwhile."""
    # Imported late: whoever only wants a store, like the command line, need not pay for these.
    from holdfast.client import Client
    from holdfast.engines.local import LocalEngine
    from holdfast.talking import new_id

    is_store = not isinstance(url, str) and hasattr(url, "claim")
    store = cast("Store", url) if is_store else store_of(cast("str", url), keys=keys, blobs=blobs)
    if is_store and keys is not None and not isinstance(store, SealedStore):
        store = SealedStore(store, keys=keys)
    async with AsyncExitStack() as stack:
        await store.open()
        stack.push_async_callback(store.close)
        if app.runtime is not None:
            stack.push_async_callback(app.runtime.lifecycle.close)
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
    """Return the keys that encrypt: those given, or those of the environment, or none."""
    if keys is not None or not os.environ.get("HOLDFAST_KEYS", "").strip():
        return keys
    from holdfast.codecs.keyring import KeyRing

    return KeyRing.from_env()


async def declare(app: App, store: Store) -> None:
    """Keep in the store what the app says of its queues and schedules.

    Raises `InvalidGraph` if one of its graphs could not be walked.
    """
    for graph in app.graphs:
        graph.freeze()
    if app.queues:
        from holdfast import queues

        await queues.declare(store, app.namespace, app.queues)
    if app.schedules:
        from holdfast import schedules

        await schedules.declare(store, app.namespace, app.schedules)


def store_of(url: str, *, keys: Keys | None = None, blobs: str | BlobStore | None = None) -> Store:
    """Return the store a URL names, not yet opened. Raises `StoreSettings`.

    Payloads are encrypted with `keys`; by default with those in `HOLDFAST_KEYS`, if there are any.
    `blobs` is where large ones go: a URL, "" for nowhere; by default `HOLDFAST_BLOBS`, else a
    directory beside an SQLite file.
    """
    inner, keys = _bare(url), keys_of(keys)
    kept = _blobs(os.environ.get("HOLDFAST_BLOBS") if blobs is None else blobs, inner)
    if keys is None and kept is None and urlsplit(url).scheme == "memory":
        return inner  # nobody else can have sealed anything there
    return SealedStore(inner, keys=keys, blobs=kept)


def _blobs(asked: str | BlobStore | None, store: Store) -> BlobStore | None:
    """Return where large payloads go, if anywhere. Raises `StoreSettings`."""
    if asked is not None and not isinstance(asked, str):
        return asked
    path: Path | None = getattr(store, "path", None)
    if asked is None:
        return None if path is None else FileBlobs(path.with_name(f"{path.name}-blobs"))
    if not asked:
        return None
    parts = urlsplit(asked)
    if parts.scheme == "s3":
        from holdfast.blobs.s3 import S3Blobs

        return S3Blobs(asked)
    if parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return FileBlobs(Path(unquote(parts.path)))
    raise StoreSettings(
        f"{masked(asked)!r} names no blob store. Use file:///var/lib/shop-blobs (a directory), "
        f"s3://bucket/prefix, or nothing for none."
    )


def _bare(url: str) -> Store:
    try:
        parts = urlsplit(url)
    except (ValueError, AttributeError):
        raise StoreSettings(f"{masked(str(url))!r:.60} is no URL. Use {EXAMPLES}.") from None
    if parts.scheme == "memory":
        from holdfast.stores.memory import MemoryStore

        return MemoryStore()
    if parts.scheme == "sqlite":
        return _sqlite(url, parts.netloc, unquote(parts.path))
    if parts.scheme in ("postgresql", "postgres"):
        return _postgres(url)
    raise StoreSettings(f"Unknown store in {masked(str(url))!r}. Use {EXAMPLES}.")


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
    """Return the URL as it may be shown: without its password, also if it cannot be read."""
    return AS_OPTION.sub(r"\1***", OF_USER.sub(r"\1***@", url))
