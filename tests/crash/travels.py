"""The scenarios of the sweep in which runs go back in their histories."""

import asyncio

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect

app = hf.App("crash-travel")
go = hf.Signal("go", int)


def life() -> int:
    """Return the generation in which a step runs, by its idempotency key."""
    return int(hf.idempotency_key().split("/")[2])


@app.step
async def draw(what: str) -> str:
    effect(what)
    return f"{what} of {life()}"


@app.step
async def linger(seconds: float) -> str:
    effect(seconds)
    await asyncio.sleep(seconds)
    return f"late of {life()}"


# --- a completed run


@app.workflow
async def three() -> list[str]:
    first = await draw("first")
    both = await asyncio.gather(draw("second"), draw("sibling"))
    return [first, *both, await draw("last")]


async def run_rerun(caller: Caller) -> None:
    await caller.start(three.bind(), "rerun")
    if (await caller.row("rerun")).generation == 1:
        await caller.until("rerun", "completed")
    await caller.rerun("rerun", "draw#2", id="again")
    await caller.until("rerun", "completed")
    again = ["first of 1", "second of 2", "sibling of 1", "last of 2"]
    assert await caller.result("rerun") == ("completed", again)


# --- an open run with signals, in the hands of another process


@app.workflow
async def listening() -> list[object]:
    heard: list[object] = [await draw("first")]
    heard += [await hf.wait_for(go), await hf.wait_for(go)]
    heard.append(await linger(4))
    return [*heard, await hf.wait_for(go)]


async def run_rerun_open(caller: Caller) -> None:
    await caller.start(listening.bind(), "open")
    for n in (1, 2):
        await caller.signal("open", go, n, id=f"go-{n}")
    await caller.sleep(3)
    await caller.rerun("open", None, id="again")
    await caller.signal("open", go, 3, id="go-3")
    assert await caller.result("open") == ("completed", ["first of 2", 1, 2, "late of 2", 3])


# --- forks: with an edited result; of an origin that is forgotten while the fork is under way


@app.workflow
async def slowly() -> list[str]:
    first = await draw("first")
    second = await draw(f"{first}, then")
    await hf.sleep(2)
    return [first, second, await draw("last")]


async def run_fork(caller: Caller) -> None:
    await caller.start(slowly.bind(), "origin")
    await caller.until("origin", "completed")
    await caller.fork("origin", "fork", at="timer#1", results={"draw#1": "edited"})
    edited = ["edited", "edited, then of 2", "last of 2"]
    assert await caller.result("fork") == ("completed", edited)
    assert (await caller.result("origin")).value[0] == "first of 1"


async def run_fork_of_the_forgotten(caller: Caller) -> None:
    if "kept" not in await caller.listed():
        await caller.start(slowly.bind(), "gone")
        await caller.until("gone", "completed")
        await caller.fork("gone", "kept", at="draw#2")
    await caller.forget("gone")
    kept = ["first of 1", "first of 1, then of 1", "last of 1"]
    assert await caller.result("kept") == ("completed", kept)
    assert await caller.listed() == ["kept"]


def shared_steps_do_not_run_again(world: World) -> list[str]:
    """What counts of the shared part has run in the origin, and nowhere else."""
    found: list[str] = []
    for run in world.dump.runs:
        events = world.dump.events[run.ns, run.id]
        forked = next((e.seq for e in events if e.kind == "run.forked"), 0)
        shared = {e.key for e in events[:forked] if e.superseded_by is None and e.key}
        ran = {each.key for each in world.effects if each.run == run.id}
        found += [f"{run.id}: {key} is shared, and ran" for key in sorted(shared & ran)]
    return found


def each_life_is_told_once(world: World) -> list[str]:
    """What counts is of the last life, or was asked for before it began."""
    found: list[str] = []
    for run in world.dump.runs:
        events = world.dump.events[run.ns, run.id]
        reopened = max((e.seq for e in events if e.kind == "run.reopened"), default=0)
        gone = [e.seq for e in events if e.superseded_by not in (None, reopened)]
        found += [f"{run.id}: event {seq} gave way to no reopening" for seq in gone]
        if run.generation > 2:
            found.append(f"{run.id} was taken back {run.generation - 1} times")
    return found


TRAVELS = (
    Scenario("rerun", app, run_rerun, workers=1, check=each_life_is_told_once,
             flavours=("stall",)),
    Scenario("rerun-open", app, run_rerun_open, apart=True, workers=2,
             check=each_life_is_told_once),
    Scenario("fork", app, run_fork, workers=1, check=shared_steps_do_not_run_again,
             flavours=("stall",)),
    Scenario("fork-forgotten", app, run_fork_of_the_forgotten, workers=1,
             check=shared_steps_do_not_run_again, flavours=("stall",)),
)  # fmt: skip
