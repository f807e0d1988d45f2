"""W9 and W10 of Holdfast: one run that spreads out over many steps, and one over many children.

Both in one process with a worker of its own. The children of W10 are runs like any other: each is
created in a commit of its parent, claimed, and told to its parent when it closes. A hundred runs
start a thousand each, which is how a million would be done.
"""

from __future__ import annotations

import gc
import time

import holdfast as hf
from benchmarks.calibrate import rss_bytes
from benchmarks.flows import app, single, work

MIB = 1024 * 1024


@app.workflow
async def spread(n: int) -> int:
    return len(await hf.map(work, range(n)))


@app.workflow
async def part(n: int) -> int:
    return len(await hf.map(single, range(n)))


@app.workflow
async def whole(parts: int, each: int) -> int:
    return sum(await hf.map(part, [each] * parts, limit=10))


async def spread_figures(client: hf.Client, n: int) -> dict[str, float]:
    """Return how long a fan-out over steps takes."""
    began = time.perf_counter()
    done = await (await client.start(spread.bind(n))).result()
    if done != n:
        raise RuntimeError(f"{done} steps were done")
    return {"spread_s": time.perf_counter() - began}


async def children_figures(client: hf.Client, parts: int, each: int) -> dict[str, float]:
    """Return how many children are done in a second, and what the process grew by."""
    await (await client.start(whole.bind(2, 10))).result()  # all code is loaded
    gc.collect()
    before, began = rss_bytes(), time.perf_counter()
    done = await (await client.start(whole.bind(parts, each))).result()
    seconds = time.perf_counter() - began
    if done != parts * each:
        raise RuntimeError(f"{done} children were done")
    gc.collect()
    return {"children_s": parts * each / seconds, "family_mib": (rss_bytes() - before) / MIB}
