"""Cancel is a state: the body hears of it once, may clean up, and nothing else is recorded."""

import asyncio
import contextlib

import pytest

import holdfast as hf
from holdfast.model.commands import QuarantineRun
from tests.engine.places import Place, event_of, history_when, kinds, status_of, until, within

go = hf.Signal("go", bool)


async def test_a_waiting_run_is_cancelled(place: Place, app: hf.App) -> None:
    seen: list[str] = []

    @app.workflow
    async def flow() -> None:
        try:
            await hf.wait_for(go)
        except asyncio.CancelledError as error:
            seen.append(type(error).__name__)
            raise

    async with place.open(app, paranoid=False) as client:
        run = await client.start(flow.bind())
        await status_of(run, "waiting")
        assert await run.cancel("no longer wanted")
        with pytest.raises(hf.RunCancelled):
            await within(run.result())
        assert await kinds(run) == ["run.started", "cancel.requested", "run.cancelled"]
        event = await event_of(run, "cancel.requested")
        assert b"no longer wanted" in (event.payload or b"")
    assert seen == ["CancelledError"]


async def test_a_running_step_is_stopped_and_its_result_discarded(
    place: Place, app: hf.App
) -> None:
    began, stopped = asyncio.Event(), asyncio.Event()

    @app.step
    async def work() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
        return "too late"

    @app.workflow
    async def flow() -> str:
        return await work()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(began.wait())
        await run.cancel()
        with pytest.raises(hf.RunCancelled):
            await within(run.result())
        await within(stopped.wait())
        assert await kinds(run) == ["run.started", "cancel.requested", "run.cancelled"]


async def test_clean_up_runs_and_is_recorded(place: Place, app: hf.App) -> None:
    refunds: list[str] = []

    @app.step
    async def charge() -> str:
        return "receipt"

    @app.step
    async def refund(receipt: str) -> None:
        refunds.append(receipt)

    @app.workflow
    async def flow() -> None:
        receipt = await charge()
        try:
            await hf.wait_for(go)
        finally:
            await refund(receipt)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "waiting")
        await run.cancel()
        with pytest.raises(hf.RunCancelled):
            await within(run.result())
        assert (await kinds(run))[2:] == ["cancel.requested", "step.completed", "run.cancelled"]
    assert refunds == ["receipt"]


async def test_a_shielded_step_goes_on(place: Place, app: hf.App) -> None:
    began, release = asyncio.Event(), asyncio.Event()

    @app.step
    async def ship() -> str:
        began.set()
        await release.wait()
        return "shipped"

    @app.workflow
    async def flow() -> str:
        shipping = asyncio.ensure_future(ship())
        try:
            return await asyncio.shield(shipping)
        except asyncio.CancelledError:
            return "cancelled, but " + await shipping

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(began.wait())
        await run.cancel()
        await event_of(run, "cancel.requested")
        release.set()
        assert await within(run.result()) == "cancelled, but shipped"
        assert (await run.describe()).status == "completed"


async def test_a_second_cancel_does_not_hit_the_clean_up(place: Place, app: hf.App) -> None:
    began, release = asyncio.Event(), asyncio.Event()

    @app.step
    async def refund() -> str:
        began.set()
        await release.wait()
        return "refunded"

    @app.workflow
    async def flow() -> str:
        try:
            await hf.wait_for(go)
        except asyncio.CancelledError:
            return await refund()
        return ""

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await run.cancel()
        await within(began.wait())
        assert not await run.cancel()
        assert not await run.cancel()
        release.set()
        assert await within(run.result()) == "refunded"
        assert (await kinds(run)).count("cancel.requested") == 1
        assert not await run.cancel(), "of a run that was cancelled: no error, nothing changes"


async def test_after_cancel_returned_only_clean_up_is_recorded(place: Place, app: hf.App) -> None:
    count = 0

    @app.step
    async def work(n: int) -> int:
        nonlocal count
        count += 1
        return n

    @app.step
    async def clean() -> None:
        pass

    @app.workflow
    async def flow() -> None:
        try:
            for n in range(100_000):
                await work(n)
        finally:
            await clean()

    async with place.open(app, paranoid=False) as client:
        run = await client.start(flow.bind())
        await until(lambda: count > 20)
        await run.cancel()
        at_return = (await run.describe()).seq
        with pytest.raises(hf.RunCancelled):
            await within(run.result())
        events = (await run.history()).events
    later = [event for event in events if event.seq > at_return]
    kinds_at_end = [(e.kind, e.key) for e in events[-3:]]
    assert kinds_at_end[1:] == [("step.completed", "clean#1"), ("run.cancelled", "")]
    assert kinds_at_end[0][0] == "cancel.requested"
    assert len(later) <= 3
    assert sum(e.kind == "step.completed" for e in events) <= count + 1


async def test_a_body_that_swallows_the_cancel_is_completed(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> str:
        try:
            await hf.wait_for(go)
        except asyncio.CancelledError:
            return "swallowed"
        return ""

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await run.cancel()
        assert await within(run.result()) == "swallowed"


async def test_after_the_grace_the_run_is_forced(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        while True:
            try:
                await hf.wait_for(go)
            except asyncio.CancelledError:
                continue

    async with place.open(app, cancel_grace=0.05) as client:
        run = await client.start(flow.bind())
        await status_of(run, "waiting")
        await run.cancel()
        with pytest.raises(hf.RunCancelled):
            await within(run.result())
        requested, closed = (await run.history()).events[-2:]
        assert (requested.kind, closed.kind) == ("cancel.requested", "run.cancelled")
        assert closed.at - requested.at >= 50_000


async def test_the_grace_goes_on_after_a_restart(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        while True:
            try:
                await hf.wait_for(go)
            except asyncio.CancelledError:
                continue

    async with place.open(app, cancel_grace=0.2) as client:
        run = await client.start(flow.bind())
        await status_of(run, "waiting")
        await run.cancel()
        row = (await history_when(run, lambda found: found.run.seq == 2)).run
        assert row.cancel == 2
    async with place.open(app, cancel_grace=0.2) as client:
        with pytest.raises(hf.RunCancelled):
            await within(client.get(run.id, flow).result())


async def test_a_run_is_cancelled_before_any_worker_saw_it(place: Place, app: hf.App) -> None:
    started: list[int] = []

    @app.step
    async def work() -> None:
        started.append(1)

    @app.workflow
    async def flow() -> None:
        await work()

    async with place.open(app, worker=False) as client:
        run = await client.start(flow.bind())
        await run.cancel()
    async with place.open(app) as client:
        again = client.get(run.id)
        with pytest.raises(hf.RunCancelled):
            await within(again.result())
        assert await kinds(again) == ["run.started", "cancel.requested", "run.cancelled"]
    assert started == []


async def test_a_run_between_two_attempts_is_cancelled(place: Place, app: hf.App) -> None:
    @app.step(retry=hf.Retry(max_attempts=2, initial=60))
    async def flaky() -> None:
        raise ValueError

    @app.workflow
    async def flow() -> None:
        await flaky()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "waiting")
        await run.cancel()
        with pytest.raises(hf.RunCancelled):
            await within(run.result())


async def test_a_closed_run_refuses_cancel(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        pass

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.result())
        with pytest.raises(hf.RunClosed):
            await run.cancel()
        with pytest.raises(hf.RunNotFound):
            await client.get("nobody").cancel()


async def test_a_paused_run_is_cancelled_before_it_does_anything_else(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def flow() -> None:
        await hf.wait_for(go)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await run.pause()
        await status_of(run, "paused")
        await run.signal(go, True)
        await run.cancel()
        with pytest.raises(hf.RunCancelled):
            await within(run.result())
        last = ["run.paused", "cancel.requested", "signal.received", "run.cancelled"]
        assert (await kinds(run))[-4:] == last


async def test_a_cancelled_run_cleans_up_though_it_was_paused(place: Place, app: hf.App) -> None:
    cleaned: list[int] = []

    @app.step
    async def clean() -> None:
        cleaned.append(1)

    @app.workflow
    async def flow() -> None:
        try:
            await hf.wait_for(go)
        finally:
            await hf.sleep(0.01)
            await clean()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await run.pause()
        await status_of(run, "paused")
        await run.cancel()
        await run.pause("too late")
        with pytest.raises(hf.RunCancelled):
            await within(run.result())
    assert cleaned == [1]


async def test_a_quarantined_run_is_cancelled_before_its_step_runs_again(
    place: Place, app: hf.App
) -> None:
    calls: list[str] = []

    @app.step
    async def kill() -> None:
        calls.append("kill")

    @app.step
    async def clean() -> None:
        calls.append("clean")

    @app.workflow
    async def flow() -> None:
        try:
            await kill()
        finally:
            await clean()

    async with place.open(app, worker=False) as client:
        run = await client.start(flow.bind())
        await client.engine.do(QuarantineRun("default", run.id, client.engine.store.now(), "kills"))
        assert await run.cancel()
        assert (await run.describe()).status == "waiting"
    async with place.open(app) as client:
        with pytest.raises(hf.RunCancelled):
            await within(client.get(run.id).result())
    assert calls == ["clean"]


async def test_a_blocked_run_takes_its_cancel_and_cleans_up_after_the_fix(
    place: Place, app: hf.App
) -> None:
    cleaned: list[int] = []

    @app.step
    async def clean() -> None:
        cleaned.append(1)

    @app.step
    async def work() -> None: ...

    @app.workflow
    async def flow() -> None:
        await work()
        try:
            await hf.wait_for(go)
        finally:
            await clean()

    changed = hf.App("changed")

    @changed.workflow(name="flow")
    async def other() -> None:
        await hf.wait_for(go)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await event_of(run, "step.completed")
    async with place.open(changed) as client:
        again = client.get(run.id)
        await again.signal("another", 1)
        await status_of(again, "blocked")
        await again.cancel()
        await history_when(
            again, lambda loaded: loaded.run.status == "blocked" and not loaded.run.has_mail
        )
        assert (await kinds(again))[-3:] == ["run.blocked", "cancel.requested", "run.blocked"]
    async with place.open(app) as client:
        again = client.get(run.id)
        await again.retry()
        with pytest.raises(hf.RunCancelled):
            await within(again.result())
    assert cleaned == [1]


async def test_terminate_ends_the_run_in_one_commit(place: Place, app: hf.App) -> None:
    cleaned: list[int] = []

    @app.step
    async def clean() -> None:
        cleaned.append(1)

    @app.workflow
    async def flow() -> None:
        try:
            await hf.wait_for(go)
        finally:
            await clean()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "waiting")
        before = await run.describe()
        await run.terminate("stop")
        row = await run.describe()
        assert (row.status, row.seq, row.epoch) == ("terminated", before.seq + 1, before.epoch + 1)
        with pytest.raises(hf.RunTerminated, match="stop"):
            await within(run.result())
        with pytest.raises(hf.RunClosed):
            await run.terminate()
        with pytest.raises(hf.RunClosed):
            await run.signal(go, True)
    assert cleaned == [], "nothing of a terminated body runs"


async def test_a_terminated_runs_step_records_nothing(place: Place, app: hf.App) -> None:
    began, release = asyncio.Event(), asyncio.Event()

    @app.step
    async def work() -> int:
        began.set()
        with contextlib.suppress(asyncio.CancelledError):
            await release.wait()
        return 1

    @app.workflow
    async def flow() -> int:
        return await work()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(began.wait())
        await run.terminate()
        release.set()
        await client.start(flow.bind())
        assert await kinds(run) == ["run.started", "run.terminated"]
