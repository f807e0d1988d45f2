"""Rerun: a run goes back to a step and goes on anew; nothing is destroyed."""

import asyncio
from datetime import timedelta

import pytest

import holdfast as hf
from tests.engine.places import Place, event_of, kinds, status_of, until, within

ONCE = hf.Retry(max_attempts=1)
go = hf.Signal("go", int)


class Shop:
    """Steps that count their calls, with a price that can be changed in between."""

    def __init__(self, app: hf.App) -> None:
        self.calls: list[str] = []
        self.keys: list[str] = []
        self.price = 10

        @app.step
        async def look() -> int:
            self.calls.append("look")
            return self.price

        @app.step
        async def charge(price: int) -> int:
            self.calls.append(f"charge {price}")
            self.keys.append(hf.idempotency_key())
            return price * self.price

        @app.step
        async def ship(paid: int) -> str:
            self.calls.append(f"ship {paid}")
            return f"shipped for {paid}"

        @app.workflow
        async def order() -> str:
            return await ship(await charge(await look()))

        self.order = order


async def test_a_completed_run_goes_on_anew_from_a_step(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind())
        assert await within(run.result()) == "shipped for 100"
        shop.price = 7
        assert await run.rerun("charge#1") == ["charge#1", "ship#1"]
        assert await within(run.result()) == "shipped for 70"
        assert shop.calls == [
            "look", "charge 10", "ship 100", "charge 10", "ship 70",
        ]  # fmt: skip
        assert shop.keys == [f"default/{run.id}/1/charge#1", f"default/{run.id}/2/charge#1"]
        assert await kinds(run) == [
            "run.started", "step.completed", "run.reopened", "step.completed", "step.completed",
            "run.completed",
        ]  # fmt: skip


async def test_nothing_is_destroyed(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind())
        await within(run.result())
        before = (await client.engine.export(run.id)).events
        await run.rerun("ship#1", reason="the label was torn")
        await within(run.result())
        after = (await client.engine.export(run.id)).events
    reopened = after[len(before)]
    assert reopened.payload == b'{"from": "ship#1", "reason": "the label was torn", "anew": true}'
    assert [e._replace(superseded_by=None) for e in after[: len(before)]] == [*before]
    gone = [event.key or event.kind for event in after if event.superseded_by == reopened.seq]
    assert gone == ["ship#1", "run.completed"]


async def test_steps_may_keep_their_keys(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind())
        await within(run.result())
        for keep_keys in (True, True, False, True):
            await run.rerun("charge#1", keep_keys=keep_keys)
            await within(run.result())
        assert (await run.describe()).generation == 5
    assert [key.split("/")[2] for key in shop.keys] == ["1", "1", "1", "4", "4"]


async def test_a_rerun_from_the_start_runs_all_of_it(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind())
        await within(run.result())
        shop.price = 2
        assert await run.rerun() == ["look#1", "charge#1", "ship#1"]
        assert await within(run.result()) == "shipped for 4"


async def test_a_repeat_under_one_id_changes_nothing(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind())
        await within(run.result())
        assert await run.rerun("ship#1", id="once") == ["ship#1"]
        await within(run.result())
        assert await run.rerun("ship#1", id="once") == []
        assert (await run.describe()).generation == 2


async def test_an_unknown_key_names_those_there_are(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        run = await client.start(shop.order.bind())
        await within(run.result())
        with pytest.raises(hf.UnknownKey, match=r"mean 'charge#1'.* look#1, charge#1, ship#1"):
            await run.rerun("charge#2")
        assert (await run.describe()).status == "completed"


async def test_siblings_asked_for_before_stay(place: Place, app: hf.App) -> None:
    calls: list[str] = []

    @app.step
    async def work(name: str) -> str:
        calls.append(name)
        return name

    async def branch(name: str) -> str:
        return await work(name) + await work(f"{name}{name}")

    @app.workflow
    async def flow() -> list[str]:
        return list(await asyncio.gather(branch("a"), branch("b")))

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == ["aaa", "bbb"]
        calls.clear()
        await run.rerun("branch[1]/work#1")
        assert await within(run.result()) == ["aaa", "bbb"]
    assert sorted(calls) == ["a", "aa", "bb"], "the sibling `b` was asked for with `a`"


async def test_an_open_run_is_taken_from_its_holder(place: Place, app: hf.App) -> None:
    began: list[str] = []
    gate = asyncio.Event()

    @app.step
    async def quick() -> int:
        began.append("quick")
        return len(began)

    @app.step
    async def slow(n: int) -> int:
        began.append(f"slow {n}")
        await gate.wait()
        return n

    @app.workflow
    async def flow() -> int:
        return await slow(await quick())

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await event_of(run, "step.started")
        assert await run.rerun("quick#1") == ["quick#1"]
        await until(lambda: len(began) == 4)
        gate.set()
        assert await within(run.result()) == 3
    assert began == ["quick", "slow 1", "quick", "slow 3"]


async def test_a_step_between_two_attempts_begins_with_the_first_again(
    place: Place, app: hf.App
) -> None:
    attempts: list[int] = []
    broken = True

    @app.step(retry=hf.Retry(max_attempts=3, initial=90))
    async def flaky() -> int:
        attempts.append(hf.attempt())
        if broken:
            raise ValueError("not now")
        return 1

    @app.workflow
    async def flow() -> int:
        return await flaky()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await event_of(run, "step.retrying")
        broken = False
        await run.rerun("flaky#1")
        assert await within(run.result()) == 1
    assert attempts == [1, 1]


async def test_signals_come_again_in_their_order(place: Place, app: hf.App) -> None:
    @app.step
    async def first() -> int:
        return 0

    @app.workflow
    async def flow() -> list[int]:
        found = [await first()]
        found += [await hf.wait_for(go) for _ in range(3)]
        return found

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        for n in (1, 2, 3):
            await run.signal(go, n, id=f"s{n}")
        assert await within(run.result()) == [0, 1, 2, 3]
        await run.rerun("first#1")
        assert await within(run.result()) == [0, 1, 2, 3]
        history = (await run.history()).events
        assert [e.key for e in history if e.kind == "signal.received"] == [
            "go/s1",
            "go/s2",
            "go/s3",
        ]


async def test_a_cancelled_run_goes_on_as_if_nobody_had_cancelled_it(
    place: Place, app: hf.App
) -> None:
    @app.step
    async def first() -> int:
        return 1

    @app.workflow
    async def flow() -> int:
        return await first() + await hf.wait_for(go)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await event_of(run, "step.completed")
        await run.cancel()
        with pytest.raises(hf.RunCancelled):
            await within(run.result())
        await run.rerun("first#1")
        await run.signal(go, 1)
        assert await within(run.result()) == 2


async def test_a_paused_run_goes_on(place: Place, app: hf.App) -> None:
    @app.step
    async def first() -> int:
        return 1

    @app.workflow
    async def flow() -> int:
        value = await first()
        await hf.wait_for(go)
        return value

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await event_of(run, "step.completed")
        await run.pause()
        await status_of(run, "paused")
        await run.rerun("first#1")
        await run.signal(go, 1)
        assert await within(run.result()) == 1


async def test_a_terminated_run_goes_on(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app, worker=False) as client:
        run = await client.start(shop.order.bind())
        await run.terminate()
        await run.rerun()
    async with place.open(app) as client:
        assert await within(client.get(run.id, shop.order).result()) == "shipped for 100"


async def test_a_timer_is_a_place_to_go_back_to(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    ship = app.steps["ship"]

    @app.workflow
    async def flow() -> str:
        await hf.sleep(timedelta(milliseconds=1))
        return str(await ship(1))

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.result())
        assert await run.rerun("timer#1") == ["timer#1", "ship#1"]
        await within(run.result())
    assert shop.calls == ["ship 1", "ship 1"]


async def test_what_a_saga_has_undone_is_done_again(place: Place, app: hf.App) -> None:
    calls: list[str] = []
    broken = True

    @app.step
    async def book(what: str) -> str:
        calls.append(f"book {what}")
        return what

    @app.step
    async def release(what: str | None) -> None:
        calls.append(f"release {what}")

    @app.step(retry=ONCE)
    async def pay() -> int:
        calls.append("pay")
        if broken:
            raise ValueError("no money")
        return 1

    @app.workflow
    async def trip() -> int:
        await book("before")
        async with hf.saga() as saga:
            await saga.do(book("hotel"), undo=release)
            await saga.do(book("flight"), undo=release)
            return await pay()

    async with place.open(app) as client:
        run = await client.start(trip.bind())
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        calls.clear()
        broken = False
        gone = await run.rerun("pay#1")
        assert gone[:3] == ["book#2", "book#3", "pay#1"]
        assert await within(run.result()) == 1
    assert calls == ["book hotel", "book flight", "pay"]


async def test_an_undo_can_be_run_again_by_itself(place: Place, app: hf.App) -> None:
    calls: list[str] = []

    @app.step
    async def book() -> str:
        calls.append("book")
        return "hotel"

    @app.step
    async def release(what: str | None) -> None:
        calls.append(f"release {what}")

    @app.workflow
    async def trip() -> None:
        async with hf.saga() as saga:
            await saga.do(book(), undo=release)
            raise ValueError("after all")

    async with place.open(app) as client:
        run = await client.start(trip.bind())
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        await run.rerun("undo(book#1)/release#1")
        with pytest.raises(hf.RunFailed):
            await within(run.result())
    assert calls == ["book", "release hotel", "release hotel"]


async def test_a_change_noted_in_the_turn_of_a_sibling_stays(place: Place, app: hf.App) -> None:
    paths: list[str] = []

    @app.step
    async def work(name: str) -> str:
        return name

    async def branch(name: str) -> None:
        await work(name)
        if name == "b":
            paths.append("new" if hf.patched("x") else "old")
            await work("c")

    @app.workflow
    async def flow() -> None:
        await asyncio.gather(branch("a"), branch("b"))

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.result())
        await run.rerun("branch[1]/work#1")
        await within(run.result())
    assert set(paths) == {"new"}


async def test_the_latest_code_is_used_after_the_cut(place: Place, app: hf.App) -> None:
    newest = 1

    @app.step
    async def work() -> int:
        return newest

    @app.workflow
    async def flow() -> int:
        await work()
        return hf.get_version("x", 1, newest)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == 1
        newest = 2
        await run.rerun("work#1")
        assert await within(run.result()) == 2
