"""The page of the tables names every column there is, and its queries run on both databases."""

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from holdfast.stores.sqlite import SqliteStore

PAGE = (Path(__file__).parents[2] / "docs/howto/audit.md").read_text()
TABLES = ("workflow_runs", "stages", "decisions", "checkpoints")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An empty store."""
    asyncio.run(_create(tmp_path / "a.db"))
    return tmp_path / "a.db"


async def _create(file: Path) -> None:
    store = SqliteStore(file)
    await store.open()
    await store.close()


def documented(table: str) -> list[str]:
    section = PAGE.split(f"\n## {table}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return sorted(name for cell in cells for name in re.findall(r"`(\w+)`", cell))


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_on_the_page(file: Path, table: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        found = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    assert documented(table) == sorted(found)


@pytest.mark.parametrize("table", TABLES)
async def test_postgres_has_the_same_columns(migrated: str, table: str) -> None:
    server = await asyncpg.connect(migrated)
    try:
        rows = await server.fetch(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = 'holdfast' AND table_name = $1",
            table,
        )
    finally:
        await server.close()
    assert documented(table) == sorted(row[0] for row in rows)


@pytest.mark.parametrize("query", QUERIES)
async def test_every_query_runs(file: Path, migrated: str, query: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute(query).fetchall() == []
    server = await asyncpg.connect(migrated, server_settings={"search_path": "holdfast"})
    try:
        await server.fetch(query)
    finally:
        await server.close()
