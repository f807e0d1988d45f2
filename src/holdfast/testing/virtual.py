"""Workflows in virtual time: a month of waiting passes in a moment, and nothing else changes.

    from holdfast.testing import virtual

    async def story(client: hf.Client) -> None:
        run = await client.start(subscription.bind("ada"))
        await asyncio.sleep(30 * 86_400)  # thirty days, at once
        await run.signal(cancelled, None)
        assert await run.result() == "one month"

    virtual.run(app, story)

The engine is the real one, on `memory://`, and replays the history after each commit. When nobody
has anything to do, the clock jumps to the next timer: of a body, of a retry, or of the story. Time
that a step spends computing does not count; `asyncio.sleep` in an async step does. A plain `def`
step runs where it is called, so let it not block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from random import Random
from typing import TypeVar

from holdfast.app import App
from holdfast.client import Client
from holdfast.engines.local import LocalEngine
from holdfast.hosts.worker import Worker
from holdfast.model.settings import Settings
from holdfast.queues import declare as declare_queues
from holdfast.schedules import declare as declare_schedules
from holdfast.stores.memory import MemoryStore
from holdfast.testing.loop import VirtualLoop
from holdfast.testing.threadless import ThreadlessLoop, without_threads

T = TypeVar("T")
YEAR = 366 * 86_400.0

LONGEST = 10 * YEAR
"""Seconds after which a story that has not come to its end is stuck."""


def run(
    app: App,
    story: Callable[[Client], Awaitable[T]],
    *,
    settings: Settings | None = None,
    seed: int = 0,
    longest: float = LONGEST,
) -> T:
    """Tell `story` to an app in virtual time, and return what it returns.

    The same `seed` gives the same jitter between attempts. Raises `TimeoutError` when the story
    takes longer than `longest` virtual seconds: it waits for something that never comes.
    """
    loop = ThreadlessLoop()  # type: ignore[abstract]
    chosen = settings or Settings(paranoid=True)
    # Nobody else shares this store: what only watches over others need never wake.
    calm = replace(chosen, poll=YEAR, renew=YEAR, lease=3 * YEAR)
    try:
        return loop.run(_tell(app, story, calm, Random(seed), longest))
    finally:
        loop.abandon()


async def _tell(
    app: App,
    story: Callable[[Client], Awaitable[T]],
    settings: Settings,
    chance: Random,
    longest: float,
) -> T:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    store = MemoryStore(clock=loop.clock)
    worker = without_threads(
        Worker(app, store, id="virtual", settings=settings, chance=chance.random, threaded=False)
    )
    engine = LocalEngine(store, app.namespace, worker, poll=settings.poll)
    async with AsyncExitStack() as stack:
        await store.open()
        stack.push_async_callback(store.close)
        await declare_queues(store, app.namespace, app.queues)
        engine.open()
        stack.push_async_callback(engine.close)
        await stack.enter_async_context(worker)
        await declare_schedules(store, app.namespace, app.schedules)
        async with asyncio.timeout(longest):
            return await story(Client(app, engine))
