"""The list of what is moved fits PostgreSQL's schema, as `tests/gate` asks of SQLite's."""

import asyncpg

from holdfast.model.moving import LEFT, TABLES

TAGS = {"value"}, {"word", "number"}
"""A column of any type in SQLite is two in PostgreSQL."""

DECLARED = {table.name: set(table.columns) for table in TABLES}


async def test_every_table_and_column_of_postgres_is_declared(migrated: str) -> None:
    connection = await asyncpg.connect(migrated)
    try:
        rows = await connection.fetch(
            "SELECT table_name, column_name, udt_name FROM information_schema.columns "
            "JOIN information_schema.tables USING (table_schema, table_name) "
            "WHERE table_schema = 'holdfast' AND table_type = 'BASE TABLE'"
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
