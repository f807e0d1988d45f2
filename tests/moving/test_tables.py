"""The list of what is moved is whole: a table or column that nobody declared fails here."""

import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg

from holdfast.model.moving import LEFT, TABLES
from holdfast.stores.sqlite import SqliteStore

TAGS = {"value"}, {"word", "number"}
"""A column of any type in SQLite is two in PostgreSQL."""

LISTED = """
    SELECT name FROM pragma_table_list
    WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'
"""
DECLARED = {table.name: set(table.columns) for table in TABLES}


async def test_every_table_and_column_of_sqlite_is_declared(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.db")
    await store.open()
    await store.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        names = [name for [name] in connection.execute(LISTED)]
        found = {name: _columns(connection, name) for name in names if name not in LEFT}
        keys = {name: _key(connection, name) for name in found}
    assert found == DECLARED
    assert keys == {table.name: table.key for table in TABLES}


async def test_every_table_and_column_of_postgres_is_declared(migrated: str) -> None:
    connection = await asyncpg.connect(migrated)
    try:
        rows = await connection.fetch(
            "SELECT table_name, column_name, udt_name FROM information_schema.columns "
            "WHERE table_schema = 'holdfast'"
        )
    finally:
        await connection.close()
    found: dict[str, set[str]] = {}
    for table, column, _ in rows:
        found.setdefault(table, set()).add(column)
    found["run_tags"] = found["run_tags"] - TAGS[1] | TAGS[0]
    assert {name: columns for name, columns in found.items() if name not in LEFT} == DECLARED
    kinds = {(table, column): kind for table, column, kind in rows}
    for table in TABLES:
        assert all(kinds[table.name, name] == "bytea" for name in table.as_bytes)


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _key(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    rows = [row for row in connection.execute(f"PRAGMA table_info({table})") if row[5]]
    return tuple(row[1] for row in sorted(rows, key=lambda row: row[5]))
