"""Scenarios of parents and children, for the sweep."""

import asyncio

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect

app = hf.App("families")
go = hf.Signal("go", int)
ONCE = hf.Retry(max_attempts=1)


@app.step(retry=ONCE)
async def work(n: int) -> int:
    effect(n)
    if n < 0:
        raise ValueError(f"no {n}")
    return n * 10


@app.workflow
async def part(n: int) -> int:
    return await work(n)


@app.workflow
async def waits(n: int) -> int:
    try:
        return await hf.wait_for(go)
    except asyncio.CancelledError:
        await work(n)
        raise


# --- awaited, side by side and one after the other; one fails


@app.workflow
async def whole() -> list[int]:
    first = [*await asyncio.gather(part(1), part(2))]
    try:
        await part(-3)
    except hf.ChildFailed as failed:
        first.append(len(failed.child))
    return first


async def run_whole(caller: Caller) -> None:
    await caller.start(whole.bind(), "whole")
    assert await caller.result("whole") == ("completed", [10, 20, 12])


# --- started, talked to, and awaited later


@app.workflow
async def talks() -> int:
    child = await hf.start_child(waits.bind(1), id="listener")
    before = await work(2)
    child.signal(go, before)
    return await child.result()


async def run_talk(caller: Caller) -> None:
    await caller.start(talks.bind(), "talks")
    assert await caller.result("talks") == ("completed", 20)


# --- a close that ends one child, cancels another and leaves the third alone


@app.workflow
async def leaves() -> str:
    await hf.start_child(waits.bind(1), id="ended")
    await hf.start_child(waits.bind(2), id="asked", on_parent_close="cancel")
    await hf.start_child(waits.bind(3), id="alone", on_parent_close="abandon")
    return "left"


async def run_leaving(caller: Caller) -> None:
    await caller.start(leaves.bind(), "leaves")
    assert await caller.result("leaves") == ("completed", "left")
    assert (await caller.result("ended")).status == "was terminated"
    assert (await caller.result("asked")).status == "was cancelled"
    await caller.signal("alone", go, 7, id="go")
    assert await caller.result("alone") == ("completed", 7)


# --- a cancel that flows down


@app.workflow
async def asks_in_vain() -> int:
    return await waits.options(id="below")(5)


async def run_cancelled(caller: Caller) -> None:
    await caller.start(asks_in_vain.bind(), "above")
    await caller.sleep(1)
    await caller.cancel("above")
    assert (await caller.result("above")).status == "was cancelled"


# --- a retry that starts what failed anew, and finds what it left alone


@app.workflow
async def tries() -> list[int]:
    lasting = await hf.start_child(waits.bind(1), id="lasting", on_parent_close="abandon")
    failed = await part(-1)
    return [failed, await lasting.result()]


async def run_retry(caller: Caller) -> None:
    await caller.start(tries.bind(), "tries")
    assert (await caller.result("tries")).status == "failed"
    await caller.signal("lasting", go, 7, id="go")
    assert await caller.result("lasting") == ("completed", 7)
    await caller.retry("tries")
    assert (await caller.result("tries")).status == "failed"


# --- an id that is taken


@app.workflow
async def conflicts() -> list[str]:
    found = await asyncio.gather(part.options(id="taken")(2), part(3), return_exceptions=True)
    return [str(each) if isinstance(each, int) else type(each).__name__ for each in found]


async def run_conflict(caller: Caller) -> None:
    await caller.start(part.bind(1), "taken")
    assert await caller.result("taken") == ("completed", 10)
    await caller.start(conflicts.bind(), "conflicts")
    assert await caller.result("conflicts") == ("completed", ["ChildFailed", "30"])


# --- fan-out: by steps and by children; one item fails


@app.workflow
async def maps() -> list[int]:
    found = await hf.map(work, [1, -2, 3], limit=2, tolerate=1)
    below = await hf.map(part, [7, 8], limit=1)
    return [*(item.value for item in found if item.ok), *below]


async def run_maps(caller: Caller) -> None:
    await caller.start(maps.bind(), "maps")
    assert await caller.result("maps") == ("completed", [10, 30, 70, 80])


def each_end_is_told_once(world: World) -> list[str]:
    """Return the children of which a history tells more than one end in a generation."""
    found: list[str] = []
    for (_, run), events in world.dump.events.items():
        ends = [(e.generation, e.key) for e in events if e.kind == "child.closed"]
        found += [f"{run}: {key} ended twice" for key in set(ends) if ends.count(key) > 1]
    return found


FAMILIES = (
    Scenario(
        "children", app, run_whole, workers=1, flavours=("stall",), check=each_end_is_told_once
    ),
    Scenario("child-talk", app, run_talk, workers=1, check=each_end_is_told_once),
    Scenario("parent-closes", app, run_leaving),
    Scenario("cancel-below", app, run_cancelled, either=True),
    Scenario("parent-retried", app, run_retry, check=each_end_is_told_once),
    Scenario("child-conflict", app, run_conflict),
    Scenario("map", app, run_maps, flavours=("stall",), check=each_end_is_told_once),
)
