"""The app that bad input is fed to."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import holdfast as hf

app = hf.App("bad-input")
go = hf.Signal("go", int)


@app.workflow
async def order(item: str, cents: int = 100) -> str:
    return f"{item} for {cents}"


@app.workflow
async def loose(data: dict[str, Any]) -> None: ...


@app.workflow
async def waits() -> int:
    return await hf.wait_for(go)


@app.step
async def odd() -> Any:
    return {"file": object()}


@app.step
async def late() -> None:
    raise hf.RetryAfter(math.nan)


NAIVE: Any = datetime(2027, 1, 1)  # noqa: DTZ001 - that is the point

ASKS: dict[str, Callable[[], Awaitable[Any]]] = {
    "negative sleep": lambda: hf.sleep(-1),
    "sleep of NaN": lambda: hf.sleep(math.nan),
    "sleep of two hundred years": lambda: hf.sleep(200 * 366 * 86_400),
    "sleep until a datetime": lambda: hf.sleep(NAIVE),
    "sleep of a text": lambda: hf.sleep("1"),  # type: ignore[arg-type]
    "time-out of NaN": lambda: hf.wait_for(go, timeout=math.nan),
    "step's time-out": lambda: odd.options(timeout=-1)(),
    "object in a result": lambda: odd(),
    "retry after NaN": lambda: late.options(retry=hf.Retry(max_attempts=1))(),
    "unknown argument": lambda: odd(5),  # type: ignore[call-arg]
}


@app.workflow
async def asks(what: str) -> None:
    if what in CONTINUES:
        hf.continue_as_new(CONTINUES[what]())
    await ASKS[what]()


CONTINUES: dict[str, Callable[[], Any]] = {
    "continued without input": lambda: asks,
    "continued as another": lambda: order.bind("lamp"),
    "continued with bad input": lambda: asks.bind(5),  # type: ignore[arg-type]
    "continued at once": lambda: asks.bind("again"),
    "continued after nothing": lambda: asks.bind(str(hf.should_continue(0))),
}


@app.entity
@dataclass
class Tally:
    n: int = 0

    @hf.update
    async def add(self, n: int) -> int:
        self.n += n
        return self.n

    @hf.query
    def total(self) -> int:
        return self.n


@dataclass
class Bare:
    n: int = 0


@dataclass
class Lacking:
    key: str
    n: int

    @hf.query
    def total(self) -> int:
        return self.n


def write(tx: hf.Transaction) -> None:
    """A transaction, once it is one."""
