"""W14 of Holdfast: what it costs to encrypt payloads.

Chains on a store with a key ring take turns with chains on one without. What is told is the time
of the processor: a disk that others use changes its pace within seconds, and encryption is work of
the processor alone.
"""

from __future__ import annotations

import time
from statistics import median

import holdfast as hf
from benchmarks.flows import chain
from benchmarks.pace import WARM_UP, one_after_another
from benchmarks.work import STEPS

RING = hf.KeyRing({"bench": bytes(32)})
TURN = 0.1  # seconds of the one, then of the other


async def sealing_figures(plain: hf.Client, sealed: hf.Client, seconds: float) -> dict[str, float]:
    """Return what a step costs more whose payloads are encrypted."""
    costs = [
        (await _step_us(plain), await _step_us(sealed))
        for _ in range(max(3, round(seconds / TURN)))
    ]
    return {
        "sealed_us": median(there - here for here, there in costs),
        "sealed_ratio": median(there / here for here, there in costs),
    }


async def _step_us(client: hf.Client) -> float:
    async def one() -> None:
        await (await client.start(chain.bind(STEPS))).result()

    began = time.process_time()
    done = len(await one_after_another(one, TURN)) + WARM_UP
    return (time.process_time() - began) / (done * STEPS) * 1e6
