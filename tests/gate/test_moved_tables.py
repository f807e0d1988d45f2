"""Everything that a store keeps is moved: a table or column that nobody declared fails here.

Add it to `TABLES` in `model/moving.py`, its key first; what belongs to processes to `LEFT`. The
same is asked of PostgreSQL in `tests/moving/test_tables.py`.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast.model.moving import LEFT, TABLES
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.moving import STORED

LISTED = """
    SELECT name FROM pragma_table_list
    WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'
"""
DECLARED = {table.name: set(table.columns) for table in TABLES}
NUMBERED = {"number"}
"""The file's own number of a run, given anew where it is moved to."""
PLACED = {"ns", "run", "seq"}, {"place"}
"""What is the key of an event, and what stands for it in the file."""


async def test_every_table_and_column_of_sqlite_is_declared(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.db")
    await store.open()
    await store.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        names = [name for [name] in connection.execute(LISTED)]
        found = {name: _columns(connection, name) for name in names if name not in LEFT}
        keys = {name: _key(connection, name) for name in found}
        shown = _columns(connection, "events")
    assert keys.pop("run_events") == tuple(PLACED[1])
    assert found.pop("run_events") - PLACED[1] | PLACED[0] == shown == DECLARED["events"]
    found["runs"] -= NUMBERED
    others = [table for table in TABLES if table.name not in STORED]
    assert found == {table.name: DECLARED[table.name] for table in others}
    assert keys == {table.name: table.key for table in others}


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _key(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    rows = [row for row in connection.execute(f"PRAGMA table_info({table})") if row[5]]
    return tuple(row[1] for row in sorted(rows, key=lambda row: row[5]))
