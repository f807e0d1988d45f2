"""Transactional steps, on every store: what they write and their record are one commit."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.testing import fake
from tests.engine.places import Place, kinds, status_of, until, within

AT_ONCE = hf.Retry(max_attempts=3, initial=0.01)
LONG = """
WITH RECURSIVE counted(n) AS (
    SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1000000000
)
SELECT count(*) FROM counted
"""


class SoldOut(Exception):
    def __init__(self, seat: int) -> None:
        super().__init__(f"seat {seat} is taken")
        self.seat = seat


class Theatre:
    """A shop whose tables are in the database of its runs."""

    def __init__(self, app: hf.App) -> None:
        self.trouble: Callable[[hf.Transaction, int], object] = lambda _tx, _seat: None

        @app.transaction
        def open_shop(tx: hf.Transaction) -> None:
            tx.execute("CREATE TABLE IF NOT EXISTS shop_seats (seat INTEGER PRIMARY KEY, by_ TEXT)")

        @app.transaction(retry=AT_ONCE, raises=[SoldOut])
        def book(tx: hf.Transaction, seat: int, by: str = "ada") -> str:
            if tx.execute("SELECT 1 AS one FROM shop_seats WHERE seat = :seat", seat=seat):
                raise SoldOut(seat)
            tx.execute("INSERT INTO shop_seats VALUES (:seat, :by)", seat=seat, by=by)
            self.trouble(tx, seat)
            return hf.idempotency_key()

        @app.transaction
        def free(tx: hf.Transaction, ticket: str | None, seat: int) -> None:
            tx.execute("DELETE FROM shop_seats WHERE seat = :seat", seat=seat)

        @app.transaction
        def taken(tx: hf.Transaction) -> list[int]:
            rows = tx.execute("SELECT seat FROM shop_seats ORDER BY seat")
            return [row["seat"] for row in rows]

        @app.workflow
        async def sell(seats: list[int]) -> list[int]:
            await open_shop()
            for seat in seats:
                await book(seat)
            return await taken()

        self.open_shop, self.book, self.free, self.taken = open_shop, book, free, taken
        self.sell = sell


@pytest.fixture
def theatre(app: hf.App) -> Theatre:
    return Theatre(app)


async def test_a_step_and_its_rows_are_one_commit(
    place: Place, app: hf.App, theatre: Theatre
) -> None:
    async with place.open(app, paranoid=False) as client:
        run = await client.start(theatre.sell.bind([1]), id="first")
        await within(run.result())
        store = cast("Any", client.engine.store)
        before = store.transactions if place.kind != "memory" else 0
        run = await client.start(theatre.sell.bind([2, 3, 4, 5]), id="second")
        assert await within(run.result()) == [1, 2, 3, 4, 5]
        assert await kinds(run) == ["run.started", *["step.completed"] * 6, "run.completed"]
        if place.kind != "memory":
            # The start, six steps, the end; the rest is the worker's own.
            assert store.transactions - before <= 8 + 2


async def test_what_raises_leaves_nothing_and_is_tried_again(
    place: Place, app: hf.App, theatre: Theatre
) -> None:
    seen: list[int] = []

    def trouble(tx: hf.Transaction, seat: int) -> None:
        seen.append(hf.attempt())
        if hf.attempt() < 3:
            raise ConnectionError("away")

    theatre.trouble = trouble
    async with place.open(app) as client:
        run = await client.start(theatre.sell.bind([7]))
        assert await within(run.result()) == [7]
        assert seen == [1, 2, 3]
        assert (await kinds(run)).count("step.retrying") == 2


@pytest.mark.parametrize(
    "error",
    [StopIteration(), GeneratorExit(), asyncio.CancelledError()],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_one_raises_fails_only_that(
    place: Place, app: hf.App, theatre: Theatre, error: BaseException
) -> None:
    def trouble(tx: hf.Transaction, seat: int) -> None:
        if hf.attempt() == 1:
            raise error

    theatre.trouble = trouble
    async with place.open(app) as client:
        run = await client.start(theatre.sell.bind([7]))
        assert await within(run.result()) == [7]
        assert (await kinds(run)).count("step.retrying") == 1


async def test_an_error_that_is_named_crosses_as_itself(
    place: Place, app: hf.App, theatre: Theatre
) -> None:
    @app.workflow
    async def twice() -> str:
        await theatre.open_shop()
        await theatre.book(1)
        try:
            return await theatre.book.options(retry=hf.Retry(max_attempts=1))(1)
        except SoldOut as error:
            return f"sold out: {error.seat}, {await theatre.taken()}"

    async with place.open(app) as client:
        assert await within((await client.start(twice.bind())).result()) == "sold out: 1, [1]"


async def test_one_that_takes_too_long_is_undone(place: Place, app: hf.App) -> None:
    @app.transaction(timeout=0.05, retry=hf.Retry(max_attempts=1))
    def count(tx: hf.Transaction) -> int:
        tx.execute("CREATE TABLE shop_traces (n INTEGER)")
        return len(tx.execute(LONG))

    @app.transaction
    def traces(tx: hf.Transaction) -> None:
        tx.execute("SELECT n FROM shop_traces")

    @app.workflow
    async def counting() -> str:
        told = ""
        try:
            await count()
        except TimeoutError as error:
            told = str(error)
        try:
            await traces.options(retry=hf.Retry(max_attempts=1))()
        except hf.StepFailed as error:
            return f"{told} {error.type}"
        return "it left a trace"

    async with place.open(app) as client:
        told = await within((await client.start(counting.bind())).result())
        assert "took longer than 0.05 s, and was undone" in told
        assert told.endswith(("OperationalError", "UndefinedTableError"))


async def test_a_statement_that_ends_the_transaction_is_refused_at_once(
    place: Place, app: hf.App, theatre: Theatre
) -> None:
    theatre.trouble = lambda tx, _: tx.execute("COMMIT")
    async with place.open(app) as client:
        run = await client.start(theatre.sell.bind([1]), id="r")
        with pytest.raises(hf.RunFailed, match="begins with COMMIT"):
            await within(run.result())
        assert "step.retrying" not in await kinds(run)
        theatre.trouble = lambda _tx, _seat: None
        await run.retry()
        assert await within(run.result()) == [1], "the seat is free"


async def test_tables_of_ours_are_only_read(place: Place, app: hf.App, theatre: Theatre) -> None:
    if place.kind == "memory":
        return  # there are none to write to
    runs = "holdfast.runs" if place.kind == "postgres" else "runs"
    seen: list[Any] = []

    def meddle(tx: hf.Transaction, _: int) -> None:
        seen.append(tx.execute(f"SELECT count(*) AS n FROM {runs}"))
        tx.execute(f"UPDATE {runs} SET status = 'completed'")

    theatre.trouble = meddle
    async with place.open(app) as client:
        run = await client.start(theatre.sell.bind([1]))
        with pytest.raises(hf.RunFailed, match="would change a table of Holdfast's"):
            await within(run.result())
        assert seen == [[{"n": 1}]]


async def test_many_at_once_and_a_loser_that_is_stopped(
    place: Place, app: hf.App, theatre: Theatre
) -> None:
    stopped = asyncio.Event()

    @app.step
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @app.workflow
    async def racing() -> list[int]:
        await theatre.open_shop()
        slow = asyncio.ensure_future(endless())
        await asyncio.gather(*(theatre.book(n) for n in range(5)))
        slow.cancel()
        await hf.map(theatre.book, [10, 11])
        return await theatre.taken()

    async with place.open(app) as client:
        run = await client.start(racing.bind())
        assert await within(run.result()) == [0, 1, 2, 3, 4, 10, 11]
        await within(stopped.wait())


async def test_one_that_waits_for_the_commit_of_another_step_goes_on(
    place: Place, app: hf.App, theatre: Theatre
) -> None:
    """It was forgotten when a step ended right before it was its turn."""

    @app.step
    async def plain(n: int) -> int:
        for _ in range(n):
            await asyncio.sleep(0)
        return n

    @app.workflow
    async def mixed() -> int:
        await theatre.open_shop()
        await asyncio.gather(
            *(theatre.book(n) for n in range(5)), *(plain(n) for n in range(1, 60, 2))
        )
        return len(await theatre.taken())

    async with place.open(app, paranoid=False) as client:
        assert await within((await client.start(mixed.bind())).result()) == 5


async def test_an_undo_may_be_one(place: Place, app: hf.App, theatre: Theatre) -> None:
    @app.workflow
    async def undone() -> list[int]:
        await theatre.open_shop()
        try:
            async with hf.saga() as saga:
                await saga.do(theatre.book(1), undo=lambda ticket: theatre.free(ticket, 1))
                raise LookupError("no money")
        except LookupError:
            return await theatre.taken()

    async with place.open(app) as client:
        assert await within((await client.start(undone.bind())).result()) == []


async def test_a_rerun_really_runs_again(place: Place, app: hf.App, theatre: Theatre) -> None:
    async with place.open(app) as client:
        run = await client.start(theatre.sell.bind([1]), id="r")
        await within(run.result())
        await run.rerun("book#1")
        with pytest.raises(hf.RunFailed, match="seat 1 is taken"):
            await within(run.result())


async def test_what_it_says_is_in_the_log(place: Place, app: hf.App, theatre: Theatre) -> None:
    def say(_: hf.Transaction, seat: int) -> None:
        hf.log.info("booked %d", seat)
        hf.heartbeat(seat)

    theatre.trouble = say
    async with place.open(app) as client:
        run = await client.start(theatre.sell.bind([4]))
        await within(run.result())
        assert [line.message async for line in run.logs()] == ["booked 4"]


async def test_a_change_is_noted_after_one(place: Place, app: hf.App, theatre: Theatre) -> None:
    @app.workflow
    async def changing() -> bool:
        await theatre.open_shop()
        is_new = hf.patched("later")
        await theatre.book(1)
        return is_new

    async with place.open(app) as client:
        run = await client.start(changing.bind())
        assert await within(run.result()) is True
        assert await kinds(run) == [
            "run.started", "step.completed", "note.patched", "step.completed", "run.completed",
        ]  # fmt: skip


async def test_a_pause_and_a_signal_come_in_between(
    place: Place, app: hf.App, theatre: Theatre
) -> None:
    go = hf.Signal("go", int)

    @app.workflow
    async def waiting() -> list[int]:
        await theatre.open_shop()
        await theatre.book(await hf.wait_for(go))
        return await theatre.taken()

    async with place.open(app) as client:
        run = await client.start(waiting.bind())
        await status_of(run, "waiting")
        await run.pause()
        await status_of(run, "paused")
        await run.signal(go, 9)
        await run.resume()
        assert await within(run.result()) == [9]


async def test_a_fake_of_one_needs_no_database(place: Place, app: hf.App, theatre: Theatre) -> None:
    with (
        fake(theatre.open_shop, returns=None),
        fake(theatre.taken, returns=[5]),
        fake(theatre.book, does=lambda seat, by="ada": f"{by} has {seat}") as booked,
    ):
        async with place.open(app) as client:
            assert await within((await client.start(theatre.sell.bind([5]))).result()) == [5]
    assert [call.args for call in booked.calls] == [(5, "ada")]


async def test_runs_beside_it_go_on(place: Place, app: hf.App, theatre: Theatre) -> None:
    @app.step
    async def plain(n: int) -> int:
        return n

    @app.workflow
    async def beside(n: int) -> int:
        return await plain(n) + await plain(n)

    async with place.open(app) as client:
        await within((await client.start(theatre.sell.bind([]))).result())
        runs = [await client.start(theatre.sell.bind([n])) for n in range(10)]
        others = [await client.start(beside.bind(n)) for n in range(10)]
        assert await within(asyncio.gather(*(run.result() for run in others))) == [
            2 * n for n in range(10)
        ]
        await within(asyncio.gather(*(run.result() for run in runs)))
        last = await client.start(theatre.sell.bind([]))
        assert await within(last.result()) == [*range(10)]


async def test_another_worker_goes_on_from_what_is_recorded(
    place: Place, app: hf.App, theatre: Theatre
) -> None:
    go = hf.Signal("go", int)

    @app.workflow
    async def in_two_parts() -> list[int]:
        await theatre.open_shop()
        await theatre.book(1)
        await theatre.book(await hf.wait_for(go))
        return await theatre.taken()

    async with place.open(app) as client:
        await status_of(await client.start(in_two_parts.bind(), id="r"), "waiting")
    async with place.open(app) as client:
        run = client.get("r", in_two_parts)
        await run.signal(go, 2)
        assert await within(run.result()) == [1, 2]


def test_it_is_called_in_a_body_only(theatre: Theatre) -> None:
    with pytest.raises(hf.NotInBody, match=r"book\(\)"):
        asyncio.run(theatre.book(1))


def test_its_function_is_there_for_tests_of_it(theatre: Theatre) -> None:
    class Told:
        def __init__(self) -> None:
            self.asked: list[tuple[str, dict[str, Any]]] = []

        def execute(self, sql: str, /, **values: Any) -> list[dict[str, Any]]:
            self.asked.append((sql, values))
            return []

    told = Told()
    theatre.open_shop.plain(told)
    theatre.free.plain(told, None, 4)
    assert told.asked[-1] == ("DELETE FROM shop_seats WHERE seat = :seat", {"seat": 4})


def test_what_cannot_be_one_is_refused_where_it_is_written(app: hf.App, theatre: Theatre) -> None:
    async def later(tx: hf.Transaction) -> None: ...
    def bare() -> None: ...
    def again(tx: hf.Transaction) -> None: ...

    with pytest.raises(hf.BadDefinition, match="is an async def, and a transaction holds others"):
        app.transaction(later)
    with pytest.raises(hf.BadDefinition, match="has no parameter for its transaction"):
        app.transaction(cast("Any", bare))
    with pytest.raises(hf.BadDefinition, match="already has a step 'book'"):
        app.transaction(name="book")(again)


async def test_it_is_not_done_in_chunks(place: Place, app: hf.App, theatre: Theatre) -> None:
    @app.workflow
    async def all_of_them() -> list[str]:
        return await hf.map(theatre.book, [1, 2], chunk=2)

    async with place.open(app) as client:
        run = await client.start(all_of_them.bind())
        with pytest.raises(hf.RunFailed, match="is no transaction"):
            await within(run.result())


async def test_a_worker_that_drains_lets_it_end(
    place: Place, app: hf.App, theatre: Theatre
) -> None:
    async with place.open(app, drain=5.0) as client:
        run = await client.start(theatre.sell.bind([*range(50)]), id="r")
        await until(lambda: _has_begun(run))
    async with place.open(app) as client:
        assert await within(client.get("r", theatre.sell).result()) == [*range(50)]


async def _has_begun(run: hf.RunHandle[Any]) -> bool:
    return len((await run.history()).events) > 5
