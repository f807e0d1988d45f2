"""W12 of Holdfast: how late timers fire while many runs wait for theirs.

Most runs sleep for a day: parked, a row each. Some sleep for longer than a worker keeps a run in
hand, so that each must be claimed when it is due, all within a second or two. How late a timer is
stands in the history: when it fired, less when it was due, both by the store's clock.
"""

from __future__ import annotations

import asyncio

import holdfast as hf
from benchmarks.driver import percentile
from benchmarks.flows import app

BATCH = 500  # runs started at a time
DAY = 86_400.0
FIRST = 6.0  # seconds until the first timer: beyond `Settings.keep`
APART = 0.01  # seconds between two


@app.workflow
async def sleeper(seconds: float) -> None:
    await hf.sleep(seconds)


async def lateness_figures(
    client: hf.Client, pending: int, timers: int, first: float = FIRST
) -> dict[str, float]:
    """Return how late timers are, of those that come due among many that do not."""
    for begun in range(0, pending, BATCH):
        some = range(begun, min(begun + BATCH, pending))
        await asyncio.gather(*(client.start(sleeper.bind(DAY)) for _ in some))
    seconds = [first + place * APART for place in range(timers)]
    runs = await asyncio.gather(*(client.start(sleeper.bind(each)) for each in seconds))
    await asyncio.gather(*(run.result() for run in runs))
    late = sorted([await _lateness(run) for run in runs])
    return {"late_ms": percentile(late, 0.5), "late_p99_ms": percentile(late, 0.99)}


async def _lateness(run: hf.RunHandle[None]) -> float:
    events = (await run.history()).events
    [fired] = [event for event in events if event.kind == "timer.fired"]
    return (fired.at - int(fired.payload or 0)) / 1_000
