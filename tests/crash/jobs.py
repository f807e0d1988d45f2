"""The scenarios of the sweep in which steps are done as jobs, on other workers."""

import asyncio

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect
from holdfast.testing.loop import LIFE

app = hf.App("crash-jobs")
UNKNOWN = -1


@app.step
async def prepare(n: int) -> int:
    effect(n)
    return n


def here() -> str:
    """Return the process that runs a step."""
    life = LIFE.get()
    return "" if life is None else life.name


@app.step(queue="gpu", retry=hf.Retry(max_attempts=3, initial=1, jitter=False))
async def render(n: int) -> int:
    effect(here())
    if n == 2 and hf.attempt() == 1:
        raise ConnectionError("the first time it never works")
    await asyncio.sleep(n / 10)
    return n * 10


@app.step(queue="gpu")
async def long(n: int) -> int:
    """Tell how far it is, and go on from there."""
    effect(here())
    for place in range(hf.last_heartbeat(int) or 0, n):
        hf.heartbeat(place + 1)
        await asyncio.sleep(0.7)
    return n


@app.workflow
async def rendering() -> list[int]:
    first = await prepare(1)
    return [await render(first), *await asyncio.gather(render(2), prepare(3), long(2))]


async def run_rendering(caller: Caller) -> None:
    await caller.start(rendering.bind(), "rendering")
    assert await caller.result("rendering") == ("completed", [10, 20, 3, 2])


def who_holds_it_hands_it_in(world: World) -> list[str]:
    """An outcome is of the process that took the job last, not of one that lost it."""
    wrong = list[str]()
    for wait in world.dump.waits:
        took = [
            each.note
            for each in world.effects
            if (each.key, each.number) == (wait.key, wait.attempt) and not each.by_zombie
        ]
        if wait.kind == "job" and wait.state == "answered" and took and took[-1] != wait.by:
            wrong.append(f"{wait.key} is the outcome of {wait.by}, and {took[-1]} held the job")
    return wrong + no_ghost_goes_on(world)


@app.step(queue="gpu")
async def slow(n: int) -> int:
    """Still runs on its second worker when the first, which was frozen, wakes with a result."""
    effect(here())
    await asyncio.sleep(40)
    return n


@app.workflow
async def alone() -> int:
    return await slow(2)


async def run_alone(caller: Caller) -> None:
    await caller.start(alone.bind(), "alone")
    assert await caller.result("alone") == ("completed", 2)


# --- jobs that are called off


@app.step(queue="gpu")
async def endless(n: int) -> int:
    effect(n)
    await asyncio.sleep(30)
    return n


@app.workflow
async def giving_up() -> str:
    try:
        async with asyncio.timeout(1):
            await endless(1)
    except TimeoutError:
        return f"gave up, {await render(1)}"
    return "was too late"


async def run_giving_up(caller: Caller) -> None:
    await caller.start(giving_up.bind(), "giving-up")
    status, told = await caller.result("giving-up")
    assert (status, told) in (("completed", "gave up, 10"), ("completed", "was too late"))


@app.workflow
async def cancelled() -> int:
    try:
        return await endless(1)
    finally:
        await prepare(9)


async def run_cancelled(caller: Caller) -> None:
    await caller.start(cancelled.bind(), "cancelled-job")
    await caller.sleep(1)
    await caller.cancel("cancelled-job")
    assert (await caller.result("cancelled-job")).status in ("was cancelled", "completed")


def no_ghost_goes_on(world: World) -> list[str]:
    """Nothing is left of what was called off, and it did not begin once more."""
    left = [f"job {job.key} is left of run {job.run}" for job in world.dump.jobs]
    closed = {run.id: run.closed_at or 0 for run in world.dump.runs}
    late = [
        f"{each.key} began after its run {each.run} had ended"
        for each in world.effects
        if not each.by_zombie and 0 < closed.get(each.run, 0) < each.at
    ]
    return left + late


# --- at most once


@app.step(queue="bank", at_most_once=True)
async def pay(cents: int) -> int:
    effect(cents)
    await asyncio.sleep(0.5)
    return cents


@app.workflow
async def paying() -> list[int]:
    async def paid(cents: int) -> int:
        try:
            return await pay(cents)
        except hf.StepOutcomeUnknown:
            return UNKNOWN

    return [*await asyncio.gather(paid(10), paid(20))]


async def run_paying(caller: Caller) -> None:
    await caller.start(paying.bind(), "paying-jobs")
    status, told = await caller.result("paying-jobs")
    assert status == "completed"
    assert all(got in (wanted, UNKNOWN) for got, wanted in zip(told, (10, 20), strict=True))


def nothing_is_paid_twice(world: World) -> list[str]:
    """I13: what runs at most once has run at most once; what is known to have run, has."""
    ran = [each.key for each in world.effects]
    events = world.dump.events.get(("default", "paying-jobs"), ())
    known = [e.key for e in events if e.kind == "step.completed"]
    twice = [f"I13: {key} ran {ran.count(key)} times" for key in set(ran) if ran.count(key) > 1]
    return twice + [f"I13: {key} is recorded, and never ran" for key in known if key not in ran]


GPU = {"worker1": ("default", "gpu"), "caller": ("default",)}
JOBS = (
    Scenario("jobs", app, run_rendering, workers=1, serves=GPU, check=who_holds_it_hands_it_in),
    Scenario("job-zombie", app, run_alone, workers=2, apart=True, check=who_holds_it_hands_it_in),
    Scenario("job-ghost", app, run_giving_up, workers=1, serves=GPU, either=True,
             check=no_ghost_goes_on),
    Scenario("job-cancelled", app, run_cancelled, workers=1, serves=GPU, either=True,
             check=no_ghost_goes_on),
    Scenario("job-deploy", app, run_rendering, workers=1, serves=GPU, deploys_at=0.5),
    Scenario("job-once", app, run_paying, workers=1, either=True, check=nothing_is_paid_twice),
)  # fmt: skip
