"""Child runs on every store: awaited, started, given up, left alone, retried."""

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.commands import ImportRun
from tests.engine.places import Place, event_of, kinds, status_of, until, within

go = hf.Signal("go", int)
ONCE = hf.Retry(max_attempts=1)


class Shop:
    """Orders that ship by child runs; what ships is counted, and can be broken."""

    def __init__(self, app: hf.App) -> None:
        self.shipped: list[str] = []
        self.broken: set[str] = set()

        @app.step(retry=ONCE)
        async def pack(what: str) -> str:
            self.shipped.append(what)
            if what in self.broken:
                raise ConnectionError(f"no {what}")
            return f"{what} packed"

        @app.workflow
        async def ship(what: str) -> str:
            return await pack(what)

        @app.workflow
        async def hold(what: str) -> int:
            try:
                return await hf.wait_for(go)
            except asyncio.CancelledError:
                await pack(f"{what} cancelled")
                raise

        self.pack, self.ship, self.hold = pack, ship, hold


@pytest.fixture
def shop(app: hf.App) -> Shop:
    return Shop(app)


async def test_a_child_gives_its_result(place: Place, app: hf.App, shop: Shop) -> None:
    @app.workflow
    async def order(what: str) -> list[str]:
        first = await shop.ship(what)
        return [first, *await asyncio.gather(shop.ship("b"), shop.ship("c"))]

    async with place.open(app) as client:
        run = await client.start(order.bind("a"), id="o")
        assert await within(run.result()) == ["a packed", "b packed", "c packed"]
        child = client.get("o/ship#1", shop.ship)
        assert await within(child.result()) == "a packed"
        assert (await kinds(run))[:3] == ["run.started", "child.started", "child.closed"]
    assert sorted(shop.shipped) == ["a", "b", "c"]


async def test_the_failure_of_a_child_is_caught(place: Place, app: hf.App, shop: Shop) -> None:
    shop.broken = {"lamp"}

    @app.workflow
    async def order(what: str) -> list[str]:
        try:
            await shop.ship(what)
        except hf.ChildFailed as failed:
            return [failed.child, failed.key, failed.status, failed.type, failed.message]
        return []

    async with place.open(app) as client:
        run = await client.start(order.bind("lamp"), id="o")
        told = await within(run.result())
        assert told[:4] == ["o/ship#1", "ship#1", "failed", "StepFailed"]
        assert "no lamp" in told[4]


async def test_a_failure_that_is_not_caught_fails_the_parent(
    place: Place, app: hf.App, shop: Shop
) -> None:
    shop.broken = {"lamp"}

    @app.workflow
    async def order(what: str) -> str:
        return await shop.ship(what)

    async with place.open(app) as client:
        run = await client.start(order.bind("lamp"), id="o")
        with pytest.raises(hf.RunFailed, match="Child o/ship#1 ended as failed"):
            await within(run.result())


async def test_a_parent_waits_without_a_worker(place: Place, app: hf.App, shop: Shop) -> None:
    @app.workflow
    async def order() -> int:
        return await shop.hold("x")

    async with place.open(app, keep=0) as client:
        run = await client.start(order.bind(), id="o")
        await status_of(run, "waiting")
        assert (await run.describe()).reason == "child o/hold#1"
        await client.get("o/hold#1").signal(go, 7)
        assert await within(run.result()) == 7


async def test_a_started_child_is_stored_with_the_turn(
    place: Place, app: hf.App, shop: Shop
) -> None:
    @app.workflow
    async def order() -> tuple[str, int]:
        child = await hf.start_child(shop.hold.bind("x"), id="held")
        packed = await shop.pack(child.id)
        child.signal(go, 3)
        assert packed == "held packed"
        return child.id, await child.result()

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        assert await within(run.result()) == ("held", 3)
        assert (await kinds(client.get("held"))).count("signal.received") == 1


async def test_a_result_that_came_before_it_is_awaited_counts(
    place: Place, app: hf.App, shop: Shop
) -> None:
    @app.workflow
    async def order() -> list[str]:
        child = await hf.start_child(shop.ship.bind("x"))
        await hf.wait_for(go)
        return [await child.result(), await child.result()]

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        await event_of(run, "child.closed")
        await run.signal(go, 1)
        assert await within(run.result()) == ["x packed", "x packed"]


async def test_a_child_that_is_given_up_is_cancelled(place: Place, app: hf.App, shop: Shop) -> None:
    @app.workflow
    async def order() -> str:
        try:
            async with asyncio.timeout(0.05):
                await shop.hold("x")
        except TimeoutError:
            return "late"
        return "?"

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        assert await within(run.result()) == "late"
        await status_of(client.get("o/hold#1"), "terminated")
        mail = (await client.get("o/hold#1").history()).mail
        assert [message.kind for message in mail] == ["cancel"]


async def test_cancelling_flows_down(place: Place, app: hf.App, shop: Shop) -> None:
    @app.workflow
    async def order() -> str:
        try:
            await shop.hold("x")
        except asyncio.CancelledError:
            await asyncio.shield(hf.wait_for(go))
        return "cleaned up"

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        await event_of(run, "child.started")
        await run.cancel()
        child = client.get("o/hold#1")
        with pytest.raises(hf.RunCancelled):
            await within(child.result())
        assert shop.shipped == ["x cancelled"]
        await event_of(run, "child.closed")
        await run.signal(go, 1)
        assert await within(run.result()) == "cleaned up"


@pytest.mark.parametrize(
    ("policy", "ends"), [("terminate", "terminated"), ("cancel", "cancelled"), ("abandon", "")]
)
async def test_what_becomes_of_a_child_when_its_parent_closes(
    place: Place, app: hf.App, shop: Shop, policy: Any, ends: str
) -> None:
    @app.workflow
    async def order() -> str:
        await hf.start_child(shop.hold.bind("x"), id="x", on_parent_close=policy)
        return "done"

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        assert await within(run.result()) == "done"
        child = client.get("x", shop.hold)
        if not ends:
            await child.signal(go, 5)
            assert await within(child.result()) == 5
        else:
            await status_of(child, ends)


async def test_terminating_a_parent_ends_all_below(place: Place, app: hf.App, shop: Shop) -> None:
    @app.workflow
    async def middle() -> int:
        return await shop.hold("x")

    @app.workflow
    async def order() -> int:
        return await middle()

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        below = client.get("o/middle#1/hold#1")
        await event_of(run, "child.started")
        await event_of(client.get("o/middle#1"), "child.started")
        await run.terminate("enough")
        assert (await client.get("o/middle#1").describe()).status == "terminated"
        assert (await below.describe()).status == "terminated"
        assert shop.shipped == []


async def test_terminating_a_child_is_its_failure(place: Place, app: hf.App, shop: Shop) -> None:
    @app.workflow
    async def order() -> str:
        try:
            await shop.hold("x")
        except hf.ChildFailed as failed:
            return f"{failed.status}: {failed.message}"
        return ""

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        await event_of(run, "child.started")
        await client.get("o/hold#1").terminate("tired")
        assert await within(run.result()) == "terminated: tired"


async def test_a_child_that_is_late_is_a_failure(place: Place, app: hf.App, shop: Shop) -> None:
    @app.workflow
    async def order() -> str:
        try:
            await shop.hold.options(timeout=0.05)("x")
        except hf.ChildFailed as failed:
            return failed.status
        return ""

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        assert await within(run.result()) == "timed_out"


async def test_an_id_that_is_taken_is_refused(place: Place, app: hf.App, shop: Shop) -> None:
    @app.workflow
    async def order() -> list[str]:
        told: list[str] = []
        bound = shop.ship.bind("b")
        for call in (shop.ship.options(id="taken")("b"), hf.start_child(bound, id="taken")):
            try:
                await call
            except hf.ChildFailed as failed:
                told.append(f"{failed.status} {type(failed.__cause__).__name__}")
        return [*told, await shop.ship("c")]

    async with place.open(app) as client:
        await within((await client.start(shop.ship.bind("a"), id="taken")).result())
        run = await client.start(order.bind(), id="o")
        refused = "refused RunConflict"
        assert await within(run.result()) == [refused, refused, "c packed"]
        assert shop.shipped == ["a", "c"]


async def test_two_open_children_cannot_have_one_id(place: Place, app: hf.App, shop: Shop) -> None:
    @app.workflow
    async def order() -> list[str]:
        call = shop.ship.options(id="one")
        found = await asyncio.gather(call("a"), call("a"), return_exceptions=True)
        again = await call("a")
        return [each if isinstance(each, str) else type(each).__name__ for each in [*found, again]]

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        assert await within(run.result()) == ["a packed", "ChildFailed", "a packed"]
        assert shop.shipped == ["a"]


async def test_a_retried_parent_starts_a_failed_child_anew(
    place: Place, app: hf.App, shop: Shop
) -> None:
    shop.broken = {"b"}

    @app.workflow
    async def order() -> list[str]:
        return [await shop.ship("a"), await shop.ship("b")]

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        shop.broken.clear()
        await run.retry()
        assert await within(run.result()) == ["a packed", "b packed"]
        assert shop.shipped == ["a", "b", "b"]
        assert (await client.get("o/ship#2@2").describe()).status == "completed"
        assert (await client.get("o/ship#2").describe()).status == "failed"


async def test_a_retried_child_does_not_tell_twice(place: Place, app: hf.App, shop: Shop) -> None:
    shop.broken = {"a"}

    @app.workflow
    async def order() -> str:
        try:
            await shop.ship("a")
        except hf.ChildFailed:
            await hf.wait_for(go)
        return "went on"

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        await event_of(run, "child.closed")
        shop.broken.clear()
        child = client.get("o/ship#1", shop.ship)
        await child.retry()
        assert await within(child.result()) == "a packed"
        await run.signal(go, 1)
        assert await within(run.result()) == "went on"
        assert (await kinds(run)).count("child.closed") == 1


async def test_a_retried_parent_finds_what_it_left_alone(
    place: Place, app: hf.App, shop: Shop
) -> None:
    """Its end was told while nobody listened: it is told again."""
    shop.broken = {"b"}

    @app.workflow
    async def order() -> list[str]:
        child = await hf.start_child(shop.hold.bind("x"), on_parent_close="abandon")
        packed = await shop.pack("b")
        return [packed, str(await child.result())]

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        await client.get("o/hold#1").signal(go, 9)
        await within(client.get("o/hold#1").result())
        shop.broken.clear()
        await run.retry()
        assert await within(run.result()) == ["b packed", "9"]


async def test_children_may_not_go_too_deep(place: Place, app: hf.App) -> None:
    @app.workflow
    async def deep(n: int) -> int:
        try:
            return await deep(n + 1)
        except hf.TooDeep as error:
            return error.depth

    async with place.open(app) as client:
        run = await client.start(deep.bind(0), id="o")
        assert await within(run.result()) == 33


async def test_a_workflow_called_outside_a_body_is_its_function(app: hf.App, shop: Shop) -> None:
    assert await shop.ship("a") == "a packed"
    assert await shop.ship.options(id="x")("b") == "b packed"


async def test_a_rerun_starts_its_children_anew(place: Place, app: hf.App, shop: Shop) -> None:
    @app.workflow
    async def order() -> list[str]:
        first = await shop.ship("a")
        return [first, *await asyncio.gather(shop.ship("b"), shop.ship("c"))]

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        expected = ["a packed", "b packed", "c packed"]
        assert await within(run.result()) == expected
        await run.rerun(from_="ship#2")
        assert await within(run.result()) == expected
        assert sorted(shop.shipped) == ["a", "b", "b", "c"]
        assert (await client.get("o/ship#2@2").describe()).status == "completed"
        await run.rerun(from_="ship#1", keep_keys=True)
        assert await within(run.result()) == expected


async def test_a_rerun_stops_the_children_it_takes_back(
    place: Place, app: hf.App, shop: Shop
) -> None:
    @app.workflow
    async def order() -> int:
        await shop.pack("a")
        return await shop.hold("x")

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        await event_of(run, "child.started")
        await run.rerun(from_="pack#1")
        with pytest.raises(hf.RunCancelled):
            await within(client.get("o/hold#1").result())
        await event_of(run, "child.started")
        await status_of(client.get("o/hold#1@2"), "waiting")
        await client.get("o/hold#1@2").signal(go, 4)
        assert await within(run.result()) == 4


async def test_a_child_that_continues_stays_a_child(place: Place, app: hf.App, shop: Shop) -> None:
    @app.workflow
    async def counts(n: int) -> int:
        await shop.pack(str(n))
        await hf.start_child(shop.hold.bind(str(n)))
        return n if n == 2 else hf.continue_as_new(counts.bind(n + 1))

    @app.workflow
    async def order() -> int:
        return await counts(0)

    async with place.open(app) as client:
        run = await client.start(order.bind(), id="o")
        assert await within(run.result()) == 2
        for id in ("o/counts#1/hold#1", "o/counts#1/hold#1@2", "o/counts#1/hold#1@3"):
            assert (await client.get(id).describe()).status == "terminated"


async def test_an_imported_parent_starts_its_children_here(
    place: Place, app: hf.App, shop: Shop
) -> None:
    @app.workflow
    async def order() -> int:
        return await shop.hold("x")

    async with app.open("memory://", settings=hf.Settings(keep=0)) as elsewhere:
        run = await elsewhere.start(order.bind(), id="o")
        await status_of(run, "waiting")
        export = await elsewhere.engine.export("o")
    async with place.open(app) as client:
        command = ImportRun(client.engine.ns, "o", export, client.engine.store.now())
        await client.engine.do(command)
        await client.get("o").resume()

        async def is_there() -> bool:
            return len((await client.list()).runs) == 2

        await until(is_there)
        await client.get("o/hold#1").signal(go, 6)
        assert await within(client.get("o", order).result()) == 6
