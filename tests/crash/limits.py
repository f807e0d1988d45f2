"""The scenario of the sweep in which a queue allows two runs at once, and one of each key."""

import asyncio

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect

app = hf.App("crash-limits")
SLOTS = 2
app.queue("narrow", concurrency=SLOTS, key_concurrency=1)
RUNS = {"a1": "a", "a2": "a", "b1": "b"}
KEYS = {**RUNS, "late": "c"}


@app.step
async def hold(seconds: float) -> float:
    effect(seconds)
    await asyncio.sleep(seconds)
    return seconds


@app.workflow(queue="narrow")
async def squeeze() -> float:
    first = await hold(0.5)
    await hf.sleep(2)  # it parks, and holds its slot
    return first + await hold(0.25)


async def run_squeezed(caller: Caller) -> None:
    for id, key in RUNS.items():
        await caller.start(squeeze.bind(), id, queue_key=key)
    await caller.start(squeeze.bind(), "late", queue_key="c", queue_timeout=0.5)
    for id in RUNS:
        ending = await caller.result(id)
        assert ending == ("completed", 0.75), ending
    ending = await caller.result("late")
    assert ending.status in ("timed out", "completed"), ending  # slowly started, it finds room
    await caller.look_at_queues()


def never_too_many_hold(world: World) -> list[str]:
    """I15, by what the world saw: from a run's first effect to its end it holds a slot."""
    first = {run: min(_times(world, run), default=None) for run in KEYS}
    ended = {run.id: run.closed_at for run in world.dump.runs}
    spans = {run: (at, ended[run]) for run, at in first.items() if at is not None and run in ended}
    broken: list[str] = []
    for run, (at, _) in spans.items():
        held = [other for other, (begun, end) in spans.items() if begun <= at < (end or at + 1)]
        if len(held) > SLOTS:
            broken.append(f"I15: {sorted(held)} hold a slot when {run} begins")
        if sum(KEYS[other] == KEYS[run] for other in held) > 1:
            broken.append(f"I15: {sorted(held)} hold a slot when {run} begins, two of one key")
    return broken


def _times(world: World, run: str) -> list[int]:
    return [each.at for each in world.effects if each.run == run and not each.by_zombie]


LIMITS = (Scenario("limits", app, run_squeezed, workers=1, either=True, check=never_too_many_hold),)
