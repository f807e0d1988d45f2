"""A loop that stands still is noticed and named; its lease lives on, until it has been deaf."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, kinds, until, within, worker_of

LIMIT = 20


class Told(logging.Handler):
    """What the watch said, for code that blocks until it was said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._more = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._more:
            self.lines.append(record.getMessage())
            self._more.notify_all()

    def wait(self, holds: Callable[[list[str]], bool]) -> bool:
        """Block this thread, and with it the loop that runs here."""
        with self._more:
            return self._more.wait_for(lambda: holds(self.lines), LIMIT)

    def about(self, word: str) -> list[str]:
        return [line for line in self.lines if word in line]


@pytest.fixture
def told() -> Iterator[Told]:
    handler = Told()
    log = logging.getLogger("holdfast.worker")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


async def test_a_body_that_computes_long_is_named(place: Place, app: hf.App, told: Told) -> None:
    @app.workflow
    async def flow() -> int:
        while not told.lines:  # no call of ours in which it could be seen instead of here
            sum(range(1_000))
        return 1

    async with place.open(app, slow_turn=0.05, paranoid=False) as client:
        run = await client.start(flow.bind(), id="order")
        assert await within(run.result(), LIMIT) == 1
    line = told.about("has computed for")[0]
    assert "the body of run order (flow)" in line
    assert "test_watch.py:" in line
    assert "in flow" in line


async def test_a_step_that_blocks_the_loop_is_named_and_ends_once(
    place: Place, app: hf.App, told: Told
) -> None:
    calls: list[str] = []

    @app.step
    async def blocks() -> bool:
        calls.append("blocks")
        # Told at one, two and four times the limit: by then the lease would be over.
        return told.wait(lambda lines: sum("blocked for" in line for line in lines) >= 3)

    @app.step
    async def child() -> bool:
        return await asyncio.create_task(inner())

    async def inner() -> bool:
        return told.wait(lambda lines: any("step child#1" in line for line in lines))

    @app.workflow
    async def flow() -> list[bool]:
        return [await blocks(), await child()]

    settings: Any = {"lease": 0.4, "renew": 0.1, "slow_loop": 0.2}
    async with place.open(app, **settings) as client:
        run = await client.start(flow.bind(), id="order")
        assert await within(run.result(), LIMIT) == [True, True]
        assert await kinds(run) == [
            "run.started", "step.completed", "step.completed", "run.completed",
        ]  # fmt: skip
        assert worker_of(client).refusals == 0
    assert calls == ["blocks"]
    line = told.about("step blocks#1 of run order")[0]
    assert "test_watch.py:" in line
    assert told.about("step child#1 of run order")


async def test_a_worker_without_runs_is_not_watched(place: Place, app: hf.App) -> None:
    going = asyncio.Event()

    @app.step
    async def wait() -> int:
        await going.wait()
        going.clear()
        return 1

    @app.workflow
    async def flow() -> int:
        return 1

    @app.workflow
    async def waits() -> int:
        return await wait()

    loop, ticks, looks = asyncio.get_running_loop(), 0, 0
    call = loop.call_soon_threadsafe

    def counted(callback: Callable[..., object], *args: object, **more: Any) -> asyncio.Handle:
        nonlocal ticks
        ticks += threading.current_thread().name == "holdfast-watch"
        return call(callback, *args, **more)

    async with place.open(app, slow_turn=0.01) as client:
        watch: Any = vars(worker_of(client))["_watch"]
        is_needed = watch._is_needed

        def looked() -> bool:
            nonlocal looks
            looks += 1
            return is_needed()

        vars(loop)["call_soon_threadsafe"], watch._is_needed = counted, looked
        assert await within((await client.start(flow.bind())).result()) == 1  # the thread begins
        for n in range(3):
            await until(lambda: not worker_of(client).sessions)
            before, looked_before = ticks, looks
            await until(lambda: looks > looked_before + 2)  # noqa: B023 - called right here
            assert ticks <= before + 1, "nobody but a look that was under way"
            waiting = await client.start(waits.bind(), id=f"run-{n}")
            await until(lambda: ticks > before + 1)  # noqa: B023
            going.set()
            assert await within(waiting.result()) == 1
        del vars(loop)["call_soon_threadsafe"]


async def test_nothing_is_watched_if_no_limit_is_set(place: Place, app: hf.App) -> None:
    before = {thread.name for thread in threading.enumerate()}
    async with place.open(app, slow_turn=0, slow_loop=0, deaf=0):
        assert "holdfast-watch" not in {t.name for t in threading.enumerate()} - before


class Elsewhere:
    """A worker on a loop and a thread of its own, as if in another process."""

    def __init__(self, app: hf.App, url: str, settings: hf.Settings) -> None:
        self._app, self._url, self._settings = app, url, settings
        self._leave: Callable[[], object] = lambda: None
        self.refusals = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()))

    async def _work(self) -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        self._leave = lambda: loop.call_soon_threadsafe(stop.set)
        async with self._app.open(self._url, settings=self._settings) as client:
            self._ready.set()
            await stop.wait()
            await until(lambda: not worker_of(client).sessions)
            self.refusals = worker_of(client).refusals

    def __enter__(self) -> "Elsewhere":
        self._thread.start()
        assert self._ready.wait(LIMIT)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        self._thread.join(LIMIT)


@pytest.mark.parametrize("deaf", [0.0, 0.5])
async def test_a_deaf_worker_gives_its_runs_to_others(
    tmp_path: Path, told: Told, deaf: float
) -> None:
    """Without `deaf` nothing is stolen from a worker that is blocked beyond its lease."""
    url, app = f"sqlite:///{tmp_path / 'engine.db'}", hf.App("shop")
    blocked, free = threading.Event(), threading.Event()
    calls: list[str] = []

    @app.step
    async def blocks() -> str:
        calls.append(threading.current_thread().name)
        if len(calls) == 1:
            blocked.set()
            free.wait(LIMIT)
        return threading.current_thread().name

    @app.workflow
    async def flow() -> str:
        return await blocks()

    times: Any = {"lease": 2.0, "renew": 0.2, "poll": 0.05}
    sleeper = hf.Settings(**times, slow_loop=0.1, deaf=deaf)
    async with app.open(url, worker=False) as client:
        run = await client.start(flow.bind(), id="order")
        with Elsewhere(app, url, sleeper) as other:
            await until(blocked.is_set)
            async with app.open(url, settings=hf.Settings(**times)):
                if deaf:
                    assert await within(run.result(), LIMIT) == "MainThread"
                else:
                    await until(lambda: len(told.about("blocked for")) >= 6)  # 3.2 s
                free.set()
                result = await within(run.result(), LIMIT)
        assert await kinds(run) == ["run.started", "step.completed", "run.completed"]
    taken_over = (result == "MainThread", other.refusals, len(calls))
    assert taken_over == ((True, 1, 2) if deaf else (False, 0, 1))
    assert bool(told.about("renewed no more")) == bool(deaf)
