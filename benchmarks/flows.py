"""The workflows that Holdfast is measured with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import holdfast as hf
from benchmarks.work import small_result

app = hf.App("bench")
go = hf.Signal("go", int)


class Here:
    """What this process does at a last step, and what it has seen."""

    on_last_step: Callable[[], None]
    waiting = 0
    done = 0


@app.step
async def work(i: int) -> dict[str, object]:
    return small_result(i)


@app.step
async def last_step() -> None:
    Here.on_last_step()
    await asyncio.Event().wait()


@app.step
async def third_step(i: int) -> dict[str, object]:
    Here.done += 1
    return small_result(i)


@app.workflow
async def chain(n: int) -> int:
    done = 0
    for i in range(n):
        done += bool(await work(i))
    return done


@app.workflow
async def fan(n: int) -> int:
    results = await asyncio.gather(*(work(i) for i in range(n)))
    return sum(int(str(result["i"])) for result in results)


@app.workflow
async def single(i: int) -> dict[str, object]:
    return await work(i)


@app.workflow
async def three(i: int) -> dict[str, object]:
    await work(i)
    await work(i)
    return await third_step(i)


@app.workflow
async def long(n: int) -> None:
    for i in range(n):
        await work(i)
    await last_step()


@app.workflow
async def waiter() -> int:
    Here.waiting += 1
    return await hf.wait_for(go)
