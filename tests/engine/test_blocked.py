"""Code that changed under a history, bodies that wait for nothing: set aside, with the place."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, event_of, kinds, status_of, within

go = hf.Signal("go", bool)


def shop(body: Callable[..., Any], calls: list[str]) -> hf.App:
    """Return a release of the app: the same steps, and this body as `flow`."""
    app = hf.App("shop")

    @app.step
    async def charge(cents: int) -> int:
        calls.append(f"charge {cents}")
        return cents

    @app.step
    async def ship(cents: int) -> int:
        calls.append(f"ship {cents}")
        return cents

    app.workflow(name="flow")(body(charge, ship))
    return app


def recorded(charge: Any, ship: Any) -> Any:
    async def flow() -> int:
        first = await charge(1)
        second = await charge(2)
        await hf.wait_for(go)
        return first - second

    return flow


def swapped(charge: Any, ship: Any) -> Any:
    async def flow() -> int:
        second = await charge(2)
        first = await charge(1)
        await hf.wait_for(go)
        return first - second

    return flow


def renamed(charge: Any, ship: Any) -> Any:
    async def flow() -> int:
        first = await ship(1)
        second = await charge(2)
        await hf.wait_for(go)
        return first - second

    return flow


def shorter(charge: Any, ship: Any) -> Any:
    async def flow() -> int:
        return await charge(1)

    return flow


CHANGED = [
    (swapped, "Event 2", "the result of step charge#1", "with other arguments", "in flow"),
    (renamed, "Event 2", "the result of step charge#1", "waits for ship#1", "in flow"),
    (shorter, "Event 3", "the result of step charge#2", "has ended", ""),
]


@pytest.mark.parametrize("change", CHANGED, ids=[c[0].__name__ for c in CHANGED])
async def test_changed_code_blocks_the_run_and_restored_code_goes_on(
    place: Place, change: tuple[Any, str, str, str, str]
) -> None:
    body, position, known, asked, source = change
    calls: list[str] = []
    old = shop(recorded, calls)
    async with place.open(old) as client:
        await client.start(old.workflows["flow"].bind(), id="order")
        await status_of(client.get("order"), "waiting")
    async with place.open(shop(body, calls)) as client:
        run = client.get("order")
        await run.signal(go, True)
        row = await status_of(run, "blocked")
        assert row.reason.startswith("mismatch: Event ")
        for part in ("[HF501]", position, known, asked, source):
            assert part in row.reason
        if source:
            assert "test_blocked.py:" in row.reason
        assert await kinds(run) == [
            "run.started", "step.completed", "step.completed", "signal.received", "run.blocked",
        ]  # fmt: skip
        await run.retry()
        assert (await status_of(run, "blocked")).generation == 1, "still the wrong code"
    assert calls == ["charge 1", "charge 2"], "nothing ran on the changed code"
    async with place.open(shop(recorded, calls)) as client:
        await client.get("order").retry()
        assert await within(client.get("order").result()) == -1
    assert calls == ["charge 1", "charge 2"]


async def test_a_body_that_is_not_deterministic_is_found_by_paranoia(
    place: Place, app: hf.App
) -> None:
    starts = 0

    @app.step
    async def work(n: int) -> int:
        return n

    @app.workflow
    async def flow() -> int:
        nonlocal starts
        starts += 1
        await work(starts)
        await hf.wait_for(go)
        return 1

    async with place.open(app, paranoid=False) as client:
        run = await client.start(flow.bind())
        await status_of(run, "waiting")
    async with place.open(app) as client:
        run = client.get(run.id)
        await run.signal(go, True)
        assert "with other arguments" in (await status_of(run, "blocked")).reason
        await run.terminate()


async def test_a_result_that_no_longer_decodes_blocks_the_run(place: Place) -> None:
    def release(kind: Any) -> hf.App:
        app = hf.App("shop")

        async def work() -> Any:
            return "text"

        work.__annotations__ = {"return": kind}
        step = app.step(work)

        @app.workflow
        async def flow() -> None:
            await step()
            await hf.wait_for(go)

        return app

    old = release(str)
    async with place.open(old) as client:
        await client.start(old.workflows["flow"].bind(), id="order")
        await status_of(client.get("order"), "waiting")
    async with place.open(release(int)) as client:
        await client.get("order").signal(go, True)
        row = await status_of(client.get("order"), "blocked")
        assert row.reason.startswith("undecodable: ")
        assert "[HF503]" in row.reason
        assert "result of work#1" in row.reason
    async with place.open(release(str)) as client:
        await client.get("order").retry()
        await within(client.get("order").result())


def deadlocks() -> dict[str, Any]:
    async def event() -> None:
        await asyncio.Event().wait()

    async def lock() -> None:
        lock = asyncio.Lock()
        await lock.acquire()
        await lock.acquire()

    async def future() -> None:
        await asyncio.get_running_loop().create_future()

    async def queue() -> None:
        await asyncio.Queue[int]().get()

    return {"event": event, "lock": lock, "future": future, "queue": queue}


@pytest.mark.parametrize("name", deadlocks())
async def test_a_body_that_waits_for_nothing_is_blocked(
    place: Place, app: hf.App, name: str
) -> None:
    workflow = app.workflow(deadlocks()[name])
    async with place.open(app) as client:
        run = await client.start(workflow.bind())
        row = await status_of(run, "blocked")
        assert row.reason.startswith("deadlock: ")
        assert "[HF502]" in row.reason
        assert "test_blocked.py:" in row.reason
        assert f"in {name}" in row.reason
        event = await event_of(run, "run.blocked")
        assert b"BodyStuck" in (event.payload or b"")
        await run.terminate()


async def test_a_step_before_a_deadlock_need_not_run_again(place: Place, app: hf.App) -> None:
    calls: list[str] = []
    fixed = False

    @app.step
    async def work() -> int:
        calls.append("work")
        return 1

    @app.workflow
    async def flow() -> int:
        done = await work()
        if not fixed:
            await asyncio.Event().wait()
        return done

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "blocked")
        assert await kinds(run) == ["run.started", "step.completed", "run.blocked"]
        fixed = True
        await run.retry()
        assert await within(run.result()) == 1
        assert calls == ["work"]


async def test_a_blocked_run_keeps_its_messages(place: Place, app: hf.App) -> None:
    fixed = False

    @app.workflow
    async def flow() -> bool:
        if not fixed:
            await asyncio.Event().wait()
        return await hf.wait_for(go)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "blocked")
        await run.signal(go, True)
        assert (await run.describe()).status == "blocked"
        fixed = True
        await run.retry()
        assert await within(run.result())


async def test_a_payload_that_no_workflow_takes_blocks_the_run(place: Place) -> None:
    def release(kind: type) -> hf.App:
        app = hf.App("shop")

        async def flow(x: Any) -> str:
            return str(x)

        flow.__annotations__ = {"x": kind, "return": str}
        app.workflow(flow)
        return app

    old = release(str)
    async with place.open(old, worker=False) as client:
        await client.start(old.workflows["flow"].bind("text"), id="order")
    async with place.open(release(int)) as client:
        row = await status_of(client.get("order"), "blocked")
        assert "the input" in row.reason
    async with place.open(release(str)) as client:
        await client.get("order").retry()
        assert await within(client.get("order").result()) == "text"
