"""The SQLite store: one file, one writer a process, many processes."""

from holdfast.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
