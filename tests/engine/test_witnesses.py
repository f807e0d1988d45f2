"""Transactions on databases of users' own: done once, and known to be done."""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session, sessionmaker

import holdfast as hf
from holdfast.model.deeds import Deed
from tests.engine.places import Place, until, within

DEED = Deed("default", "order-1", 1, "pay#1", 3)


class Books(NamedTuple):
    """A witness, and its database as a person looks at it."""

    witness: Any
    book: Callable[[Any, int], None]
    entries: Callable[[], list[int]]
    rows: Callable[[], list[tuple[Any, ...]]]

    def booking(self, cents: int, outcome: bytes) -> Callable[[Any], bytes]:
        """Return work that books this much."""

        def work(given: Any) -> bytes:
            self.book(given, cents)
            return outcome

        return work


def _in_sqlite(path: Path) -> Books:
    def look(sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            return connection.execute(sql).fetchall()

    look("CREATE TABLE entries (cents INTEGER)")

    def book(connection: sqlite3.Connection, cents: int) -> None:
        connection.execute("INSERT INTO entries VALUES (?)", (cents,))

    return Books(hf.SqliteWitness(path), book, *_looks(look))


def _in_postgres(url: str) -> Books:
    def look(sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(url) as connection:
            found = connection.execute(sql.encode())
            return found.fetchall() if found.description else []

    look("CREATE TABLE entries (cents INTEGER)")

    def book(connection: "psycopg.Connection[Any]", cents: int) -> None:
        connection.execute("INSERT INTO entries VALUES (%s)", (cents,))

    return Books(hf.PsycopgWitness(url), book, *_looks(look))


def _in_alchemy(url: str, made: contextlib.ExitStack) -> Books:
    engine = create_engine(url)
    made.callback(engine.dispose)
    sessions = sessionmaker(engine)

    def look(sql: str) -> list[tuple[Any, ...]]:
        with sessions() as session, session.begin():
            found: Any = session.execute(text(sql))
            return [tuple(row) for row in found] if found.returns_rows else []

    look("CREATE TABLE entries (cents INTEGER)")

    def book(session: Session, cents: int) -> None:
        session.execute(text("INSERT INTO entries VALUES (:cents)"), {"cents": cents})

    return Books(hf.SqlAlchemyWitness(sessions), book, *_looks(look))


def _looks(look: Callable[[str], list[tuple[Any, ...]]]) -> tuple[Any, Any]:
    def rows() -> list[tuple[Any, ...]]:
        return look("SELECT run, generation, step, epoch FROM holdfast_witness ORDER BY step")

    return lambda: sorted(row[0] for row in look("SELECT cents FROM entries")), rows


@pytest.fixture(params=["sqlite", "psycopg", "sqlalchemy-sqlite", "sqlalchemy-postgres"])
def books(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Books]:
    kind: str = request.param
    with contextlib.ExitStack() as made:
        if kind == "sqlite":
            yield _in_sqlite(tmp_path / "books.db")
        elif kind == "psycopg":
            yield _in_postgres(request.getfixturevalue("postgres_url"))
        elif kind == "sqlalchemy-sqlite":
            yield _in_alchemy(f"sqlite:///{tmp_path / 'books.db'}", made)
        else:
            url: str = request.getfixturevalue("postgres_url")
            yield _in_alchemy(url.replace("postgresql://", "postgresql+psycopg://"), made)


def test_a_deed_is_done_once(books: Books) -> None:
    def work(given: Any) -> bytes:
        books.book(given, 5)
        return b'"done"'

    assert books.witness.once(DEED, work) == b'"done"'
    assert books.witness.once(DEED._replace(epoch=9), work) == b'"done"'
    assert books.entries() == [5]
    assert books.rows() == [("order-1", 1, "pay#1", 3)]
    books.witness.once(DEED._replace(generation=2), work)
    assert books.entries() == [5, 5], "a rerun really runs"


def test_what_raises_leaves_nothing(books: Books) -> None:
    def fail(given: Any) -> bytes:
        books.book(given, 5)
        raise LookupError("no such account")

    books.witness.prune(timedelta(days=1))  # the table is there
    with pytest.raises(LookupError, match="no such account"):
        books.witness.once(DEED, fail)
    assert books.entries() == []
    assert books.rows() == []


def test_whoever_comes_second_waits_and_is_told(books: Books) -> None:
    """A worker that was taken for dead and its successor do the same at the same time."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(given: Any) -> bytes:
        books.book(given, 5)
        begun.set()
        assert go_on.wait(10)
        return b"1"

    def quick(given: Any) -> bytes:
        books.book(given, 6)
        return b"2"

    books.witness.prune(timedelta(days=1))  # the table is there
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(books.witness.once, DEED, slow)
        assert begun.wait(10)
        second = pool.submit(books.witness.once, DEED._replace(epoch=4), quick)
        go_on.set()
        assert (first.result(10), second.result(10)) == (b"1", b"1")
    assert books.entries() == [5]


def test_deeds_are_forgotten_in_time(books: Books) -> None:
    books.witness.once(DEED, lambda _: b"1")
    assert books.witness.prune(timedelta(days=1)) == 0
    assert books.witness.prune(timedelta(0)) == 1
    assert books.rows() == []
    with pytest.raises(ValueError, match="positive"):
        books.witness.prune(timedelta(-1))


def test_deeds_of_runs_are_forgotten_by_name(books: Books) -> None:
    for run in ("order-1", "order-2", "order-3"):
        for key in ("pay#1", "pay#2"):
            books.witness.once(DEED._replace(run=run, key=key), lambda _: b"1")
    books.witness.once(DEED._replace(ns="other", run="order-2"), lambda _: b"1")
    assert books.witness.runs("default", timedelta(days=1)) == []
    assert books.witness.runs("default", timedelta(0)) == ["order-1", "order-2", "order-3"]
    assert books.witness.runs("default", timedelta(0), after="order-2") == ["order-3"]
    assert books.witness.forget("default", ["order-1", "order-2"], timedelta(days=1)) == 0
    assert books.witness.forget("default", ["order-1", "order-2"], timedelta(0)) == 4
    assert books.witness.forget("default", [], timedelta(0)) == 0
    assert sorted({run for run, *_ in books.rows()}) == ["order-2", "order-3"]


def test_a_long_key_is_told_from_its_neighbours(books: Books) -> None:
    for n in range(3):
        books.witness.once(DEED._replace(key=f"{'a' * 300}#{n}"), lambda _: b"1")
    assert len(books.rows()) == 3


async def test_a_step_is_done_once_whatever_happens_to_its_record(
    place: Place, app: hf.App, books: Books
) -> None:
    @app.transaction(on=books.witness)
    def pay(given: Any, cents: int) -> str:
        books.book(given, cents)
        return f"paid {cents} as {hf.idempotency_key()}"

    @app.workflow
    async def order(cents: int) -> str:
        return await pay(cents)

    told = b'"paid 7 as default/r/1/pay#1"'
    # As a worker leaves it that died between the two commits.
    books.witness.once(Deed("default", "r", 1, "pay#1"), books.booking(7, told))
    async with place.open(app) as client:
        run = await client.start(order.bind(7), id="r")
        assert await within(run.result()) == "paid 7 as default/r/1/pay#1"
        assert books.entries() == [7]
        other = await client.start(order.bind(8), id="s")
        assert await within(other.result()) == "paid 8 as default/s/1/pay#1"
        await other.rerun("pay#1")
        await within(other.result())
        await other.rerun("pay#1", keep_keys=True)
        await within(other.result())
        assert books.entries() == [7, 8, 8], "once more for the rerun, not for the keys it kept"


async def test_only_what_runs_did_that_are_over_is_forgotten(
    place: Place, app: hf.App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = _in_sqlite(tmp_path / "books.db")
    monkeypatch.setattr("holdfast.witnesses.sqlite.PAGE", 2)
    go_on = hf.Signal("go on", str)

    @app.transaction(on=books.witness)
    def pay(connection: sqlite3.Connection, cents: int) -> int:
        books.book(connection, cents)
        return cents

    @app.workflow
    async def order(waits: bool) -> None:
        await pay(1)
        if waits:
            await hf.wait_for(go_on)
        await pay(2)

    async with place.open(app) as client:
        runs = [await client.start(order.bind(n > 2), id=f"order-{n}") for n in range(5)]
        for run in runs[:3]:
            await within(run.result())
        await until(lambda: len(books.entries()) == 8)
        books.witness.once(Deed("default", "forgotten", 1, "pay#1"), lambda _: b"1")
        assert await client.prune_witness(books.witness, older_than=timedelta(days=1)) == 0
        assert await client.prune_witness(books.witness, older_than=0) == 7
        assert sorted(run for run, *_ in books.rows()) == ["order-3", "order-4"]
        for run in runs[3:]:
            await run.signal(go_on, "now")
            await within(run.result())
        assert await client.prune_witness(books.witness, older_than=0) == 4
        assert len(books.entries()) == 10


async def test_a_failure_is_tried_again(place: Place, app: hf.App, tmp_path: Path) -> None:
    books = _in_sqlite(tmp_path / "books.db")

    @app.transaction(on=books.witness, retry=hf.Retry(max_attempts=2, initial=0.01))
    def pay(connection: sqlite3.Connection, cents: int) -> int:
        books.book(connection, cents)
        if hf.attempt() == 1:
            raise ConnectionError
        return cents

    @app.workflow
    async def order() -> int:
        return await pay(3)

    async with place.open(app) as client:
        assert await within((await client.start(order.bind())).result()) == 3
    assert books.entries() == [3]


def test_a_function_that_commits_itself_is_found_out(tmp_path: Path) -> None:
    books = _in_sqlite(tmp_path / "books.db")

    def commits(connection: sqlite3.Connection) -> bytes:
        books.book(connection, 1)
        connection.execute("COMMIT")
        return b"1"

    for _ in range(2):
        with pytest.raises(hf.NonRetryable, match="ended its transaction itself"):
            books.witness.once(DEED, commits)
    assert books.entries() == [1]


@pytest.mark.parametrize("level", [None, "", "IMMEDIATE"])
def test_any_way_to_connect_will_do(tmp_path: Path, level: Any) -> None:
    path = tmp_path / "books.db"
    books = _in_sqlite(path)
    witness = hf.SqliteWitness(lambda: sqlite3.connect(path, isolation_level=level))
    for _ in range(2):
        assert witness.once(DEED, books.booking(1, b"1")) == b"1"
    assert books.entries() == [1]


def test_what_is_no_witness_is_refused(app: hf.App) -> None:
    with pytest.raises(hf.BadDefinition, match=r"'books\.db', which is no witness"):

        @app.transaction(on="books.db")  # type: ignore[call-overload]
        def pay(connection: sqlite3.Connection) -> None: ...
