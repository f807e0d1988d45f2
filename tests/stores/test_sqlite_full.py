"""A full disk: nothing is written, nobody hangs, and it goes on when there is room again."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StoreError, StoreFull, StoreUnavailable
from holdfast.model.events import Event
from holdfast.model.writes import Create, Outcome
from holdfast.stores.sqlite import SqliteStore


def start(id: str, size: int) -> Create:
    event = Event("run.started", 1, payload=b"x" * size, seq=1)
    return Create("default", id, "work", "", b"12345678", event, 0)


def limit_pages(store: SqliteStore, pages: int) -> None:
    connection: Any = store._writer._transactions.connection
    connection.execute(f"PRAGMA max_page_count = {pages}")


@pytest.mark.parametrize("threaded", [True, False], ids=["threaded", "inline"])
async def test_a_full_disk_refuses_writes_until_there_is_room(
    tmp_path: Path, threaded: bool
) -> None:
    store = SqliteStore(tmp_path / "x.db", threaded=threaded)
    await store.open()
    try:
        limit_pages(store, 30)
        with pytest.raises(StoreError):
            await store.write([start("big", 1_000_000)])
        assert await store.load("default", "big") is None
        limit_pages(store, 100_000)
        [outcome] = await store.write([start("big", 1_000_000)])
        assert isinstance(outcome, Outcome)
        assert outcome.applied
    finally:
        await store.close()


async def test_writes_go_on_without_the_folder_of_bells(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    await store.open()
    try:
        shutil.rmtree(tmp_path / "x.db-workers")
        for n in range(3):
            [outcome] = await store.write([start(f"r{n}", 10)])
            assert outcome.applied
    finally:
        await store.close()


async def test_a_full_disk_is_said_by_its_own_error(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    await store.open()
    try:
        limit_pages(store, 30)
        with pytest.raises(StoreFull, match=r"Nothing was written.*Make room") as caught:
            await store.write([start("big", 1_000_000)])
        assert isinstance(caught.value, StoreUnavailable)
    finally:
        await store.close()


async def test_no_error_ends_the_thread_of_the_writer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(tmp_path / "x.db")
    await store.open()

    def broken(group: list[Any]) -> None:
        raise MemoryError("out of it")

    try:
        writer: Any = store._writer
        work, writer._transactions.commit = writer._transactions.commit, broken
        writes = [store.write([start(f"r{n}", 10)]) for n in range(3)]
        for outcome in await asyncio.gather(*writes, return_exceptions=True):
            assert isinstance(outcome, StoreError)
        assert "the writer failed on 3 jobs" in caplog.text
        writer._transactions.commit = work
        assert await store.load("default", "r0") is None
        writes = [store.write([start(f"r{n}", 10)]) for n in range(3)]
        assert all(outcome.applied for [outcome] in await asyncio.gather(*writes))
    finally:
        await store.close()
