"""Time-outs of steps: of one attempt, of all attempts, and of threads that cannot be stopped."""

import asyncio
import contextlib
import json
import threading
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.hosts.worker import Worker
from tests.engine.places import Place, event_of, kinds, status_of, until, within, worker_of

ONCE = hf.Retry(max_attempts=1)


async def test_an_attempt_that_takes_too_long_is_cancelled(place: Place, app: hf.App) -> None:
    cancelled: list[bool] = []
    caught: list[Exception] = []

    @app.step(timeout=0.02, retry=ONCE)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    @app.workflow
    async def flow() -> int:
        try:
            await slow()
        except TimeoutError as error:
            caught.append(error)
        return 1

    async with place.open(app) as client:
        await within((await client.start(flow.bind())).result())
    failed = caught[0]
    assert isinstance(failed, hf.StepTimedOut)
    assert (failed.step, failed.type, failed.attempts) == ("slow#1", "StepTimedOut", 1)
    assert cancelled == [True]


async def test_a_timed_out_attempt_is_tried_again(place: Place, app: hf.App) -> None:
    @app.step(timeout=0.02, retry=hf.Retry(max_attempts=3, initial=0.001))
    async def slow() -> int:
        if hf.attempt() < 3:
            await asyncio.Event().wait()
        return hf.attempt()

    @app.workflow
    async def flow() -> int:
        return await slow()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == 3
        assert (await kinds(run)).count("step.retrying") == 2


async def test_the_steps_own_timeout_error_is_not_ours(place: Place, app: hf.App) -> None:
    @app.step(timeout=30, retry=ONCE)
    async def raising() -> None:
        raise TimeoutError("mine")

    @app.workflow
    async def flow() -> str:
        try:
            await raising()
        except hf.StepTimedOut:
            return "wrong"
        except hf.StepFailed as error:
            return f"{error.type}: {error.message}"
        return ""

    async with place.open(app) as client:
        assert await within((await client.start(flow.bind())).result()) == "TimeoutError: mine"


async def test_total_timeout_covers_all_attempts_and_waits(place: Place, app: hf.App) -> None:
    numbers: list[int] = []

    @app.step(total_timeout=0.4, retry=hf.Retry(max_attempts=50, initial=0.1, factor=1))
    async def flaky() -> None:
        numbers.append(hf.attempt())
        raise ValueError

    @app.workflow
    async def flow() -> str:
        try:
            await flaky()
        except hf.StepFailed as error:
            return error.type
        return ""

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) in ("ValueError", "StepTimedOut")
        events = (await run.history()).events
    assert 1 <= len(numbers) < 10
    ended = next(event.at for event in events if event.kind == "step.failed")
    assert ended - events[0].at < 400_000 + 5_000_000  # no later attempt was waited for
    retries = [event.at for event in events if event.kind == "step.retrying"]
    assert all(at - events[0].at < 400_000 for at in retries)


async def test_total_timeout_ends_a_running_attempt(place: Place, app: hf.App) -> None:
    @app.step(total_timeout=0.03, timeout=30)
    async def slow() -> None:
        await asyncio.Event().wait()

    @app.workflow
    async def flow() -> str:
        try:
            await slow()
        except hf.StepTimedOut as error:
            return error.step
        return ""

    async with place.open(app) as client:
        assert await within((await client.start(flow.bind())).result()) == "slow#1"


async def test_a_sync_step_that_times_out_is_written_off(place: Place, app: hf.App) -> None:
    release, told = threading.Event(), threading.Event()

    @app.step(timeout=0.3, retry=ONCE)
    def stuck() -> None:
        assert not hf.cancelled()
        release.wait(10)
        if hf.cancelled():
            told.set()

    @app.step
    def quick() -> str:
        return "quick"

    @app.workflow
    async def flow() -> str:
        try:
            await stuck()
        except hf.StepTimedOut:
            return await quick()
        return ""

    try:
        async with place.open(app, steps=1, threads=1) as client:
            calls = worker_of(client).steps.calls
            assert calls.is_healthy
            run = await client.start(flow.bind())
            assert await within(run.result()) == "quick", "slot and thread were given back"
            assert calls.written_off == 1
            assert not calls.is_healthy
            release.set()
            await until(lambda: calls.written_off == 0)
            assert calls.is_healthy
    finally:
        release.set()
    assert told.is_set()


@pytest.mark.parametrize("ends", [True, False], ids=["late", "never"])
async def test_a_step_that_ignores_its_time_out_has_timed_out(
    place: Place, app: hf.App, ends: bool
) -> None:
    free = asyncio.Event()

    @app.step(timeout=0.05, retry=ONCE)
    async def stubborn() -> str:
        while True:
            try:
                await free.wait()
            except asyncio.CancelledError:
                if ends:
                    return "too late"
            else:
                return "far too late"

    @app.step
    async def other() -> str:
        return "other"

    @app.workflow
    async def flow() -> str:
        try:
            return await stubborn()
        except hf.StepTimedOut as error:
            return f"{error.message}, {await other()}"

    async with place.open(app, steps=1) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == "took longer than 0.05 s, other"
        free.set()
        await until(lambda: not worker_of(client).steps.running)
        assert (await kinds(run)).count("step.failed") == 1


async def test_a_step_that_ignores_that_nobody_waits_keeps_no_slot(
    place: Place, app: hf.App
) -> None:
    free = asyncio.Event()

    @app.step
    async def stubborn() -> None:
        while not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await free.wait()

    @app.step
    async def other() -> str:
        return "other"

    @app.workflow
    async def flow() -> str:
        try:
            async with asyncio.timeout(0.05):
                await stubborn()
        except TimeoutError:
            return await other()
        return ""

    async with place.open(app, steps=1) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == "other"
        free.set()
        await until(lambda: not worker_of(client).steps.running)


@pytest.mark.parametrize("lacks", ["slot", "thread"])
async def test_a_total_time_out_passes_for_what_cannot_begin(
    place: Place, app: hf.App, lacks: str
) -> None:
    """However long it is until it could."""
    free, release = asyncio.Event(), threading.Event()

    @app.step
    async def keeps_slot() -> None:
        await free.wait()

    @app.step
    def keeps_thread() -> None:
        release.wait(20)

    @app.step(total_timeout=0.3)
    def late() -> str:
        return "late"

    @app.workflow
    async def flow() -> str:
        keeper = asyncio.create_task((keeps_slot if lacks == "slot" else keeps_thread)())
        await asyncio.sleep(0)
        try:
            return await late()
        except hf.StepTimedOut as error:
            return error.message
        finally:
            keeper.cancel()

    try:
        async with place.open(app, steps=1 if lacks == "slot" else 2, threads=1) as client:
            run = await client.start(flow.bind())
            assert await within(run.result()) == "had no time left to begin"
    finally:
        free.set()
        release.set()


async def test_what_wants_a_thread_where_all_are_stuck_waits_elsewhere(
    place: Place, app: hf.App
) -> None:
    """It is no attempt that timed out: its code has not begun."""
    release, go = threading.Event(), asyncio.Event()

    @app.step(timeout=0.2, retry=ONCE)
    def stuck() -> None:
        release.wait(20)

    @app.step(timeout=5, retry=ONCE)
    def quick() -> str:
        return "quick"

    @app.step
    async def gate() -> None:
        await go.wait()

    @app.workflow
    async def spoil() -> str:
        try:
            await stuck()
        except hf.StepTimedOut:
            return "stuck"
        return ""

    @app.workflow
    async def held() -> str:
        await gate()
        return await quick()

    @app.workflow
    async def late() -> str:
        return await quick()

    try:
        async with place.open(app, threads=1) as client:
            worker, calls = worker_of(client), worker_of(client).steps.calls
            before = await client.start(held.bind(), id="held")
            for _ in range(2):
                assert await within((await client.start(spoil.bind())).result()) == "stuck"
            assert calls.is_stuck
            after = await client.start(late.bind(), id="late")
            go.set()
            await status_of(before, "waiting")
            assert (await status_of(after, "pending")).status == "pending"
            await until(lambda: not worker.sessions)  # it hears a moment later that it is stored
            await until(lambda: is_told(worker, place, 2))
            release.set()
            assert await within(asyncio.gather(before.result(), after.result())) == ["quick"] * 2
            await until(lambda: is_told(worker, place, 0))
            assert (await kinds(before)).count("step.failed") == 0
    finally:
        release.set()


async def is_told(worker: Worker, place: Place, stuck: int) -> bool:
    """Tell whether the worker's row says how many of its threads are stuck."""
    if place.kind == "memory":
        return True  # nobody else could read it
    rows = {
        row.id: json.loads(row.info or "{}") for row in await cast("Any", worker.store).workers()
    }
    return bool(rows[worker.id].get("stuck_threads", 0) == stuck)


async def test_a_late_result_of_a_written_off_thread_is_dropped(place: Place, app: hf.App) -> None:
    release = threading.Event()
    calls: list[int] = []

    @app.step(timeout=0.3, retry=hf.Retry(max_attempts=2, initial=0.001))
    def slow() -> int:
        number = hf.attempt()
        calls.append(number)
        if number == 1:
            release.wait(10)
        return number

    @app.step
    async def free() -> None:
        release.set()

    @app.workflow
    async def flow() -> int:
        number = await slow()
        await free()
        return number

    try:
        async with place.open(app) as client:
            run = await client.start(flow.bind())
            assert await within(run.result()) == 2
            await until(lambda: worker_of(client).steps.calls.written_off == 0)
            assert (await kinds(run)).count("step.completed") == 2
    finally:
        release.set()
    assert calls == [1, 2]


async def test_a_wait_for_a_slot_is_no_part_of_the_timeout(place: Place, app: hf.App) -> None:
    @app.step(timeout=0.4, retry=ONCE)
    async def work(n: int) -> int:
        await asyncio.sleep(0.12)
        return n

    @app.workflow
    async def flow() -> list[int]:
        return await asyncio.gather(*(work(n) for n in range(4)))

    async with place.open(app, steps=1) as client:
        assert await within((await client.start(flow.bind())).result()) == [0, 1, 2, 3]


async def test_a_wait_for_a_thread_is_no_part_of_the_timeout(place: Place, app: hf.App) -> None:
    clock = threading.Event()

    @app.step(timeout=0.4, retry=ONCE)
    def work(n: int) -> int:
        clock.wait(0.12)
        return n

    @app.workflow
    async def flow() -> list[int]:
        return await asyncio.gather(*(work(n) for n in range(4)))

    async with place.open(app, threads=1) as client:
        assert await within((await client.start(flow.bind())).result()) == [0, 1, 2, 3]


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_step_of_a_terminated_run_is_told_to_stop(
    place: Place, app: hf.App, is_async: bool
) -> None:
    began, stopped = threading.Event(), threading.Event()

    async def coroutine() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    def function() -> None:
        began.set()
        while not hf.cancelled():
            stopped.wait(0.005)
        stopped.set()

    step = app.step(name="long")(coroutine if is_async else function)

    @app.workflow
    async def flow() -> None:
        await step()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await until(began.is_set)
        await run.terminate("enough")
        await until(stopped.is_set)
        with pytest.raises(hf.RunTerminated, match="enough"):
            await within(run.result())


async def test_total_timeout_counts_the_wait_for_a_slot(place: Place, app: hf.App) -> None:
    began: list[int] = []

    @app.step(total_timeout=0.5, retry=ONCE)
    async def work(n: int) -> int:
        began.append(n)
        await asyncio.sleep(0.3)
        return n

    @app.workflow
    async def flow() -> list[str]:
        results = await asyncio.gather(*(work(n) for n in range(3)), return_exceptions=True)
        return [type(each).__name__ for each in results]

    async with place.open(app, steps=1) as client:
        result = await within((await client.start(flow.bind())).result())
    assert result == ["int", "StepTimedOut", "StepTimedOut"]
    assert began == [0, 1], "a step without time left does not begin"


async def test_a_timeout_says_how_long_once(place: Place, app: hf.App) -> None:
    @app.step(timeout=0.01, retry=ONCE)
    async def slow() -> None:
        await asyncio.Event().wait()

    @app.workflow
    async def flow() -> str:
        try:
            await slow()
        except hf.StepTimedOut as error:
            return str(error)
        return ""

    async with place.open(app) as client:
        told = await within((await client.start(flow.bind())).result())
    assert told == (
        "Step slow#1 failed after 1 attempt: StepTimedOut: took longer than 0.01 s. "
        f"{hf.StepTimedOut.hint} [HF402]"
    )


@pytest.mark.parametrize("how", ["paused", "blocked"])
async def test_total_timeout_does_not_run_while_a_run_is_set_aside(
    place: Place, app: hf.App, how: str
) -> None:
    began, release = asyncio.Event(), asyncio.Event()
    stuck = how == "blocked"

    @app.step
    async def first() -> None:
        began.set()
        await release.wait()

    @app.step(total_timeout=2)
    async def second() -> str:
        return "in time"

    @app.workflow
    async def flow() -> str:
        await first()
        if stuck:
            await asyncio.Event().wait()
        return await second()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(began.wait())
        if not stuck:
            await run.pause()
            await event_of(run, "run.paused")
        release.set()
        await status_of(run, how)
        await asyncio.sleep(2.05)  # longer than it has
        stuck = False
        await (run.resume() if how == "paused" else run.retry())
        assert await within(run.result()) == "in time"
