"""How a chain is driven: one after another, 50 at a time, or a fixed number for the counters.

Every engine is driven by these same loops, with the same warm-up. Time bounds them, not a
count: a fast engine then runs long enough to be measured and a slow one does not take minutes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.driver import Task, percentile
from benchmarks.work import AT_ONCE, STEPS, Size

WARM_UP = 5
AsyncChain = Callable[[], Awaitable[object]]
Chain = Callable[[], object]


def step_figures(seconds: list[float]) -> dict[str, float]:
    """Turn the times of whole chains into the time of one step."""
    return {
        "step_ms": percentile(seconds, 0.5) * 1e3 / STEPS,
        "step_p99_ms": percentile(seconds, 0.99) * 1e3 / STEPS,
    }


async def measure(chain: AsyncChain, size: Size) -> dict[str, float]:
    """Return W1's figures for an async engine."""
    in_turn = step_figures(await one_after_another(chain, size.chain_seconds))
    return in_turn | {"steps_s": await at_once(chain, size.crowd_seconds)}


def measure_sync(chain: Chain, size: Size) -> dict[str, float]:
    """Return W1's figures for a blocking engine, with a thread for each of the 50."""
    in_turn = step_figures(one_after_another_sync(chain, size.chain_seconds))
    return in_turn | {"steps_s": at_once_sync(chain, size.crowd_seconds)}


def as_exact(figures: dict[str, float]) -> dict[str, float]:
    """Return W11's figures, which are measured as W1's are."""
    return {"exact_ms": figures["step_ms"], "exact_s": figures["steps_s"]}


async def one_after_another(chain: AsyncChain, seconds: float) -> list[float]:
    for _ in range(WARM_UP):
        await chain()
    times: list[float] = []
    deadline = time.perf_counter() + seconds
    while (began := time.perf_counter()) < deadline:
        await chain()
        times.append(time.perf_counter() - began)
    return times


def one_after_another_sync(chain: Chain, seconds: float) -> list[float]:
    for _ in range(WARM_UP):
        chain()
    times: list[float] = []
    deadline = time.perf_counter() + seconds
    while (began := time.perf_counter()) < deadline:
        chain()
        times.append(time.perf_counter() - began)
    return times


async def at_once(chain: AsyncChain, seconds: float) -> float:
    """Keep 50 chains in flight until the time is up; return steps a second."""
    began = time.perf_counter()

    async def caller() -> int:
        done = 0
        while time.perf_counter() - began < seconds:
            await chain()
            done += 1
        return done

    chains = sum(await asyncio.gather(*(caller() for _ in range(AT_ONCE))))
    return chains * STEPS / (time.perf_counter() - began)


def at_once_sync(chain: Chain, seconds: float) -> float:
    began = time.perf_counter()

    def caller(_: int) -> int:
        done = 0
        while time.perf_counter() - began < seconds:
            chain()
            done += 1
        return done

    with ThreadPoolExecutor(AT_ONCE) as threads:
        chains = sum(threads.map(caller, range(AT_ONCE)))
    return chains * STEPS / (time.perf_counter() - began)


async def counted(chain: AsyncChain, task: Task, lanes: int) -> None:
    """Run exactly `task.count` chains, `lanes` at a time: for counters, not for clocks."""
    left = task.count

    async def caller() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await chain()

    await asyncio.gather(*(caller() for _ in range(lanes)))


def counted_sync(chain: Chain, task: Task) -> None:
    for _ in range(task.count):
        chain()
