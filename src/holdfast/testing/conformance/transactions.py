"""Users' tables beside ours: what a function wrote and the turn that says so, both or neither."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.errors import BadStatement
from holdfast.kernel import commit
from holdfast.model.run import Run
from holdfast.model.writes import Advance, Outcome
from holdfast.ports.transaction import Overdue, Transaction, WorkFailed
from holdfast.testing.conformance.harness import Harness, answer, refused

LONG = """
WITH RECURSIVE counted(n) AS (
    SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1000000000
)
SELECT count(*) FROM counted
"""


def booking(
    harness: Harness, run: Run, n: int, then: Callable[[Transaction], object] = lambda _: None
) -> Callable[[Transaction], Advance]:
    """Return work that adds a row, and a turn that says so."""

    def work(given: Transaction) -> Advance:
        given.execute("INSERT INTO shop_bookings (n) VALUES (:n)", n=n)
        then(given)
        return commit.decide(harness.turn(run, answer(f"book#{n}", b"%d" % n)))

    return work


async def bookings(harness: Harness) -> list[int]:
    """Return the rows there are."""
    return [row["n"] for row in await asked(harness, "SELECT n FROM shop_bookings ORDER BY n")]


async def asked(harness: Harness, *statements: str, **values: Any) -> list[dict[str, Any]]:
    """Return the rows of the last statement; nothing of them is kept."""
    found: list[dict[str, Any]] = []

    def look(given: Transaction) -> Advance:
        for sql in statements:
            found[:] = given.execute(sql, **values)
        raise LookupError

    assert isinstance(await failure(harness, look), LookupError)
    return found


async def failure(
    harness: Harness, work: Callable[[Transaction], Advance], seconds: float | None = None
) -> BaseException:
    """Return what work failed with."""
    try:
        await harness.store.transact(work, seconds)
    except WorkFailed as failed:
        return failed.error
    raise AssertionError("it did not fail")


async def a_shop(harness: Harness, id: str = "r") -> Run:
    """Return a held run, with an empty table beside it."""
    run = await harness.held(id)

    def make(given: Transaction) -> Advance:
        given.execute("DROP TABLE IF EXISTS shop_bookings")
        given.execute("CREATE TABLE shop_bookings (n INTEGER PRIMARY KEY, note TEXT)")
        return commit.decide(harness.turn(run, answer("open#1")))

    assert (await harness.store.transact(make)).applied
    return await harness.row(id)


async def events(harness: Harness, id: str = "r") -> list[str]:
    """Return the keys of a run's answers."""
    loaded = await harness.store.load("default", id)
    assert loaded is not None
    return [event.key for event in loaded.events[1:]]


async def test_the_turn_and_the_rows_are_kept_together(harness: Harness) -> None:
    run = await a_shop(harness)
    outcome = await harness.store.transact(booking(harness, run, 1))
    assert outcome == Outcome(True, None, 0, 0)
    assert await bookings(harness) == [1]
    assert await events(harness) == ["open#1", "book#1"]


async def test_work_that_raises_leaves_nothing(harness: Harness) -> None:
    run = await a_shop(harness)

    def fail(_: Transaction) -> None:
        raise ValueError("sold out")

    error = await failure(harness, booking(harness, run, 1, fail))
    assert isinstance(error, ValueError)
    assert str(error) == "sold out"
    assert await bookings(harness) == []
    assert await events(harness) == ["open#1"]
    assert (await harness.store.transact(booking(harness, run, 2))).applied


async def test_a_turn_that_is_refused_takes_the_rows_with_it(harness: Harness) -> None:
    run = await a_shop(harness)
    for stale in (run._replace(epoch=run.epoch - 1), run._replace(seq=run.seq - 1)):
        outcome = await harness.store.transact(booking(harness, stale, 1))
        assert not outcome.applied
        assert outcome.run == run
    await harness.cancel("r")
    outcome = await harness.store.transact(booking(harness, run, 1))
    assert (outcome.applied, outcome.run and outcome.run.cancel) == (False, 1)
    assert await bookings(harness) == []
    assert await events(harness) == ["open#1"]


async def test_whoever_lost_the_run_writes_nothing(harness: Harness) -> None:
    run = await a_shop(harness)
    await harness.move("terminate", "r")
    outcome = await harness.store.transact(booking(harness, run, 1))
    assert (outcome.applied, outcome.run and outcome.run.status) == (False, "terminated")
    assert await bookings(harness) == []


async def test_what_an_error_of_the_database_means_is_the_functions_affair(
    harness: Harness,
) -> None:
    run = await a_shop(harness)
    await harness.store.transact(booking(harness, run, 1))
    row = await harness.row("r")
    twice = await failure(harness, booking(harness, row, 1))
    assert "unique" in str(twice).lower()
    missing = await failure(
        harness, booking(harness, row, 2, lambda given: given.execute("SELECT * FROM nowhere"))
    )
    assert "nowhere" in str(missing)
    assert await bookings(harness) == [1]


async def test_values_go_to_their_names_and_rows_come_by_theirs(harness: Harness) -> None:
    run = await a_shop(harness)
    odd = "é ' :n -- \x7f 日本"

    def put(given: Transaction) -> None:
        # In quotes and comments a colon is a colon.
        told = given.execute(
            "UPDATE shop_bookings SET note = :note || ':n' /* :x */ WHERE n = :n -- :y", note=odd,
            n=1,
        )  # fmt: skip
        assert told == []

    assert (await harness.store.transact(booking(harness, run, 1, put))).applied
    [row] = await asked(harness, "SELECT note, n AS number FROM shop_bookings WHERE n = :n", n=1)
    assert row == {"note": f"{odd}:n", "number": 1}


async def test_a_statement_that_does_not_belong_there_is_refused(harness: Harness) -> None:
    run = await a_shop(harness)
    wrong: dict[str, tuple[str, dict[str, Any]]] = {
        "begins with COMMIT": ("COMMIT", {}),
        "begins with ROLLBACK": ("  -- now\n/* and */ rollback", {}),
        "begins with BEGIN": ("BEGIN", {}),
        "begins with SAVEPOINT": ("SAVEPOINT mine", {}),
        "begins with PRAGMA": ("PRAGMA foreign_keys = ON", {}),
        "begins with SET": ("SET synchronous_commit = off", {}),
        "is empty": (" \n", {}),
        "names :n, which was given no value": ("SELECT :n", {}),
        "has no place :m": ("SELECT 1", {"m": 1}),
    }
    for what, (sql, values) in wrong.items():
        ask = booking(harness, run, 1, lambda given, s=sql, v=values: given.execute(s, **v))  # type: ignore[misc]
        error = await failure(harness, ask)
        assert isinstance(error, BadStatement), error
        assert error.what == what
    assert await bookings(harness) == []


async def test_a_transaction_is_over_when_its_function_returns(harness: Harness) -> None:
    run, kept = await a_shop(harness), list[Transaction]()
    await harness.store.transact(booking(harness, run, 1, kept.append))
    with refused(BadStatement):
        kept[0].execute("INSERT INTO shop_bookings (n) VALUES (2)")
    assert await bookings(harness) == [1]


async def test_a_transaction_that_takes_too_long_is_undone(harness: Harness) -> None:
    run = await a_shop(harness)
    long = booking(harness, run, 1, lambda given: given.execute(LONG))
    assert isinstance(await failure(harness, long, 0.05), Overdue)
    assert await bookings(harness) == []
    # The same row: nothing of the first holds it any more.
    assert (await harness.store.transact(booking(harness, run, 1), 60)).applied


async def test_one_that_fails_takes_no_other_with_it(harness: Harness) -> None:
    await a_shop(harness)
    runs = [await harness.held(f"r{n}") for n in range(6)]

    def fail(_: Transaction) -> None:
        raise ValueError

    works = [
        booking(harness, run, n, fail if n == 3 else lambda _: None) for n, run in enumerate(runs)
    ]
    found = await asyncio.gather(
        *(harness.store.transact(work) for work in works),
        harness.commit(await harness.held("beside"), answer()),
        return_exceptions=True,
    )
    assert isinstance(found.pop(3), WorkFailed)
    assert found.pop() == "applied"
    assert all(isinstance(each, Outcome) and each.applied for each in found)
    assert await bookings(harness) == [0, 1, 2, 4, 5]


async def test_listeners_hear_of_the_turn(harness: Harness) -> None:
    run, heard = await a_shop(harness), list[tuple[str, str]]()
    stop = harness.store.listen(lambda told: heard.extend((each.run, each.what) for each in told))
    await harness.store.transact(booking(harness, run, 1))
    assert ("r", "events") in heard
    stop()
