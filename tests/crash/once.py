"""The scenario of the sweep in which steps run at most once."""

import asyncio

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect

app = hf.App("crash-once")
UNKNOWN = -1


@app.step
async def prepare(n: int) -> int:
    effect(n)
    return n


@app.step(at_most_once=True)
async def pay(cents: int, seconds: float) -> int:
    effect(cents)
    await asyncio.sleep(seconds)
    return cents


async def paid(cents: int, seconds: float) -> int:
    try:
        return await pay(cents, seconds)
    except hf.StepOutcomeUnknown:
        return UNKNOWN


@app.workflow
async def paying() -> list[int]:
    first = await paid(await prepare(10), 0)
    return [first, *await asyncio.gather(paid(20, 1.0), paid(30, 0), prepare(40))]


async def run_paying(caller: Caller) -> None:
    await caller.start(paying.bind(), "paying")
    status, told = await caller.result("paying")
    assert status == "completed"
    assert all(got in (wanted, UNKNOWN) for got, wanted in zip(told, (10, 20, 30, 40), strict=True))


def nothing_is_paid_twice(world: World) -> list[str]:
    """I13: what runs at most once has run at most once; what is known to have run, has."""
    ran = [each.key for each in world.effects if "pay#" in each.key]
    events = world.dump.events.get(("default", "paying"), ())
    known = [e.key for e in events if e.kind == "step.completed" and "pay#" in e.key]
    twice = [f"I13: {key} ran {ran.count(key)} times" for key in set(ran) if ran.count(key) > 1]
    return twice + [f"I13: {key} is recorded, and never ran" for key in known if key not in ran]


ONCE_ONLY = (
    Scenario("at-most-once", app, run_paying, workers=1, either=True, check=nothing_is_paid_twice),
)
