"""Signals: typed, kept, ordered, never doubled, never lost, refused by a closed run."""

import asyncio
import logging
from typing import Any

import pytest
from pydantic import BaseModel

import holdfast as hf
from tests.engine.places import Place, event_of, kinds, status_of, within


class Approval(BaseModel):
    by: str
    amount: int


approved = hf.Signal("approved", Approval)
number = hf.Signal("number", int)


async def test_a_signal_carries_its_type(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> Approval:
        got = await hf.wait_for(approved)
        assert isinstance(got, Approval)
        return got

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        row = await status_of(run, "waiting")
        assert row.reason == "signal approved"
        assert await run.signal(approved, Approval(by="ann", amount=3))
        assert await within(run.result()) == Approval(by="ann", amount=3)


async def test_a_signal_that_came_before_the_wait_is_kept(place: Place, app: hf.App) -> None:
    @app.step
    async def work() -> None:
        pass

    @app.workflow
    async def flow() -> list[int]:
        await hf.wait_for(hf.Signal("go", bool))
        await work()
        return [await hf.wait_for(number) for _ in range(3)]

    async with place.open(app, worker=False) as client:
        run = await client.start(flow.bind())
        for n in (3, 1, 2):
            await run.signal(number, n)
        await run.signal("go", True)
    async with place.open(app) as client:
        assert await within(client.get(run.id).result()) == [3, 1, 2]


async def test_signals_are_read_in_the_order_they_were_accepted(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow(count: int) -> list[int]:
        return [await hf.wait_for(number) for _ in range(count)]

    async with place.open(app, paranoid=False) as client:
        run = await client.start(flow.bind(50))
        for n in range(50):
            await run.signal(number, n)
        assert await within(run.result()) == list(range(50))


async def test_a_signal_with_an_id_counts_once(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> list[int]:
        return [await hf.wait_for(number), await hf.wait_for(number)]

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await run.signal(number, 1, id="one")
        assert not await run.signal(number, 1, id="one")
        await event_of(run, "signal.received")
        assert not await run.signal(number, 1, id="one"), "read already, and still known"
        assert await run.signal(number, 2, id="two")
        assert await within(run.result()) == [1, 2]
        assert not await run.signal(number, 2, id="two"), "a repeat after the close is no error"


async def test_many_senders_lose_nothing(place: Place, app: hf.App) -> None:
    @app.step
    async def note(n: int) -> int:
        return n

    @app.workflow
    async def flow(count: int) -> list[int]:
        return [await note(await hf.wait_for(number)) for _ in range(count)]

    async with place.open(app, paranoid=False, machines=0, keep=0) as client:
        run = await client.start(flow.bind(40))
        await asyncio.gather(*(run.signal(number, n) for n in range(40)))
        assert sorted(await within(run.result())) == list(range(40))


async def test_a_closed_run_refuses_signals(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> int:
        return 1

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.result())
        with pytest.raises(hf.RunClosed):
            await run.signal(number, 1)
        with pytest.raises(hf.RunNotFound):
            await client.get("nobody").signal(number, 1)


async def test_a_malformed_signal_is_dropped_with_a_warning(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.workflow
    async def flow() -> int:
        return await hf.wait_for(number)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "waiting")
        with caplog.at_level(logging.WARNING):
            await run.signal("number", {"not": "a number"}, id="bad")
            await event_of(run, "signal.received")
        await run.signal(number, 5)
        assert await within(run.result()) == 5
    assert any("message bad" in m and "dropped" in m for m in caplog.messages)


async def test_a_signal_of_the_wrong_type_is_refused_by_the_sender(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def flow() -> int:
        return await hf.wait_for(number)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.HoldfastError, match="signal number"):
            await run.signal(number, "five")  # type: ignore[misc]
        assert "signal.received" not in await kinds(run)
        await run.terminate()


async def test_waiting_ends_with_its_timeout(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> str:
        try:
            await hf.wait_for(number, timeout=0.02)
        except TimeoutError:
            return "nobody came"
        return "somebody came"

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == "nobody came"
        assert await kinds(run) == ["run.started", "timer.fired", "run.completed"]


async def test_a_signal_in_time_leaves_no_timer(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> int:
        return await hf.wait_for(number, timeout=60)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert (await status_of(run, "waiting")).wake_at is not None
        await run.signal(number, 7)
        assert await within(run.result()) == 7
        assert await kinds(run) == ["run.started", "signal.received", "run.completed"]


@pytest.mark.parametrize("machines", [0, 100], ids=["evicted", "kept"])
async def test_a_waiting_run_goes_on_after_a_restart(
    place: Place, app: hf.App, machines: int
) -> None:
    @app.step
    async def work(n: int) -> int:
        return n

    @app.workflow
    async def flow() -> list[int]:
        return [await work(await hf.wait_for(number)) for _ in range(3)]

    async with place.open(app, machines=machines) as client:
        run = await client.start(flow.bind(), id="waits")
        await run.signal(number, 1)
        await event_of(run, "step.completed")
    async with place.open(app, worker=False) as client:
        await client.get("waits").signal(number, 2)
    async with place.open(app, machines=machines) as client:
        again = client.get("waits", flow)
        await again.signal(number, 3)
        assert await within(again.result()) == [1, 2, 3]


async def test_a_signal_while_a_step_runs_is_recorded_beside_it(place: Place, app: hf.App) -> None:
    began, release = asyncio.Event(), asyncio.Event()

    @app.step
    async def work() -> int:
        began.set()
        await release.wait()
        return 1

    @app.workflow
    async def flow() -> Any:
        result, got = await asyncio.gather(work(), hf.wait_for(number))
        return [result, got]

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(began.wait())
        await run.signal(number, 2)
        await event_of(run, "signal.received")
        release.set()
        assert await within(run.result()) == [1, 2]
        assert (await kinds(run))[1:3] == ["signal.received", "step.completed"]
