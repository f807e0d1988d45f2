"""W8 of Holdfast: a long queue of short runs, one worker process, then a second beside it.

All runs are in the store before the first worker starts. One worker does the first half: its
rate must not fall and its memory must not grow. A second joins for the rest. Before and after
the queue is filled, claims are timed at the store itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from subprocess import Popen
from typing import NamedTuple

from benchmarks.calibrate import rss_bytes
from benchmarks.driver import child, percentile, say
from benchmarks.flows import Here, app, three
from holdfast.compose import store_of
from holdfast.model.writes import Claim
from holdfast.ports.store import Store

BATCH = 500  # runs started at a time
CLAIMS = 40
LEASE = 1  # microseconds: what is claimed to be timed is free again at once
TICKS = 100  # reports of a worker while it does half of the work


class Tick(NamedTuple):
    """What a worker had done at a moment, and the memory it held."""

    at: float
    done: int
    kib: float


class Worker:
    """A worker process, heard by a thread of its own."""

    def __init__(self, process: Popen[str]) -> None:
        self.ticks: list[Tick] = []
        self._process = process
        threading.Thread(target=self._hear, daemon=True).start()

    @property
    def done(self) -> int:
        return self.ticks[-1].done if self.ticks else 0

    def _hear(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("tick:"):
                done, kib = line.removeprefix("tick:").split()
                self.ticks.append(Tick(time.perf_counter(), int(done), float(kib)))


async def figures_of(module: str, url: str, n: int) -> dict[str, float]:
    """Return W8's figures, in the store at `url`, which must be new."""
    async with opened(url) as store:
        empty = await claims_of_one(store, url)
        await fill(url, n)
        full = await claims(store)
    figures = {"claim_ms": empty, "claim_full_ms": full, "claim_ratio": full / empty}
    every = max(1, n // 2 // TICKS)
    with child(module, "tick", url, every) as process:
        first = Worker(process)
        await until(lambda: first.done >= n // 2, first)
        with child(module, "tick", url, every) as other:
            figures |= await together(first, Worker(other), n)
    return figures | alone([tick for tick in first.ticks if tick.done <= n // 2])


async def together(first: Worker, second: Worker, n: int) -> dict[str, float]:
    """Return the rate of two workers, from the second's first report until little is left."""
    most = n - n // 20  # then the queue runs dry
    await until(lambda: bool(second.ticks) or first.done >= most, first, second)
    began, before = time.perf_counter(), first.done + second.done
    if before >= most:
        return {}
    await until(lambda: first.done + second.done >= most, first, second)
    return {"two_s": (first.done + second.done - before) / (time.perf_counter() - began)}


def alone(ticks: list[Tick]) -> dict[str, float]:
    """Return what one worker's reports tell: its rate, whether it fell, whether memory grew."""
    tenth = max(1, len(ticks) // 10)
    start, early, late, end = (ticks[i] for i in (0, tenth, -1 - tenth, -1))
    return {
        "many_s": rate(start, end),
        "flat": rate(late, end) / rate(start, early),
        "growth_kib": (end.kib - early.kib) / (end.done - early.done),
    }


def rate(start: Tick, end: Tick) -> float:
    return (end.done - start.done) / (end.at - start.at)


async def until(is_so: Callable[[], bool], *workers: Worker) -> None:
    while not is_so():
        for worker in workers:
            if worker._process.poll() is not None:
                raise RuntimeError("a worker ended before its work")
        await asyncio.sleep(0.01)


async def fill(url: str, n: int) -> None:
    async with app.open(url, worker=False) as client:
        for first in range(0, n, BATCH):
            count = min(BATCH, n - first)
            await asyncio.gather(*(client.start(three.bind(i)) for i in range(count)))


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = store_of(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def claims_of_one(store: Store, url: str) -> float:
    """Return the milliseconds of a claim that finds one run, and nothing else in the queue."""
    times = []
    async with app.open(url, worker=False) as client:
        for i in range(CLAIMS):
            run = await client.start(three.bind(i))
            times.append(await claim(store))
            await run.terminate("only claimed")
    return percentile(times, 0.5)


async def claims(store: Store) -> float:
    return percentile([await claim(store) for _ in range(CLAIMS)], 0.5)


async def claim(store: Store) -> float:
    asked = Claim(app.namespace, "bench", app.versions.claims(), limit=1, lease=LEASE, eager=True)
    began = time.perf_counter()
    claimed = await store.claim(asked)
    took = (time.perf_counter() - began) * 1e3
    if len(claimed.runs) != 1:
        raise RuntimeError("a claim found another number of runs than one")
    return took


async def tick(url: str, every: str) -> None:
    """Work, and report each time so many runs are done."""
    reported = 0
    async with app.open(url):
        while True:
            if Here.done >= reported + int(every):
                reported = Here.done
                say("tick", f"{reported} {rss_bytes() / 1024}")
            await asyncio.sleep(0.005)
