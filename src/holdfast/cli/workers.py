"""Who works on a store: leases by its rows, life by the files its workers hold locked."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from holdfast.stores.sqlite import SqliteStore


class WorkerRow(NamedTuple):
    """A worker as the store and the file system know it."""

    id: str
    lease_until: int | None
    started_at: int | None
    is_listening: bool


def workers_of(store: SqliteStore) -> list[WorkerRow]:
    """Return the workers that have a lease or listen for work."""
    rows = _leases(store.path)
    listening = _listening(store.path)
    found: list[WorkerRow] = []
    for id in sorted({*rows, *listening}):
        lease_until, started_at = rows.get(id, (None, None))
        found.append(WorkerRow(id, lease_until, started_at, id in listening))
    return found


def _leases(path: Path) -> dict[str, tuple[int, int]]:
    from contextlib import closing

    from holdfast.stores.sqlite.connection import connect
    from holdfast.stores.sqlite.statements import queries

    with closing(connect(path, writes=False)) as connection:
        rows = connection.execute(queries().list_workers).fetchall()
    return {id: (lease_until, started_at) for id, lease_until, started_at, *_ in rows}


def _listening(path: Path) -> set[str]:
    """Return the workers whose process lives; an idle one has no row, only its locked file."""
    from holdfast.stores.sqlite.doorbell import WORKER, Street

    folder = path.with_name(path.name + "-workers")
    if not folder.is_dir():
        return set()
    street = Street(folder)
    try:
        names = [file.name for file in folder.iterdir() if _kind(file) == WORKER]
        return {name for name in names if not street.is_dead(name)}
    finally:
        street.close()


def _kind(file: Path) -> str:
    if file.name.startswith("."):
        return ""
    try:
        return file.read_text(encoding="utf-8")[:1]
    except OSError:
        return ""
