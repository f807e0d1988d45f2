"""Scenarios of queries, updates and starts with a first message."""

import asyncio

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect

app = hf.App("crash-talk")
add = hf.Update("add", str, list[str])
late = hf.Update("late", int)
put = hf.Update("put", int, int)
taken = hf.Query("taken", int)
done = hf.Signal("done", int)
number = hf.Signal("number", int)


@app.step
async def reserve(name: str) -> str:
    effect(name)
    if name == "bomb":
        raise hf.NonRetryable("not for sale")
    return name.upper()


# --- updates: carried out, refused, failed, repeated; one that waits for its handler


@app.workflow
async def cart() -> list[str]:
    items: list[str] = []

    async def take(name: str) -> list[str]:
        items.append(await reserve(name))
        return list(items)

    def check(name: str) -> None:
        if not name:
            raise ValueError("an item has a name")

    hf.handle(add, take, validate=check)
    hf.handle(taken, lambda: len(items))
    await hf.wait_for(done)
    hf.handle(late, lambda: len(items))
    await hf.wait_for(done)
    await hf.handlers_finished()
    return items


async def run_updates(caller: Caller) -> None:
    await caller.start(cart.bind(), "cart")
    assert await caller.update("cart", add, "lamp", "u1") == ("completed", ["LAMP"])
    assert await caller.update("cart", add, "", "u2") == ("rejected", "ValueError")
    assert await caller.query("cart", taken) >= 1
    assert await caller.update("cart", add, "bomb", "u3") == ("failed", "StepFailed")
    await caller.post("cart", late, None, "u4")
    await caller.sleep(1)
    await caller.signal("cart", done, 1, id="first")
    assert (await caller.update("cart", late, None, "u4")).status == "completed"
    assert await caller.update("cart", add, "", "u2") == ("rejected", "ValueError")
    await caller.signal("cart", done, 2, id="second")
    assert await caller.result("cart") == ("completed", ["LAMP"])
    assert await caller.update("cart", add, "lamp", "u1") == ("completed", ["LAMP"])
    assert await caller.query("cart", taken) == 1


def refusals_leave_no_trace(world: World) -> list[str]:
    events = world.dump.events["default", "cart"]
    return [f"{event.kind} {event.key}" for event in events if event.key.endswith("/u2")]


# --- handlers at work while their worker is asked to stop


@app.step
async def slow(n: int) -> int:
    effect(n)
    await asyncio.sleep(3)
    return n


@app.workflow
async def patient() -> int:
    found = 0

    async def more(n: int) -> int:
        nonlocal found
        done_by_then = await slow(n)
        found += done_by_then  # not `found += await ...`, which reads it before it waits
        return n

    hf.handle(put, more)
    await hf.wait_for(done)
    await hf.handlers_finished()
    return found


async def run_patient(caller: Caller) -> None:
    await caller.start(patient.bind(), "patient")
    await caller.post("patient", put, 1, "u1")
    await caller.sleep(1)
    await caller.post("patient", put, 2, "u2")
    assert await caller.update("patient", put, 1, "u1") == ("completed", 1)
    assert await caller.update("patient", put, 2, "u2") == ("completed", 2)
    await caller.signal("patient", done, 1, id="done")
    assert await caller.result("patient") == ("completed", 3)


# --- a run and its first message come together; each message counts once


@app.workflow
async def total(name: str) -> int:
    found = 0

    def more(n: int) -> int:
        nonlocal found
        found += n
        return found

    hf.handle(put, more)
    while (n := await hf.wait_for(number)) > 0:
        found += n
        await reserve(name)
    await hf.handlers_finished()
    return found


async def run_with_start(caller: Caller) -> None:
    for n in (1, 2):
        await caller.signal_with_start(total.bind("ada"), number, n, "total", f"signal-{n}")
    told = await caller.update_with_start(total.bind("ada"), put, 10, "total", "u1")
    assert told.status == "completed"
    await caller.update_with_start(total.bind("bob"), put, 5, "other", "u2")
    for run in ("total", "other"):
        await caller.signal(run, number, 0, id="over")
    assert await caller.result("total") == ("completed", 13)
    assert await caller.result("other") == ("completed", 5)


def no_run_without_its_message(world: World) -> list[str]:
    first = {"total": "signal-1", "other": "u2"}
    found = {run.id: [m.id for m in world.dump.inbox[run.ns, run.id]] for run in world.dump.runs}
    return [
        f"run {run} began with {ids[:1]}" for run, ids in found.items() if ids[:1] != [first[run]]
    ]


TALK = (
    Scenario("updates", app, run_updates, apart=True, workers=2, check=refusals_leave_no_trace),
    Scenario(
        "update-deploy",
        app,
        run_patient,
        apart=True,
        workers=2,
        deploys_at=1.5,
        flavours=("stall",),
    ),
    Scenario("with-start", app, run_with_start, check=no_run_without_its_message),
)
