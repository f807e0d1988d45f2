"""Heartbeats: seen live, handed to the next attempt, and their absence noticed."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.annotations import MAX_DETAILS
from holdfast.model.commands import TerminateRun
from tests.engine.places import PATIENCE, Place, event_of, kinds, until, within, worker_of

ONCE = hf.Retry(max_attempts=1)
AT_ONCE = hf.Retry(max_attempts=3, initial=0.001)


async def progress_of(run: hf.RunHandle[Any]) -> tuple[hf.Progress, ...]:
    """Return the run's heartbeats once there are some."""
    found: list[tuple[hf.Progress, ...]] = []

    async def look() -> bool:
        found[:] = [await run.progress()]
        return bool(found[0])

    await until(look)
    return found[0]


async def test_a_heartbeat_is_seen_while_the_step_runs(place: Place, app: hf.App) -> None:
    go = asyncio.Event()

    @app.step
    async def crunch() -> int:
        hf.heartbeat({"page": 7})
        await go.wait()
        return 1

    @app.workflow
    async def flow() -> int:
        return await crunch()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        [beat] = await progress_of(run)
        assert (beat.key, beat.attempt, beat.generation) == ("crunch#1", 1, 1)
        assert beat.value == {"page": 7}
        go.set()
        assert await within(run.result()) == 1
        assert await run.progress() == ()
        assert "step.completed" in await kinds(run)


async def test_a_heartbeat_costs_no_event_and_no_turn(place: Place, app: hf.App) -> None:
    @app.step
    async def crunch() -> None:
        for page in range(1_000):
            hf.heartbeat(page)

    @app.workflow
    async def flow() -> None:
        await crunch()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.result())
        assert await kinds(run) == ["run.started", "step.completed", "run.completed"]


async def test_the_next_attempt_goes_on_where_the_last_one_was(place: Place, app: hf.App) -> None:
    seen: list[Any] = []

    @app.step(retry=AT_ONCE)
    async def crunch() -> int:
        begun = hf.last_heartbeat() or 0
        seen.append(begun)
        for page in range(begun, 5):
            if page % 2 and page > begun:
                raise ConnectionError
            hf.heartbeat(page + 1)
            assert (hf.last_heartbeat() or 0) == begun
        return 5

    @app.workflow
    async def flow() -> int:
        return await crunch()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == 5
    assert seen == [0, 1, 3]


async def test_details_survive_the_worker(place: Place, app: hf.App) -> None:
    seen: list[Any] = []

    @app.step
    async def crunch() -> str:
        seen.append(hf.last_heartbeat())
        if len(seen) < 3:
            hf.heartbeat(f"part {len(seen)}")
            await asyncio.Event().wait()
        return "done"

    @app.workflow
    async def flow() -> str:
        return await crunch()

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await progress_of(run)
    async with place.open(app, flush=60.0) as client:
        await until(lambda: len(seen) == 2)
        # Given back before the next writing: the release takes what was said last with it.
    async with place.open(app) as client:
        assert await within(client.get("r", flow).result()) == "done"
    assert seen == [None, "part 1", "part 2"]


@dataclass
class Cursor:
    page: int
    done: tuple[str, ...]


async def test_details_come_back_as_their_type(place: Place, app: hf.App) -> None:
    seen: list[Cursor | None] = []

    @app.step(retry=AT_ONCE)
    async def crunch() -> None:
        seen.append(hf.last_heartbeat(Cursor))
        if hf.attempt() == 1:
            hf.heartbeat(Cursor(3, ("a", "b")))
            hf.heartbeat()  # alive, and no news: the details stay
            raise ConnectionError

    @app.workflow
    async def flow() -> None:
        await crunch()

    async with place.open(app) as client:
        await within((await client.start(flow.bind())).result())
    assert seen == [None, Cursor(3, ("a", "b"))]


async def test_a_sync_step_and_its_threads_may_speak(place: Place, app: hf.App) -> None:
    go = threading.Event()

    @app.step
    def crunch() -> Any:
        hf.heartbeat(1)
        go.wait(PATIENCE)
        return hf.last_heartbeat()

    @app.step
    async def threaded() -> None:
        await asyncio.to_thread(hf.heartbeat, 2)
        await asyncio.to_thread(go.wait, PATIENCE)

    @app.workflow
    async def flow() -> Any:
        return (await asyncio.gather(crunch(), threaded()))[0]

    async with place.open(app) as client:
        run = await client.start(flow.bind())

        async def both() -> bool:
            return [beat.value for beat in await run.progress()] == [1, 2]

        await until(both)
        go.set()
        assert await within(run.result()) is None


@pytest.mark.parametrize("is_sync", [False, True])
async def test_silence_is_a_time_out(place: Place, app: hf.App, is_sync: bool) -> None:
    release, told = threading.Event(), threading.Event()
    cancelled: list[int] = []

    @app.step(heartbeat_timeout=0.2, retry=ONCE)
    def stuck() -> None:
        release.wait(PATIENCE)
        if hf.cancelled():
            told.set()

    @app.step(heartbeat_timeout=0.2, retry=ONCE)
    async def hung() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    @app.workflow
    async def flow() -> str:
        try:
            await (stuck() if is_sync else hung())
        except hf.StepTimedOut as error:
            return error.message
        return ""

    async with place.open(app) as client:
        told_why = await within((await client.start(flow.bind())).result())
        assert told_why == "sent no heartbeat for 0.2 s"
        if is_sync:
            assert worker_of(client).steps.calls.written_off == 1
            release.set()
            await until(told.is_set)
        else:
            assert cancelled == [1]


async def test_a_silent_attempt_is_tried_again(place: Place, app: hf.App) -> None:
    @app.step(retry=AT_ONCE)
    async def hung() -> Any:
        if hf.attempt() == 1:
            hf.heartbeat("far")
            await asyncio.Event().wait()
        return hf.last_heartbeat()

    @app.workflow
    async def flow() -> Any:
        return await hung.options(heartbeat_timeout=0.1)()

    async with place.open(app) as client:
        assert await within((await client.start(flow.bind())).result()) == "far"


async def test_whoever_speaks_is_not_timed_out(place: Place, app: hf.App) -> None:
    @app.step(heartbeat_timeout=0.5, retry=ONCE)
    async def crunch() -> int:
        loop = asyncio.get_running_loop()
        begun, beats = loop.time(), 0
        while loop.time() < begun + 0.8:
            hf.heartbeat()
            beats += 1
            await asyncio.sleep(0.01)
        return beats

    @app.workflow
    async def flow() -> int:
        return await crunch()

    async with place.open(app) as client:
        assert await within((await client.start(flow.bind())).result()) > 1


async def test_a_step_that_lost_its_run_is_stopped(place: Place, app: hf.App) -> None:
    """Nobody tells the worker: it learns from the refusal of a heartbeat."""
    stopped: list[int] = []

    @app.step
    async def crunch() -> None:
        try:
            while True:
                hf.heartbeat(1)
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            stopped.append(1)
            raise

    @app.workflow
    async def flow() -> None:
        await crunch()

    async with place.open(app, poll=60.0) as client:
        run = await client.start(flow.bind(), id="r")
        await event_of(run, "step.started")
        await progress_of(run)
        engine = client.engine
        worker_of(client)._unlisten()
        await engine.do(TerminateRun(engine.ns, "r", engine.store.now()))
        await until(lambda: stopped == [1])
        assert await run.progress() == ()


async def test_details_are_checked_like_other_values(place: Place, app: hf.App) -> None:
    raised: list[str] = []

    @app.step
    async def crunch() -> None:
        for details in (object(), {1, 2}, (1, 2), "x" * MAX_DETAILS):
            try:
                hf.heartbeat({"it": details})
            except hf.HoldfastError as error:
                raised.append(error.code)

    @app.workflow
    async def flow() -> None:
        await crunch()

    async with place.open(app) as client:
        await within((await client.start(flow.bind())).result())
    assert raised == ["HF111", "HF111", "HF111", "HF113"]


def test_heartbeats_belong_to_steps() -> None:
    for call in (hf.heartbeat, hf.last_heartbeat):
        with pytest.raises(hf.NotInStep):
            call()


async def test_a_retried_run_begins_its_failed_step_anew(place: Place, app: hf.App) -> None:
    seen: list[Any] = []

    @app.step(retry=ONCE)
    async def crunch() -> None:
        seen.append(hf.last_heartbeat())
        hf.heartbeat("far")
        if len(seen) == 1:
            raise ConnectionError

    @app.workflow
    async def flow() -> None:
        await crunch()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        assert await run.progress() == ()
        await run.retry()
        await within(run.result())
    assert seen == [None, None]
