"""A store that is opened only to read is neither made, migrated nor written to."""

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

import holdfast as hf
from holdfast.errors import StoreUnavailable, StoreVersion
from holdfast.model.writes import Filter, Page
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.statements import migrations
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.postgres import PostgresServer

app = hf.App("read")
go = hf.Signal("go", int)


@app.workflow
async def waits() -> int:
    return await hf.wait_for(go)


async def filled(url: str) -> None:
    async with app.open(url, worker=False) as client:
        await client.start(waits.bind(), id="one")


async def ids(store: SqliteStore | PostgresStore) -> list[tuple[str, int]]:
    """Return what is found, and how many events of each are read."""
    async with store.reading() as reads:
        found = await reads.find(Filter(), Page())
        loaded = [await reads.load(run.ns, run.id) for run in found]
        assert await reads.load("default", "nobody") is None
    return [(each.run.id, len(each.events)) for each in loaded if each is not None]


async def test_a_file_is_read_and_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    await filled(f"sqlite:///{path}")
    before = path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).digest()
    assert await ids(SqliteStore(path)) == [("one", 1)]
    assert (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).digest()) == before


async def test_what_a_worker_writes_meanwhile_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    async with app.open(f"sqlite:///{path}", worker=False) as client:
        await client.start(waits.bind(), id="one")
        async with SqliteStore(path).reading() as reads:
            await client.start(waits.bind(), id="two")
            assert len(await reads.find(Filter(), Page())) == 2


async def test_a_file_with_another_schema_is_not_migrated(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    await filled(f"sqlite:///{path}")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(StoreVersion, match=r"schema version 1, .* nothing was changed"):
        await ids(SqliteStore(path))
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()


async def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(hf.StoreUnavailable, match="There is no database at"):
        await ids(SqliteStore(tmp_path / "shop.db"))
    assert list(tmp_path.iterdir()) == []


async def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shop.db").write_text("no database " * 100)
    with pytest.raises(hf.StoreError, match="not a usable SQLite database"):
        await ids(SqliteStore(tmp_path / "shop.db"))


async def test_a_database_is_read_and_cannot_be_written(postgres_store: str) -> None:
    await filled(postgres_store)
    store = PostgresStore(postgres_store, rings=False)
    assert await ids(store) == [("one", 1)]
    async with store.reading() as reads:
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            async with reads.searches.transaction(reads=True) as ask:
                await ask.script("DELETE FROM holdfast.runs")


async def test_a_database_without_our_schema_gets_none(
    postgres: PostgresServer, postgres_url: str
) -> None:
    with pytest.raises(hf.StoreUnavailable, match="no schema of ours"):
        await ids(PostgresStore(postgres_url))
    found = "SELECT count(*) FROM pg_namespace WHERE nspname = 'holdfast'"
    assert postgres.execute(found, url=postgres_url) == "0"


async def test_a_database_with_another_schema_is_not_migrated(
    postgres: PostgresServer, postgres_store: str, request: pytest.FixtureRequest
) -> None:
    at: Callable[[int], str] = (
        "UPDATE holdfast.meta SET value = {} WHERE key = 'schema' RETURNING value".format
    )
    version = "SELECT value FROM holdfast.meta WHERE key = 'schema'"
    known = len(migrations())
    request.addfinalizer(lambda: postgres.execute(at(known), url=postgres_store))
    postgres.execute(at(known - 1), url=postgres_store)
    with pytest.raises(StoreVersion, match=f"schema version {known - 1}, .* nothing was changed"):
        await ids(PostgresStore(postgres_store))
    assert postgres.execute(version, url=postgres_store) == str(known - 1)


async def test_a_file_of_another_program_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "books.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(StoreUnavailable, match="no schema of ours"):
        await ids(SqliteStore(path))
