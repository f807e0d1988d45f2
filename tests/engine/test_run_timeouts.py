"""Run time-outs: from the start, by the store's clock, through restarts; the body may clean up."""

import asyncio
from datetime import timedelta

import pytest

import holdfast as hf
from tests.engine.places import Place, event_of, kinds, status_of, within

go = hf.Signal("go", bool)
SOON = 0.05
LONG_ENOUGH = 2.0
"""Seconds in which a loaded machine surely gets something done."""


async def test_a_waiting_run_times_out_and_cleans_up(place: Place, app: hf.App) -> None:
    cleaned: list[str] = []

    @app.step
    async def clean(what: str) -> None:
        cleaned.append(what)

    @app.workflow(timeout=timedelta(milliseconds=50))
    async def flow() -> None:
        try:
            await hf.wait_for(go)
        except asyncio.CancelledError as error:
            await clean(type(error).__name__)
            raise

    async with place.open(app, keep=0.01) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunTimedOut, match="it waited for signal go") as caught:
            await within(run.result())
        assert isinstance(caught.value, TimeoutError)
        row = await run.describe()
        assert (row.status, row.cancel) == ("timed_out", 0)
        assert row.reason.startswith("RunTimeout: not done by 20")
        assert await kinds(run) == [
            "run.started", "deadline.passed", "step.completed", "run.timed_out",
        ]  # fmt: skip
        assert row.deadline == row.created_at + 50_000
        assert (await event_of(run, "deadline.passed")).at >= row.deadline
    assert cleaned == ["CancelledError"]


async def test_a_running_step_is_stopped_and_named(place: Place, app: hf.App) -> None:
    stopped = asyncio.Event()

    @app.step
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @app.workflow
    async def flow() -> None:
        await work()

    async with place.open(app) as client:
        run = await client.start(flow.bind(), timeout=10 * SOON)  # the step must have begun
        with pytest.raises(hf.RunTimedOut, match="step work#1"):
            await within(run.result())
        await within(stopped.wait())


async def test_the_start_overrides_the_workflow(place: Place, app: hf.App) -> None:
    @app.workflow(timeout=3600)
    async def flow() -> None:
        await hf.wait_for(go)

    async with place.open(app) as client:
        kept, never = await client.start(flow.bind()), await client.start(flow.bind(), timeout=None)
        row = await kept.describe()
        assert row.deadline == row.created_at + 3_600_000_000
        assert (await never.describe()).deadline is None
        shorter = await client.start(flow.bind(), timeout=SOON)
        with pytest.raises(hf.RunTimedOut):
            await within(shorter.result())


async def test_a_bad_timeout_is_refused(place: Place, app: hf.App) -> None:
    with pytest.raises(hf.InvalidDuration):

        @app.workflow(timeout=-1)
        async def wrong() -> None: ...

    @app.workflow
    async def flow() -> None: ...

    async with place.open(app) as client:
        with pytest.raises(hf.InvalidDuration, match="timeout"):
            await client.start(flow.bind(), id="r", timeout=float("nan"))
        with pytest.raises(hf.RunNotFound):
            await client.get("r").describe()


async def test_a_run_that_was_never_claimed_times_out(place: Place, app: hf.App) -> None:
    calls: list[int] = []

    @app.step
    async def work() -> None:
        calls.append(1)

    @app.workflow
    async def flow() -> None:
        await work()

    async with place.open(app, worker=False) as client:
        run = await client.start(flow.bind(), timeout=0)
    async with place.open(app) as client:
        with pytest.raises(hf.RunTimedOut):
            await within(client.get(run.id).result())
    assert calls == []


async def test_a_pause_does_not_stop_the_clock(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        await hf.wait_for(go)

    async with place.open(app) as client:
        run = await client.start(flow.bind(), timeout=1.5)
        await run.pause()
        await event_of(run, "run.paused")
        with pytest.raises(hf.RunTimedOut):
            await within(run.result())
        assert (await kinds(run))[-3:] == ["run.paused", "deadline.passed", "run.timed_out"]


async def test_the_deadline_stops_a_run_that_pauses_behind_a_step(
    place: Place, app: hf.App
) -> None:
    began = asyncio.Event()

    @app.step
    async def work() -> None:
        began.set()
        await asyncio.Event().wait()

    @app.workflow
    async def flow() -> None:
        await work()

    async with place.open(app) as client:
        run = await client.start(flow.bind(), timeout=1.5)
        await within(began.wait())
        await run.pause()
        await event_of(run, "run.paused")
        with pytest.raises(hf.RunTimedOut):
            await within(run.result())


async def test_a_blocked_run_ends_at_its_deadline_and_can_be_retried(
    place: Place, app: hf.App
) -> None:
    @app.step
    async def work() -> int:
        return 7

    @app.workflow
    async def flow() -> int:
        worked = await work()
        await hf.wait_for(go)
        return worked

    changed = hf.App("changed")

    @changed.workflow(name="flow")
    async def other() -> int:
        await hf.wait_for(go)
        return 0

    async with place.open(app) as client:
        run = await client.start(flow.bind(), timeout=2)
        await event_of(run, "step.completed")
    async with place.open(changed, paranoid=False) as client:
        again = client.get(run.id)
        await status_of(again, "blocked")
        with pytest.raises(hf.RunTimedOut, match="blocked by HF501"):
            await within(again.result())
    async with place.open(app) as client:
        again = client.get(run.id)
        await again.retry()
        await again.signal(go, True)
        assert await within(again.result()) == 7


async def test_a_body_may_refuse_to_give_up(place: Place, app: hf.App) -> None:
    @app.workflow(timeout=SOON)
    async def flow() -> str:
        try:
            await hf.wait_for(go)
        except asyncio.CancelledError:
            return "half of it"
        return "all of it"

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == "half of it"
        assert (await run.describe()).status == "completed"


async def test_clean_up_has_the_grace_of_a_cancel(place: Place, app: hf.App) -> None:
    @app.workflow(timeout=SOON)
    async def flow() -> None:
        try:
            await hf.wait_for(go)
        finally:
            await asyncio.shield(hf.wait_for(go))

    async with place.open(app, cancel_grace=0.05) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunTimedOut):
            await within(run.result())
        assert (await kinds(run))[-2:] == ["deadline.passed", "run.timed_out"]


async def test_a_cancel_before_the_deadline_wins_and_one_after_it_changes_nothing(
    place: Place, app: hf.App
) -> None:
    late = asyncio.Event()

    @app.step
    async def clean() -> None:
        await late.wait()

    @app.workflow
    async def flow() -> None:
        try:
            await hf.wait_for(go)
        finally:
            await clean()

    async with place.open(app) as client:
        early = await client.start(flow.bind(), timeout=1)
        await early.cancel()
        run = await client.start(flow.bind(), timeout=0.1)
        await event_of(run, "deadline.passed")
        assert await run.cancel()
        await event_of(run, "cancel.requested")
        await asyncio.sleep(1)  # past the other one's deadline
        late.set()
        with pytest.raises(hf.RunTimedOut):
            await within(run.result())
        with pytest.raises(hf.RunCancelled):
            await within(early.result())
        assert "deadline.passed" not in await kinds(early)


async def test_a_timed_out_run_is_retried_with_as_much_time_again(
    place: Place, app: hf.App
) -> None:
    calls: list[str] = []

    @app.step
    async def work(name: str) -> str:
        calls.append(name)
        return name

    @app.workflow(timeout=LONG_ENOUGH)
    async def flow() -> str:
        await work("first")
        try:
            await hf.wait_for(go)
        finally:
            await work("last")
        return "done"

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunTimedOut):
            await within(run.result())
        before = await run.describe()
        await run.retry()
        row = await run.describe()
        assert row.deadline is not None
        assert before.closed_at is not None
        assert row.deadline >= before.closed_at + round(LONG_ENOUGH * 1e6)
        await run.signal(go, True)
        assert await within(run.result()) == "done"
    assert calls == ["first", "last", "last"]


async def test_the_deadline_survives_restarts(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        await hf.wait_for(go)

    async with place.open(app) as client:
        run = await client.start(flow.bind(), timeout=1.5)
        await status_of(run, "waiting", "running")
    await asyncio.sleep(1.5)  # past the deadline, with nobody there
    async with place.open(app) as client:
        with pytest.raises(hf.RunTimedOut, match="signal go"):
            await within(client.get(run.id).result())
