"""Timers: to the millisecond, never early, through restarts; and plain asyncio in bodies."""

import asyncio
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, event_of, kinds, status_of, within


async def test_a_timer_never_fires_early(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> list[datetime]:
        times = [hf.now()]
        for _ in range(5):
            await hf.sleep(0.013)
            times.append(hf.now())
        return times

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        times = await within(run.result())
        fired = [e for e in (await run.history()).events if e.kind == "timer.fired"]
    for before, after in pairwise(times):
        assert after - before >= timedelta(milliseconds=13)
    assert len(fired) == 5
    assert all(event.at >= int(event.payload or b"0") for event in fired)


async def test_a_timer_survives_a_restart(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> float:
        began = hf.now()
        await hf.sleep(0.1)
        return (hf.now() - began).total_seconds()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
    async with place.open(app) as client:
        assert 0.1 <= await within(client.get(run.id).result()) < 5
        assert await kinds(client.get(run.id)) == ["run.started", "timer.fired", "run.completed"]


async def test_a_timer_that_was_due_while_nobody_worked_fires_at_once(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def flow() -> None:
        await hf.sleep(0.5)

    async with place.open(app, keep=0) as client:
        run = await client.start(flow.bind())
        row = await status_of(run, "waiting")
    await asyncio.sleep(0.55)  # longer than the timer, while no worker is there
    async with place.open(app) as client:
        event = await event_of(client.get(run.id), "timer.fired")
        assert row.wake_at == int(event.payload or b"0")
        assert event.at >= row.wake_at


@pytest.mark.parametrize("keep", [0, 5.0], ids=["parked", "held"])
async def test_a_parked_timer_is_as_exact_as_a_held_one(
    place: Place, app: hf.App, keep: float
) -> None:
    @app.workflow
    async def flow() -> None:
        await hf.sleep(0.1)

    async with place.open(app, keep=keep, poll=30, paranoid=False) as client:
        run = await client.start(flow.bind())
        event = await event_of(run, "timer.fired")
    assert 0 <= event.at - int(event.payload or b"0") < 500_000


async def test_a_long_timer_parks_the_run(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        await hf.sleep(timedelta(days=365))

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        row = await status_of(run, "waiting")
        assert row.wake_at == row.created_at + 365 * 86_400_000_000
        assert row.owner is None


async def test_now_is_recorded_time(place: Place, app: hf.App) -> None:
    @app.step
    async def work() -> None:
        pass

    @app.workflow
    async def flow() -> list[datetime]:
        first = hf.now()
        await work()
        return [first, hf.now()]

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        result = await within(run.result())
        started, completed, _ = (await run.history()).events
    assert [round(t.timestamp() * 1e6) for t in result] == [started.at, completed.at]
    assert all(t.utcoffset() == timedelta(0) for t in result)


async def test_chance_and_identity_are_the_same_after_a_restart(place: Place, app: hf.App) -> None:
    seen: list[str] = []
    go = hf.Signal("go", bool)

    @app.workflow
    async def flow() -> str:
        drawn = f"{hf.random().random()} {hf.uuid()}"
        seen.append(drawn)
        await hf.wait_for(go)
        return drawn

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "waiting")
    async with place.open(app) as client:
        await client.get(run.id).signal(go, True)
        assert await within(client.get(run.id).result()) == seen[0]
    assert len(seen) > 1
    assert len(set(seen)) == 1


def asyncio_bodies(app: hf.App) -> dict[str, tuple[Any, Any]]:
    """Return bodies of plain asyncio by name, each with its result."""

    @app.step
    async def work(n: int) -> int:
        return n

    @app.step
    async def never() -> int:
        await asyncio.Event().wait()
        return 0

    async def sleeps() -> int:
        await asyncio.sleep(0.01)
        return await work(1)

    async def times_out() -> str:
        try:
            async with asyncio.timeout(0.01):
                await never()
        except TimeoutError:
            return "late"
        return ""

    async def waits_for() -> str:
        try:
            await asyncio.wait_for(never(), 0.01)
        except TimeoutError:
            return "late"
        return ""

    async def gathers() -> list[int]:
        return await asyncio.gather(*(work(n) for n in range(5)))

    async def groups() -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work(n)) for n in range(3)]
        return [task.result() for task in tasks]

    async def locks() -> list[int]:
        lock, order = asyncio.Lock(), list[int]()

        async def one(n: int) -> None:
            async with lock:
                order.append(await work(n))
                await asyncio.sleep(0.001)
                order.append(n)

        await asyncio.gather(one(1), one(2))
        return order

    async def events() -> list[int]:
        ready, order = asyncio.Event(), list[int]()

        async def waiter(n: int) -> None:
            await ready.wait()
            order.append(n)

        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(waiter(n))
            await work(0)
            ready.set()
        return order

    async def queues() -> list[int]:
        queue, got = asyncio.Queue[int](2), list[int]()

        async def produce() -> None:
            for n in range(5):
                await queue.put(await work(n))

        async def consume() -> None:
            for _ in range(5):
                got.append(await queue.get())

        await asyncio.gather(produce(), consume())
        return got

    async def first_wins() -> str:
        racers = [asyncio.create_task(work(1)), asyncio.create_task(never())]
        done, pending = await hf.wait(racers, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        return f"{[task.result() for task in done]} {len(pending)}"

    async def as_completed() -> list[int]:
        return [await each for each in hf.as_completed([work(n) for n in range(3)])]

    return {
        "sleep": (sleeps, 1),
        "timeout": (times_out, "late"),
        "wait_for": (waits_for, "late"),
        "gather": (gathers, [0, 1, 2, 3, 4]),
        "TaskGroup": (groups, [0, 1, 2]),
        "Lock": (locks, [1, 1, 2, 2]),
        "Event": (events, [0, 1, 2]),
        "Queue": (queues, [0, 1, 2, 3, 4]),
        "wait": (first_wins, "[1] 1"),
        "as_completed": (as_completed, [0, 1, 2]),
    }


@pytest.mark.parametrize("name", asyncio_bodies(hf.App("names")))
async def test_plain_asyncio_is_durable(place: Place, app: hf.App, name: str) -> None:
    body, result = asyncio_bodies(app)[name]
    workflow = app.workflow(body)
    async with place.open(app) as client:
        run = await client.start(workflow.bind())
        assert await within(run.result()) == result


async def test_what_the_body_no_longer_asks_for_is_stopped(place: Place, app: hf.App) -> None:
    began, stopped = asyncio.Event(), asyncio.Event()
    give_up = hf.Signal("give_up", bool)

    @app.step
    async def slow() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @app.step
    async def after() -> bool:
        await stopped.wait()
        return True

    @app.workflow
    async def flow() -> bool:
        waiting = asyncio.ensure_future(slow())
        await hf.wait_for(give_up)
        waiting.cancel()
        return await after()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(began.wait())
        await run.signal(give_up, True)
        assert await within(run.result())


async def test_two_results_in_one_commit_where_the_body_cancels_the_loser(
    place: Place, app: hf.App
) -> None:
    """Feeding after the commit would record the loser's answer, which no replay asks for."""
    both = asyncio.Event()
    waiting = 0

    @app.step
    async def racer(n: int) -> int:
        nonlocal waiting
        waiting += 1
        if waiting == 2:
            both.set()
        await both.wait()
        return n

    @app.step
    async def after(n: int) -> int:
        return n

    @app.workflow
    async def flow() -> int:
        racers = [asyncio.create_task(racer(n)) for n in (1, 2)]
        done, pending = await hf.wait(racers, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        return await after(len(done))

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == 1
        events = (await run.history()).events
    answered = [e.key for e in events if e.kind == "step.completed"]
    assert len(answered) == 2, "one racer and the step after it"
    assert answered[-1] == "after#1"
