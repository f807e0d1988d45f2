"""What operators ask: what a database holds, who works on it, what takes up its room."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.errors import StoreUnavailable
from holdfast.model.backlog import Backlog
from holdfast.model.definitions import Definition
from holdfast.model.dump import Dump, RunKey
from holdfast.model.limits import QueueState, Ticket
from holdfast.model.moving import REKEYED
from holdfast.model.schedules import Scheduled, ScheduleFilter
from holdfast.model.secrets import Sealed
from holdfast.model.waits import Wait, WaitFilter
from holdfast.model.workers import WorkerRow
from holdfast.ports.moving import Side
from holdfast.stores.envelope import named_in
from holdfast.stores.postgres import doctor, limits, reader, scheduling
from holdfast.stores.postgres.bells import LISTENER
from holdfast.stores.postgres.caching import Recalled
from holdfast.stores.postgres.connection import Line
from holdfast.stores.postgres.failures import reading
from holdfast.stores.postgres.readonly import Readonly, only_read
from holdfast.stores.postgres.rounds import CLOSED_LIST
from holdfast.stores.postgres.statements import migrations, queries
from holdfast.stores.postgres.target import Target

SQL = queries()


class Movable:
    """What is known of a move to another store."""

    _target: Target
    _reads: Line
    moved_to: str = ""
    """Where the runs went, if the database was moved; known once it is open."""

    def side(self) -> Side:
        """Return the database as a mover sees it, not yet opened."""
        # Imported late: nobody else pays for it, and it looks at workers as this module does.
        from holdfast.stores.postgres.moving import PostgresSide

        return PostgresSide(self._target)

    async def went_to(self) -> str:
        """Return where the runs have gone for good by now, if they have."""
        with reading():
            rows = await self._reads.fetch(SQL.went_to)
        return str(rows[0][0]) if rows else ""

    async def rekeyed_at(self) -> int:
        """Return when rows were last sealed anew; 0 if they never were."""
        with reading():
            rows = await self._reads.fetch(SQL.meta, key=REKEYED)
        return int(rows[0][0]) if rows else 0


class Inspection(Movable, Recalled):
    """The half of the store that operators see."""

    @abstractmethod
    def now(self) -> int:
        """Return the database's clock."""

    async def dump(self) -> Dump:
        """Return everything the schema holds, superseded events too, as of one moment."""
        with reading():
            async with self._searches.transaction(reads=True) as ask:
                return await doctor.dump(ask, self.now())

    async def buckets(self) -> dict[RunKey, tuple[str, ...]]:
        """Return the bucket of every run; a run that is in none, or in two, is lost."""
        with reading():
            rows = await self._searches.fetch(SQL.buckets, now=self.test_time(), closed=CLOSED_LIST)
        return {(ns, run): tuple(names.split()) for ns, run, names in rows}

    async def schedules(self, wanted: ScheduleFilter) -> list[Scheduled]:
        """Return schedules, in their order, or the next to be looked at."""
        with reading():
            return await scheduling.read(self._reads, wanted)

    async def waits(self, wanted: WaitFilter) -> list[Wait]:
        """Return what runs wait for from outside, the oldest first."""
        with reading():
            return await reader.waits(self._reads if wanted.run else self._searches, wanted)

    async def queues(self, ns: str) -> list[QueueState]:
        """Return the managed queues as they are."""
        with reading():
            return await limits.states(self._searches, ns, self.test_time())

    async def ticket(self, ns: str, run: str) -> Ticket | None:
        """Return the place of a run at its queue, if it has one."""
        with reading():
            rows = await self._reads.fetch(SQL.ticket, ns=ns, run=run)
        return Ticket._make(rows[0]) if rows else None

    async def secrets(self, ns: str, run: str) -> tuple[Sealed, ...]:
        """Return what a run was given for its steps, encrypted."""
        with reading():
            return await reader.secrets(self._reads, ns, run)

    async def workers(self) -> list[WorkerRow]:
        """Return the workers that have a lease or listen for work."""
        with reading():
            return await workers(self._searches)

    async def definitions(self, ns: str, workflow: str) -> tuple[Definition, ...]:
        """Return the known definitions of a workflow, the one seen last at the end."""
        with reading():
            rows = await self._searches.fetch(SQL.definitions_of_workflow, ns=ns, workflow=workflow)
        return tuple(map(Definition._make, rows))

    async def backlog(self, ns: str) -> list[Backlog]:
        """Return what waits for workers, by workflow and queue."""
        with reading():
            rows = await self._searches.fetch(SQL.backlog, ns=ns, now=self.test_time())
        return [Backlog._make(row) for row in rows]

    async def named_blobs(self) -> frozenset[str]:
        """Return the names of the blobs that rows name, as of one moment."""
        with reading():
            rows = await self._searches.fetch(SQL.named_blobs)
        return named_in(payload for [payload] in rows)

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[Readonly]:
        """Open the database only to read: nothing is made, migrated or written."""
        facts = await self.facts()
        async with only_read(self._target, facts["schema"], facts["schema_of_release"]) as opened:
            yield opened

    async def facts(self) -> dict[str, Any]:
        """Return where the data is, its schema, its settings and its sizes."""
        with reading():
            return await _facts(self._target)


async def workers(line: Line) -> list[WorkerRow]:
    """Return the workers that have a lease or listen for work."""
    rows = {row["id"]: row for row in await line.fetch(SQL.list_workers)}
    begin = len(LISTENER)
    listening = {
        name[begin:] for [name] in await line.fetch(SQL.listening_workers, prefix=LISTENER)
    }
    found: list[WorkerRow] = []
    for id in sorted({*rows, *listening}):
        _, lease_until, started_at, info, runs, jobs = rows.get(id, (id, None, None, "", 0, 0))
        found.append(WorkerRow(id, lease_until, started_at, id in listening, info, runs, jobs))
    return found


async def _facts(target: Target) -> dict[str, Any]:
    line = Line(target)
    try:
        [row], [[is_there]] = await line.fetch(SQL.server), await line.fetch(SQL.has_schema)
        if not is_there:
            raise StoreUnavailable(
                f"There is no schema of ours in {target.place}. Name the right database with "
                f"--store or HOLDFAST_STORE, or make the schema with `holdfast db migrate`."
            )
        [[version]] = await line.fetch(SQL.schema_version)
        sizes = await line.fetch(SQL.sizes)
        [[oldest]] = await line.fetch(SQL.oldest_transaction)
    finally:
        await line.close()
    return {
        "database": target.place,
        "bytes": sum(size["table_bytes"] + size["index_bytes"] for size in sizes),
        "schema": version,
        "schema_of_release": len(migrations()),
        "postgresql": str(row["version"]),
        "fsync": row["fsync"],
        "synchronous_commit": row["synchronous_commit"],
        "full_page_writes": row["full_page_writes"],
        "oldest_transaction_seconds": oldest,
        "dead_rows": sum(size["dead_rows"] for size in sizes),
        **{f"{size['name']}_bytes": size["table_bytes"] for size in sizes},
        **{f"{size['name']}_index_bytes": size["index_bytes"] for size in sizes},
    }
