"""The workflows, from chains to jobs, limits and schedules; and what each must come to.

Every step returns the mark of its execution beside its value, and every run returns the marks it
was given. So it shows whose execution was recorded, and that nobody ever saw another.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

import holdfast as hf
from chaos.journal import note, note_end

app = hf.App("chaos")
go = hf.Signal("go", int)

NARROW, NARROW_SLOTS, NARROW_OF_A_KEY = "narrow", 4, 2
FARM, FARM_SLOTS, FARM_OF_A_KEY = "farm", 2, 1
"""Queues with limits: one for runs, one for jobs."""
app.queue(NARROW, concurrency=NARROW_SLOTS, key_concurrency=NARROW_OF_A_KEY)
app.queue(FARM, concurrency=FARM_SLOTS, key_concurrency=FARM_OF_A_KEY)

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


WORKED = "work#"
"""How the keys of steps begin that are done again by whoever takes their run."""


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


TOILED = "toil#"
"""How the keys of jobs begin."""


@app.step(queue=FARM)
async def toil(n: int) -> Done:
    mark = note()
    await asyncio.sleep(0.01 + n % 5 * 0.02)
    note_end(mark)
    return Done(n + 1, mark)


PAID = "pay#"
"""How the keys of steps begin that run at most once."""


@app.step(at_most_once=True)
async def pay(n: int) -> Done:
    mark = note()
    await asyncio.sleep(0.02 + n % 4 * 0.05)
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


@app.workflow(queue=NARROW)
async def narrow(n: int) -> Ending:
    """Hold a slot, also while it is parked."""
    first = await work(n)
    await hf.sleep(0.6 if n % 4 == 0 else 0.01)
    return ending(first, await work(n))


def key_of(n: int) -> str:
    """Return the key under which the n-th run, or job, takes its turn."""
    return f"k{n % 3}"


@app.workflow
async def farmed(n: int) -> Ending:
    """Have steps done by whoever takes them."""
    return ending(
        *await asyncio.gather(*(toil.options(queue_key=key_of(each))(n) for each in range(3)))
    )


@app.workflow
async def once(n: int) -> Ending:
    """Do a step at most once, and live with not knowing."""
    try:
        return ending(await pay(n))
    except hf.StepOutcomeUnknown:
        return Ending(n + 1, [])


HAULED = "haul#"
"""How the keys of steps begin whose results are kept as blobs."""
HEAVY = 300_000


@app.step
async def haul(n: int) -> str:
    note()
    return f"{n:08}" * (HEAVY // 8)


@app.workflow
async def bulky(n: int) -> Ending:
    """Carry what is too large for a row past a wait."""
    load = await haul(n)
    await hf.sleep(0.7 if n % 3 == 0 else 0.01)
    if load != f"{n:08}" * (HEAVY // 8):
        raise ValueError("that is another load")
    return ending(await work(n))


TICK, EVERY = "tick", 1


@app.workflow
async def ticked(n: int) -> Ending:
    """Be started by the clock."""
    return ending(await work(n))


app.schedule(TICK, ticked.bind(0), hf.Schedule(every=EVERY, overlap=hf.Overlap.ALLOW))

SHAPES = (chain, fan, timers, mail, retries, stopped, raced, ledger, narrow, farmed, once, bulky)


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
    steps = {
        "timers": 3, "retries": 3, "raced": 5, "ledger": 5, "narrow": 2, "farmed": 3, "once": 1,
        "bulky": 1,
    }  # fmt: skip
    return steps[workflow] * (n + 1)
