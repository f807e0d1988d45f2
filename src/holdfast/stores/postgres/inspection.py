"""What operators ask: who works on a database, what its settings are, what takes up its room."""

from __future__ import annotations

from typing import Any

from holdfast.errors import StoreUnavailable
from holdfast.model.workers import WorkerRow
from holdfast.stores.postgres.bells import LISTENER
from holdfast.stores.postgres.connection import Line, Target
from holdfast.stores.postgres.statements import migrations, queries

SQL = queries()


async def workers(line: Line) -> list[WorkerRow]:
    """Return the workers that have a lease, or a session that listens."""
    rows = {row["id"]: row for row in await line.fetch(SQL.list_workers)}
    begin = len(LISTENER)
    listening = {
        name[begin:] for [name] in await line.fetch(SQL.listening_workers, prefix=LISTENER)
    }
    found: list[WorkerRow] = []
    for id in sorted({*rows, *listening}):
        _, lease_until, started_at, info, runs = rows.get(id, (id, None, None, "", 0))
        found.append(WorkerRow(id, lease_until, started_at, id in listening, info, runs))
    return found


async def facts(target: Target) -> dict[str, Any]:
    """Return the facts about a database, changing nothing."""
    line = Line(target)
    try:
        [row] = await line.fetch(SQL.server)
        if not row["is_known"]:
            raise StoreUnavailable(
                f"There is no schema of ours in {target.place}. Name the right database with "
                f"--store or HOLDFAST_STORE, or make the schema with `holdfast db migrate`."
            )
        [[version]] = await line.fetch(SQL.schema_version)
        sizes = await line.fetch(SQL.sizes)
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
        **{f"{size['name']}_bytes": size["table_bytes"] for size in sizes},
        **{f"{size['name']}_index_bytes": size["index_bytes"] for size in sizes},
    }
