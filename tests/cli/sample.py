"""An app for the tests of the command line; its steps can be held by a file."""

import asyncio
import os
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import holdfast as hf

app = hf.App("sample")
go = hf.Signal("go", str)


@dataclass
class Order:
    item: str
    cents: int = 100


@app.step
def shout(text: str) -> str:
    return text.upper()


@app.step(retry=hf.Retry(max_attempts=2, initial=0.01))
def explode(text: str) -> str:
    hf.log.info("lighting %s\x1b[31m", text, extra={"fuse": 3})
    raise ValueError(f"no {text}\x1b[31m today")


@app.step
def held(text: str) -> str:
    """Last until the file named by SAMPLE_GATE is there."""
    gate = Path(os.environ["SAMPLE_GATE"])
    gate.with_suffix(".begun").touch()
    while not gate.exists():
        time.sleep(0.01)
    return text


@app.step
def watched(text: str) -> str:
    """As `held`, but it says what it does."""
    hf.log.info("holding")
    hf.heartbeat({"text": text})
    return held.plain(text)


@app.workflow
async def greet(name: str, times: int = 1) -> str:
    return " ".join(await asyncio.gather(*(shout(name) for _ in range(times))))


@app.workflow
async def buy(order: Order) -> str:
    return await shout(f"{order.item} {order.cents}")


@app.workflow
async def fails(text: str) -> str:
    hf.log.info("this will fail")
    await shout(text)
    return await explode(text)


@app.workflow
async def waits() -> str:
    return await hf.wait_for(go)


@app.workflow
async def waits_a_day() -> str:
    return await hf.wait_for(go, timeout=86_400)


@app.workflow(timeout=timedelta(days=30))
async def waits_a_month() -> str:
    return await hf.wait_for(go)


@app.workflow
async def stuck() -> None:
    await asyncio.Event().wait()


@app.workflow
async def slow(text: str) -> str:
    await held(text)
    return await shout(text)


@app.workflow
async def long(text: str) -> str:
    return await watched(text)
