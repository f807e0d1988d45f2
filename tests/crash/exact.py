"""The scenarios of the sweep in which steps take effect exactly once (I12)."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import holdfast as hf
from holdfast.model.deeds import Deed
from holdfast.model.writes import Advance
from holdfast.ports.store import Store
from holdfast.ports.transaction import WorkFailed
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect

app = hf.App("crash-exact")
ONCE = hf.Retry(max_attempts=1)
NOTED = "INSERT INTO crash_bookings (place, n) VALUES (:place, :n)"


@app.transaction
def clear(tx: hf.Transaction) -> None:
    effect()
    tx.execute("CREATE TABLE crash_bookings (place TEXT, n INTEGER)")


@app.transaction
def book(tx: hf.Transaction, n: int) -> int:
    effect(n)
    tx.execute(NOTED, place=hf.idempotency_key(), n=n)
    [row] = tx.execute("SELECT sum(n) AS total FROM crash_bookings")
    return int(row["total"])


@app.transaction(retry=ONCE)
def refuse(tx: hf.Transaction, n: int) -> int:
    effect(n)
    tx.execute(NOTED, place=hf.idempotency_key(), n=n)
    raise ValueError(f"no {n}")


@app.step
async def slow(seconds: float) -> None:
    effect()
    await asyncio.sleep(seconds)


@app.workflow
async def booking() -> list[int]:
    await clear()
    first = await book(1)
    with contextlib.suppress(hf.StepFailed):
        await refuse(100)
    await asyncio.gather(book(10), slow(0.5), book(20))
    last = await book(1_000 if hf.patched("dearer") else 2_000)
    return [first, last % 1_000]


async def run_booking(caller: Caller) -> None:
    await caller.start(booking.bind(), "booking")
    assert await caller.result("booking") == ("completed", [1, 31])


@app.workflow
async def contested() -> list[int]:
    """One in which a worker that was taken for dead finds the new owner at work."""
    await clear()
    found = [await book(1), await book(2)]
    await slow(60.0)
    return [*found, await book(3)]


async def run_contested(caller: Caller) -> None:
    await caller.start(contested.bind(), "contested")
    assert await caller.result("contested") == ("completed", [1, 3, 6])


@app.workflow
async def given_up() -> str:
    await clear()
    try:
        for n in range(4):
            await book(n)
            await hf.sleep(1.0)
    except asyncio.CancelledError:
        await book(100)
        raise
    return "done"


async def run_given_up(caller: Caller) -> None:
    await caller.start(given_up.bind(), "given-up")
    await caller.sleep(2.5)
    await caller.cancel("given-up")
    assert (await caller.result("given-up")).status in ("was cancelled", "completed")


async def bookings(store: Store) -> list[str]:
    """Return the keys under which something was booked."""
    found: list[dict[str, Any]] = []

    def look(tx: hf.Transaction) -> Advance:
        found.extend(tx.execute("SELECT place FROM crash_bookings ORDER BY place"))
        raise LookupError

    with contextlib.suppress(WorkFailed):
        await store.transact(look)
    return [row["place"] for row in found]


def each_is_booked_once(world: World) -> list[str]:
    """I12: there is one row for each recorded step, and none without a record."""
    recorded = _recorded(world, "book#")
    return [] if world.seen == recorded else [f"I12: {world.seen} rows, and {recorded} recorded"]


def _recorded(world: World, name: str) -> list[str]:
    return sorted(
        f"{ns}/{run}/{event.generation}/{event.key}"
        for (ns, run), events in world.dump.events.items()
        for event in events
        if event.kind == "step.completed" and event.key.startswith(name)
    )


# --- on a database of the user's own


class Books:
    """The user's own database, new for each world."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)

    def renew(self) -> None:
        self.connection.close()
        self.__init__()  # type: ignore[misc]
        self.connection.execute("CREATE TABLE entries (place TEXT)")

    def once(self, deed: Deed, work: Callable[[sqlite3.Connection], bytes]) -> bytes:
        return WITNESS.once(deed, work)

    def prune(self, older_than: timedelta) -> int:
        return WITNESS.prune(older_than)


class Lent:
    """A connection that stays open when it is closed: its database is in memory."""

    def __getattr__(self, name: str) -> Any:
        return getattr(BOOKS.connection, name)

    def close(self) -> None:
        pass


BOOKS = Books()
WITNESS = hf.SqliteWitness(lambda: cast("sqlite3.Connection", Lent()))


@app.transaction(on=BOOKS)
def enter(connection: sqlite3.Connection, n: int) -> int:
    effect(n)
    connection.execute("INSERT INTO entries VALUES (?)", (hf.idempotency_key(),))
    return n + len(connection.execute("SELECT place FROM entries").fetchall())


@app.workflow
async def witnessed() -> list[int]:
    found = [await enter(0), await enter(10)]
    await slow(60.0)
    return [*found, *await asyncio.gather(enter(20), enter(20))]


async def run_witnessed(caller: Caller) -> None:
    await caller.start(witnessed.bind(), "witnessed")
    status, found = await caller.result("witnessed")
    assert (status, found[:2], sorted(found[2:])) == ("completed", [1, 12], [23, 24])


def each_is_entered_once(world: World) -> list[str]:
    """I12: what was done in the other database is what is recorded here."""
    asked = "SELECT place FROM entries ORDER BY place"
    entered = [place for (place,) in BOOKS.connection.execute(asked)]
    recorded = _recorded(world, "enter#")
    return [] if entered == recorded else [f"I12: {entered} entered, and {recorded} recorded"]


def _exact(name: str, script: Any, **fields: Any) -> Scenario:
    return Scenario(name, app, script, look=bookings, check=each_is_booked_once, **fields)


EXACT = (
    _exact("transaction", run_booking, loose=frozenset({"book"})),
    _exact("transaction-zombie", run_contested, apart=True, workers=2),
    Scenario("witness", app, run_witnessed, apart=True, workers=2, loose=frozenset({"enter"}),
             prepare=BOOKS.renew, check=each_is_entered_once),
    _exact("transaction-cancelled", run_given_up, apart=True, workers=1, either=True),
)  # fmt: skip
