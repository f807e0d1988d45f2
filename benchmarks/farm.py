"""W13 of Holdfast: a run on one worker asks for a step on a queue that another worker serves.

The moment of asking is the end of the step before: its record and the job are one commit. The
moment at which the step begins on the other worker is what it returns, by a clock that all
processes of a machine share. The result is there when the next step begins: it is recorded then.
"""

from __future__ import annotations

import asyncio
import time

import holdfast as hf
from benchmarks.driver import percentile, say

QUEUE = "farm"
REST = 0.005
"""Seconds before each: the other worker is idle again when the next job comes."""

app = hf.App("farm")  # of its own: the workers of other works need not look for jobs


@app.step
async def rest() -> float:
    await asyncio.sleep(REST)
    return time.perf_counter()


@app.step(queue=QUEUE)
async def afar() -> float:
    return time.perf_counter()


@app.step
async def look() -> float:
    return time.perf_counter()


@app.workflow
async def errands(n: int) -> list[tuple[float, float, float]]:
    return [(await rest(), await afar(), await look()) for _ in range(n)]


async def job_figures(client: hf.Client, n: int) -> dict[str, float]:
    """Return how long it takes until a job begins elsewhere, and until its result is there."""
    await (await client.start(errands.bind(3))).result()  # all code is loaded
    times = await (await client.start(errands.bind(n))).result()
    begun = [(began - asked) * 1e3 for asked, began, _ in times]
    done = [(seen - asked) * 1e3 for asked, _, seen in times]
    return {
        "job_ms": percentile(begun, 0.5),
        "job_p99_ms": percentile(begun, 0.99),
        "job_result_ms": percentile(done, 0.5),
    }


async def serve(url: str) -> None:
    """Be the other worker."""
    async with app.open(url, settings=hf.Settings(queues=[QUEUE])):
        say("ready")
        await asyncio.Event().wait()
