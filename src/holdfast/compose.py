"""Wiring: the one place that knows which store a URL means."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.errors import StoreSettings
from holdfast.ports.store import Store

EXAMPLES = "sqlite:///shop.db (a file), sqlite:////var/lib/shop.db (absolute) or memory://"


def store_of(url: str) -> Store:
    """Return the store a URL names, not yet opened. Raises `StoreSettings`."""
    parts = urlsplit(url)
    if parts.scheme == "memory":
        from holdfast.stores.memory import MemoryStore

        return MemoryStore()
    if parts.scheme == "sqlite":
        return _sqlite(url, parts.netloc, unquote(parts.path))
    raise StoreSettings(f"Unknown store in {_masked(url)!r}. Use {EXAMPLES}.")


def _sqlite(url: str, host: str, path: str) -> Store:
    from holdfast.stores.sqlite import SqliteStore

    if host or len(path) < 2:
        raise StoreSettings(f"No file in {url!r}. Use {EXAMPLES}.")
    return SqliteStore(Path(path[1:]))


def _masked(url: str) -> str:
    parts = urlsplit(url)
    return url.replace(f":{parts.password}@", ":***@") if parts.password else url
