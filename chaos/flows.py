"""The workflows: chains, fan-out, timers, signals, retries, cancels; and what each must come to.

Every step returns the mark of its execution beside its value, and every run returns the marks it
was given. So it shows whose execution was recorded, and that nobody ever saw another.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

import holdfast as hf
from chaos.journal import note

app = hf.App("chaos")
go = hf.Signal("go", int)

SIGNALS = 3
PARTS = 5
FAILS = 2


@dataclass(frozen=True)
class Done:
    """What a step returns."""

    value: int
    mark: str


@dataclass(frozen=True)
class Ending:
    """What a run returns: a number that is known beforehand, and the marks it was given."""

    value: int
    marks: list[str]


@app.step
async def work(n: int) -> Done:
    mark = note()
    # Some take long: while they run again elsewhere, the first one to run them may wake up.
    await asyncio.sleep(0.5 if n % 11 == 0 else 0.01 + n % 7 * 0.03)
    return Done(n + 1, mark)


@app.step
def grind(n: int) -> Done:
    mark = note()
    threading.Event().wait(0.02 + n % 3 * 0.05)
    return Done(n + 1, mark)


@app.step(retry=hf.Retry(max_attempts=FAILS + 1, initial=0.05))
async def stumble(n: int) -> Done:
    mark = note()
    await asyncio.sleep(0.02)
    if hf.attempt() <= FAILS:
        raise ConnectionError("try again")
    return Done(n + 1, mark)


@app.step
async def undo(n: int) -> Done:
    mark = note()
    await asyncio.sleep(0.05)
    return Done(n - 1, mark)


BOOKED = "book#"
"""How the keys of transactions begin."""


@app.transaction(retry=hf.Retry(initial=0.05))
def book(tx: hf.Transaction, n: int) -> Done:
    mark = note()
    tx.execute(
        "INSERT INTO chaos_bookings (place, mark) VALUES (:place, :mark)",
        place=hf.idempotency_key(), mark=mark,
    )  # fmt: skip
    threading.Event().wait(0.002 + n % 5 * 0.002)  # for a fault to come in between
    return Done(n + 1, mark)


def ending(*done: Done) -> Ending:
    return Ending(sum(each.value for each in done), [each.mark for each in done])


@app.workflow
async def chain(n: int) -> Ending:
    first = await work(n)
    second = await grind(first.value)
    third = await work(second.value)
    return ending(first, second, third, await work(third.value))


@app.workflow
async def fan(n: int) -> Ending:
    parts = await asyncio.gather(*(work(n + part) for part in range(PARTS)), grind(n))
    return ending(*parts, await work(sum(part.value for part in parts)))


@app.workflow
async def timers(n: int) -> Ending:
    before = await work(n)
    await hf.sleep(0.1)
    between = await work(n)
    await hf.sleep(1.2)  # longer than a run is kept in hand: it parks
    return ending(before, between, await work(n))


@app.workflow
async def mail(n: int) -> Ending:
    return ending(*[await work(await hf.wait_for(go)) for _ in range(SIGNALS)])


@app.workflow
async def retries(n: int) -> Ending:
    return ending(await stumble(n), await grind(n), await stumble(n))


@app.workflow
async def stopped(n: int) -> Ending:
    """Wait for ever; when cancelled, clean up by a step."""
    try:
        await work(n)
        await hf.wait_for(go)
    finally:
        await undo(n)
    return ending()


@app.workflow
async def raced(n: int) -> Ending:
    """Be cancelled at any moment, or end before."""
    return ending(*[await work(n) for _ in range(5)])


@app.workflow
async def ledger(n: int) -> Ending:
    """Write to a table of its own, exactly once for each step."""
    first = await book(n)
    parts = await asyncio.gather(book(n), work(n), book(n))
    return ending(first, *parts, await book(n))


SHAPES = (chain, fan, timers, mail, retries, stopped, raced, ledger)


def signalled(n: int) -> list[int]:
    """Return the values that the driver sends to the n-th run of `mail`."""
    return [n * 10 + each for each in range(SIGNALS)]


def wanted(workflow: str, n: int) -> int:
    """Return the number that a run must come to if it completes."""
    if workflow == "chain":
        return sum(n + each for each in (1, 2, 3, 4))
    if workflow == "fan":
        parts = [n + part + 1 for part in range(PARTS)] + [n + 1]
        return sum(parts) + sum(parts) + 1
    if workflow == "mail":
        return sum(value + 1 for value in signalled(n))
    return {"timers": 3, "retries": 3, "raced": 5, "ledger": 5}[workflow] * (n + 1)
