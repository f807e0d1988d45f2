"""What operators ask: what a file holds, who works on it, what its settings are.

Leases are known by rows, life by the files that workers hold locked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, TypeVar

from holdfast.errors import StoreUnavailable
from holdfast.model.backlog import Backlog
from holdfast.model.definitions import Definition
from holdfast.model.dump import Dump, RunKey
from holdfast.model.limits import QueueState, Ticket
from holdfast.model.moving import REKEYED
from holdfast.model.schedules import Scheduled, ScheduleFilter
from holdfast.model.secrets import Sealed
from holdfast.model.workers import WorkerRow
from holdfast.ports.moving import Side
from holdfast.stores.envelope import named_in
from holdfast.stores.sqlite import doctor, limits, reader, scheduling
from holdfast.stores.sqlite.caching import Recalled
from holdfast.stores.sqlite.connection import connect, is_ours, unusable
from holdfast.stores.sqlite.doorbell import WORKER, Street
from holdfast.stores.sqlite.readonly import Readonly, only_read
from holdfast.stores.sqlite.statements import migrations, queries

T = TypeVar("T")
SQL = queries()
SETTINGS = ("journal_mode", "synchronous", "foreign_keys", "wal_autocheckpoint", "page_size")


class Inspection(Recalled):
    """The half of the store that operators see."""

    path: Path
    moved_to: str = ""
    """Where the runs went, if the file was moved; known once it is open."""

    async def schedules(self, wanted: ScheduleFilter) -> list[Scheduled]:
        """Return schedules, in their order, or the next to be looked at."""
        return await self._look(lambda reads: scheduling.read(reads, wanted))

    async def dump(self) -> Dump:
        """Return everything the file holds, superseded events too, as of one moment."""
        return await self._search(lambda reads: doctor.dump(reads, self.now()))

    async def buckets(self) -> dict[RunKey, tuple[str, ...]]:
        """Return the bucket of every run; a run that is in none, or in two, is lost."""
        return await self._search(lambda reads: doctor.buckets(reads, self.now()))

    async def queues(self, ns: str) -> list[QueueState]:
        """Return the managed queues as they are."""
        return await self._search(lambda reads: limits.states(reads, ns, self.now()))

    async def ticket(self, ns: str, run: str) -> Ticket | None:
        """Return the place of a run at its queue, if it has one."""
        return await self._look(lambda reads: limits.ticket(reads, ns, run))

    async def went_to(self) -> str:
        """Return where the runs have gone for good by now, if they have."""
        found = await self._look(lambda reads: reads.execute(SQL.went_to).fetchone())
        return str(found[0]) if found else ""

    async def secrets(self, ns: str, run: str) -> tuple[Sealed, ...]:
        """Return what a run was given for its steps, encrypted."""
        return await self._look(lambda reads: reader.secrets(reads, ns, run))

    async def workers(self) -> list[WorkerRow]:
        """Return the workers that have a lease or listen for work."""
        return await self._look(lambda reads: workers(reads, self.path))

    async def definitions(self, ns: str, workflow: str) -> tuple[Definition, ...]:
        """Return the known definitions of a workflow, the one seen last at the end."""
        return await self._look(lambda reads: definitions(reads, ns, workflow))

    async def backlog(self, ns: str) -> list[Backlog]:
        """Return what waits for workers, by workflow and queue."""
        asked = {"ns": ns, "now": self.now()}
        rows = await self._search(lambda reads: reads.execute(SQL.backlog, asked).fetchall())
        return [Backlog._make(row) for row in rows]

    async def named_blobs(self) -> frozenset[str]:
        """Return the names of the blobs that rows name, as of one moment."""
        return await self._search(
            lambda reads: named_in(payload for [payload] in reads.execute(SQL.named_blobs))
        )

    async def rekeyed_at(self) -> int:
        """Return when rows were last sealed anew; 0 if they never were."""
        row = await self._search(lambda reads: reads.execute(SQL.meta, (REKEYED,)).fetchone())
        return int(row[0]) if row else 0

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[Readonly]:
        """Open the file only to read: nothing is made, migrated or written."""
        with only_read(self.path) as opened:
            yield opened

    def side(self) -> Side:
        """Return the file as a mover sees it, not yet opened."""
        # Imported late: nobody else pays for it, and it looks at workers as this module does.
        from holdfast.stores.sqlite.moving import SqliteSide

        return SqliteSide(self.path)

    async def facts(self) -> dict[str, Any]:
        """Return where the file is, its schema and its settings."""
        return facts(self.path)


def workers(connection: sqlite3.Connection, path: Path) -> list[WorkerRow]:
    """Return the workers that have a lease or listen for work."""
    rows = {id: rest for id, *rest in connection.execute(SQL.list_workers)}
    listening = _listening(path)
    found: list[WorkerRow] = []
    for id in sorted({*rows, *listening}):
        lease_until, started_at, info, runs, jobs = rows.get(id, (None, None, "", 0, 0))
        found.append(WorkerRow(id, lease_until, started_at, id in listening, info, runs, jobs))
    return found


def definitions(connection: sqlite3.Connection, ns: str, workflow: str) -> tuple[Definition, ...]:
    """Return the known definitions of a workflow, the one seen last at the end."""
    return tuple(
        map(Definition._make, connection.execute(SQL.definitions_of_workflow, (ns, workflow)))
    )


def facts(path: Path) -> dict[str, Any]:
    """Return the facts about a database file, changing nothing."""
    if not path.exists():
        raise StoreUnavailable(
            f"There is no database at {str(path)!r}. Name the right one with --store or "
            f"HOLDFAST_STORE, or make it with `holdfast db migrate`."
        )
    try:
        with closing(connect(path, writes=False)) as connection:
            is_there = is_ours(connection)
            settings = {name: _pragma(connection, name) for name in SETTINGS}
            version = _pragma(connection, "user_version")
    except sqlite3.Error as error:
        raise unusable(path, error) from error
    if not is_there:
        raise StoreUnavailable(
            f"There is no schema of ours in {str(path)!r}. Name the right file with --store or "
            f"HOLDFAST_STORE, or make the schema with `holdfast db migrate`."
        )
    wal = path.with_name(path.name + "-wal")
    return {
        "file": str(path.resolve()),
        "bytes": path.stat().st_size,
        "wal_bytes": wal.stat().st_size if wal.exists() else 0,
        "schema": version,
        "schema_of_release": len(migrations()),
        "sqlite": sqlite3.sqlite_version,
        **settings,
    }


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _listening(path: Path) -> set[str]:
    """Return the workers whose process lives; an idle one has no row, only its locked file."""
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
