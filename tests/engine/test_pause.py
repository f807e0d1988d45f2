"""Pause: running steps finish and are recorded, nothing new starts, timers fire on resume."""

import asyncio

import pytest

import holdfast as hf
from tests.engine.places import Place, event_of, kinds, status_of, within

go = hf.Signal("go", bool)


async def test_a_running_step_finishes_and_nothing_new_starts(place: Place, app: hf.App) -> None:
    began, release = asyncio.Event(), asyncio.Event()
    calls: list[int] = []

    @app.step
    async def work(n: int) -> int:
        calls.append(n)
        began.set()
        await release.wait()
        return n

    @app.workflow
    async def flow() -> int:
        return await work(1) + await work(2)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(began.wait())
        await run.pause("for lunch")
        await event_of(run, "run.paused")
        assert (await run.describe()).status == "running", "its step still runs"
        release.set()
        row = await status_of(run, "paused")
        assert row.owner is None
        assert await kinds(run) == ["run.started", "run.paused", "step.completed"]
        assert calls == [1]
        await run.resume()
        assert await within(run.result()) == 3
    assert calls == [1, 2]


async def test_a_paused_run_stays_paused_through_restarts_and_signals(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def flow() -> bool:
        return await hf.wait_for(go)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await run.pause()
        await status_of(run, "paused")
    async with place.open(app) as client:
        again = client.get(run.id, flow)
        await again.signal(go, True)
        probe = await client.start(flow.bind(), id="probe")
        await status_of(probe, "waiting")
        assert (await again.describe()).status == "paused"
        await again.resume()
        assert await within(again.result())


async def test_a_timer_that_was_due_fires_on_resume(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        await hf.sleep(0.3)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await run.pause()
        await status_of(run, "paused")
        await asyncio.sleep(0.35)  # past the timer
        assert "timer.fired" not in await kinds(run)
        await run.resume()
        await within(run.result())
        assert (await kinds(run))[-3:] == ["run.resumed", "timer.fired", "run.completed"]


async def test_a_retry_that_was_due_runs_on_resume(place: Place, app: hf.App) -> None:
    failed = asyncio.Event()
    numbers: list[int] = []

    @app.step(retry=hf.Retry(max_attempts=3, initial=0.5, jitter=False))
    async def flaky() -> int:
        numbers.append(hf.attempt())
        if hf.attempt() == 1:
            failed.set()
            raise ValueError
        return hf.attempt()

    @app.workflow
    async def flow() -> int:
        return await flaky()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await event_of(run, "step.retrying")
        await run.pause()
        await status_of(run, "paused")
        await asyncio.sleep(0.55)  # past the back-off
        assert numbers == [1]
        await run.resume()
        assert await within(run.result()) == 2


async def test_only_a_paused_run_is_resumed(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> bool:
        return await hf.wait_for(go)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "waiting")
        with pytest.raises(hf.IllegalMove, match="resume"):
            await run.resume()
        await run.signal(go, True)
        await within(run.result())
        with pytest.raises(hf.RunClosed):
            await run.resume()
        with pytest.raises(hf.RunClosed):
            await run.pause()


async def test_pausing_twice_takes_one_resume(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> bool:
        return await hf.wait_for(go)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await run.pause()
        await status_of(run, "paused")
        await run.pause()
        await run.resume()
        assert (await status_of(run, "waiting", "paused")).status == "waiting"
        await run.signal(go, True)
        assert await within(run.result())


async def test_a_run_is_paused_before_any_worker_saw_it(place: Place, app: hf.App) -> None:
    calls: list[int] = []

    @app.step
    async def work() -> None:
        calls.append(1)

    @app.workflow
    async def flow() -> None:
        await work()

    async with place.open(app, worker=False) as client:
        run = await client.start(flow.bind())
        await run.pause()
    async with place.open(app) as client:
        again = client.get(run.id)
        await status_of(again, "paused")
        assert calls == []
        await again.resume()
        await within(again.result())
    assert calls == [1]


async def test_a_paused_run_is_terminated(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> bool:
        return await hf.wait_for(go)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await run.pause()
        await status_of(run, "paused")
        await run.terminate("enough")
        with pytest.raises(hf.RunTerminated):
            await within(run.result())
        with pytest.raises(hf.RunClosed):
            await run.resume()
