"""The scenario of the sweep in which jobs and runs share the slots of a queue."""

import asyncio

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Process, Scenario, World, effect
from holdfast.testing.loop import LIFE
from tests.crash.jobs import here

app = hf.App("crash-job-limits")
SLOTS = 2
ENDS: list[tuple[int, str, str]] = []
"""When which process came to the end of which job, in this world."""
app.queue("narrow", concurrency=SLOTS, key_concurrency=1)


@app.step(queue="narrow")
async def squeeze(key: str) -> str:
    effect((here(), key))
    await asyncio.sleep(0.5)
    process = LIFE.get()
    if isinstance(process, Process) and not (process.is_dead or process.was_frozen):
        ENDS.append((process.world.loop.clock(), process.name, key))
    return key


def squeezed(name: str) -> hf.Step[[str], str]:
    return squeeze.options(queue_key=name[0])


@app.workflow
async def crowd() -> list[str]:
    names = ("a1", "a2", "b1")
    return [*await asyncio.gather(*(squeezed(name)(name) for name in names))]


@app.workflow(queue="narrow")
async def inside() -> str:
    """Has its job done in the slot that it holds."""
    return await squeeze("d1")


async def run_crowd(caller: Caller) -> None:
    await caller.start(crowd.bind(), "crowd")
    await caller.start(inside.bind(), "inside", queue_key="d")
    assert await caller.result("crowd") == ("completed", ["a1", "a2", "b1"])
    assert await caller.result("inside") == ("completed", "d1")


def never_too_many_at_once(world: World) -> list[str]:
    """I15, by what the world saw of jobs from their beginning to their end."""
    begun = {each.note: each.at for each in world.effects if not each.by_zombie}
    spans = [(begun[who, name], at, name) for at, who, name in ENDS if (who, name) in begun]
    broken: list[str] = []
    for at, _, name in spans:
        held = [other for since, until, other in spans if since <= at < until]
        if len(held) > SLOTS:
            broken.append(f"I15: {sorted(held)} are done when {name} begins")
        if sum(other[0] == name[0] for other in held) > 1:
            broken.append(f"I15: {sorted(held)} are done when {name} begins, two of one key")
    return broken


JOB_LIMITS = (
    Scenario("job-limits", app, run_crowd, workers=1, prepare=ENDS.clear,
             check=never_too_many_at_once),
)  # fmt: skip
