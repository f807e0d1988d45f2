"""The scenario of the sweep in which somebody observes what is committed."""

import asyncio
from itertools import pairwise

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Process, Scenario, World, effect
from holdfast.testing.loop import LIFE

app = hf.App("crash-observing")
go = hf.Signal("go", int)
TOLD: list[tuple[str, hf.ObservedEvent]] = []


class Records:
    """Keeps what it is told, and by which process; slowly, so that a death may come first."""

    async def on_event(self, event: hf.ObservedEvent) -> None:
        process = LIFE.get()
        assert isinstance(process, Process)
        if not process.is_dead:
            TOLD.append((process.name, event))
        await asyncio.sleep(0.1)


app.observe(Records())


@app.step
async def work(n: int) -> int:
    effect(n)
    return n * 10


@app.workflow
async def observed() -> int:
    first = await work(1)
    return first + await hf.wait_for(go) + await work(2)


async def run_observed(caller: Caller) -> None:
    await caller.start(observed.bind(), "observed")
    await caller.start(observed.bind(), "ended")
    await caller.signal("observed", go, 5, id="go")
    assert await caller.result("observed") == ("completed", 35)
    await caller.until("ended", "waiting")
    await caller.terminate("ended")
    assert (await caller.result("ended")).status == "was terminated"
    await caller.sleep(2)


def only_what_is_stored_is_told(world: World) -> list[str]:
    """No event is told before its commit, twice by one process, or out of order."""
    found: list[str] = []
    for process in {name for name, _ in TOLD}:
        for run in ("observed", "ended"):
            stored = {event.seq: event for event in world.dump.events.get(("default", run), ())}
            told = [each for name, each in TOLD if name == process and each.run == run]
            wrong = [each for each in told if stored.get(each.seq) != each.event]
            found += [f"{process} tells of {each.kind}, which is not stored" for each in wrong]
            in_order = all(former.seq < latter.seq for former, latter in pairwise(told))
            found += [] if in_order else [f"{process} tells of {run} out of order"]
    if not world.faults:
        found += _untold(world)
    return found


def _untold(world: World) -> list[str]:
    told = {(each.run, each.seq) for _, each in TOLD}
    stored = {(key[1], each.seq) for key, events in world.dump.events.items() for each in events}
    return [f"nobody told of {each}" for each in sorted(stored - told)]


OBSERVING = (
    Scenario(
        "observers", app, run_observed, workers=1, prepare=TOLD.clear,
        check=only_what_is_stored_is_told,
    ),
)  # fmt: skip
