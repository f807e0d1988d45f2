"""What one store's database does to transactions of users that no other's does."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from holdfast.errors import BadStatement
from holdfast.kernel import commit
from holdfast.model.writes import Advance, Outcome
from holdfast.ports.store import Store
from holdfast.ports.transaction import Overdue, Transaction, WorkFailed
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.conformance.harness import Harness
from holdfast.testing.conformance.transactions import LONG, a_shop, booking, bookings, failure


@asynccontextmanager
async def on_sqlite(path: Path) -> AsyncGenerator[Harness]:
    async with Harness(lambda clock: SqliteStore(path, clock=clock)) as harness:
        yield harness


@asynccontextmanager
async def on_postgres(url: str) -> AsyncGenerator[Harness]:
    def make(clock: Callable[[], int]) -> Store:
        return PostgresStore(url, clock=clock)

    async with Harness(make) as harness:
        yield harness


async def test_what_the_database_undoes_by_itself_takes_no_other_with_it(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path / "a.db") as harness:
        first = await a_shop(harness)
        assert (await harness.store.transact(booking(harness, first, 1))).applied
        runs = [await harness.held(f"r{n}") for n in range(4)]

        def ends_it(given: Transaction) -> None:
            try:
                given.execute("INSERT OR ROLLBACK INTO shop_bookings (n) VALUES (1)")
            except sqlite3.IntegrityError:
                # On its own it would be kept, without a record.
                given.execute("INSERT INTO shop_bookings (n) VALUES (99)")

        works = [
            booking(harness, run, 10 + n, ends_it if n == 2 else lambda _: None)
            for n, run in enumerate(runs)
        ]
        found = await asyncio.gather(
            *(harness.store.transact(work) for work in works), return_exceptions=True
        )
        failed = found.pop(2)
        assert isinstance(failed, WorkFailed)
        assert isinstance(failed.error, BadStatement)
        assert failed.error.what == "comes after the end of the transaction"
        assert all(isinstance(each, Outcome) and each.applied for each in found)
        assert await bookings(harness) == [1, 10, 11, 13]


async def test_a_function_that_hides_such_an_end_fails(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path / "a.db") as harness:
        run = await a_shop(harness)

        def hides(given: Transaction) -> None:
            try:
                given.execute("INSERT OR ROLLBACK INTO shop_bookings (n) VALUES (5)")
            except sqlite3.IntegrityError:
                return

        error = await failure(harness, booking(harness, run, 5, hides))
        assert "has ended the transaction" in str(error)
        assert await bookings(harness) == []
        assert (await harness.store.transact(booking(harness, run, 6))).applied


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("DROP TABLE runs", "would change a table of Holdfast's"),
        ("ALTER TABLE runs ADD COLUMN mine TEXT", "would change a table of Holdfast's"),
        ("CREATE INDEX mine ON runs (status)", "would change a table of Holdfast's"),
        ("WITH a AS (SELECT 1) DELETE FROM run_events", "would change a table of Holdfast's"),
        ("DROP VIEW events", "would change a table of Holdfast's"),
        ("REPLACE INTO meta VALUES ('a', 1)", "would change a table of Holdfast's"),
        ("SELECT * FROM pragma_table_info('runs')", "changes a setting"),
        ("ATTACH ':memory:' AS other", "begins with ATTACH"),
    ],
)
async def test_the_file_is_guarded(tmp_path: Path, sql: str, what: str) -> None:
    async with on_sqlite(tmp_path / "a.db") as harness:
        run = await a_shop(harness)
        error = await failure(harness, booking(harness, run, 1, lambda given: given.execute(sql)))
        assert isinstance(error, BadStatement), error
        assert error.what == what
        assert await harness.commit(run) == "applied", "our own statements pass as ever"


async def test_two_that_block_each_other_are_tried_again(postgres_store: str) -> None:
    async with on_postgres(postgres_store) as harness:
        await a_shop(harness)
        one, other = await harness.held("one"), await harness.held("other")
        row = await harness.row("r")
        await harness.store.transact(booking(harness, row, 1))
        await harness.store.transact(booking(harness, await harness.row("r"), 2))
        both, calls = threading.Barrier(2), list[str]()

        def crossing(run: Any, first: int, second: int) -> Callable[[Transaction], Advance]:
            def work(given: Transaction) -> Advance:
                calls.append(run.id)
                change = "UPDATE shop_bookings SET note = :note WHERE n = :n"
                given.execute(change, note=run.id, n=first)
                if len(calls) <= 2:
                    both.wait(10)
                given.execute(change, note=run.id, n=second)
                return commit.decide(harness.turn(run))

            return work

        outcomes = await asyncio.gather(
            harness.store.transact(crossing(one, 1, 2)),
            harness.store.transact(crossing(other, 2, 1)),
        )
        assert [outcome.applied for outcome in outcomes] == [True, True]
        assert len(calls) == 3, "one of them was begun again"


async def test_a_value_of_the_wrong_type_is_the_steps_failure(postgres_store: str) -> None:
    async with on_postgres(postgres_store) as harness:
        run = await a_shop(harness)

        def wrong(given: Transaction) -> None:
            given.execute("UPDATE shop_bookings SET note = :note", note=5)

        error = await failure(harness, booking(harness, run, 1, wrong))
        assert isinstance(error, asyncpg.DataError)
        assert await bookings(harness) == []


async def test_a_server_gives_up_the_statement_whose_time_is_over(postgres_store: str) -> None:
    async with on_postgres(postgres_store) as harness:
        run, late, is_late = await a_shop(harness), list[Exception](), threading.Event()

        def goes_on(given: Transaction) -> None:
            try:
                given.execute(LONG)
            finally:
                try:
                    given.execute("INSERT INTO shop_bookings (n) VALUES (99)")
                except Exception as error:
                    late.append(error)
                is_late.set()

        overdue = await failure(harness, booking(harness, run, 1, goes_on), 0.05)
        assert isinstance(overdue, Overdue)
        connection = await asyncpg.connect(postgres_store)
        running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = $1"
        assert await connection.fetchval(running, LONG) == 0
        await connection.close()
        assert await bookings(harness) == []
        assert await asyncio.to_thread(is_late.wait, 30)
        assert isinstance(late[0], BadStatement), "what it does now would be in no transaction"
