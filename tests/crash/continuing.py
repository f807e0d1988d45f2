"""Runs that continue as new: nothing is lost between two generations, nor taken for the other's."""

import asyncio

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect

app = hf.App("continuing")
go = hf.Signal("go", int)
kept = hf.Signal("kept", str)


@app.step
async def work(n: int) -> int:
    effect(n)
    return n * 10


@app.step
async def slow() -> str:
    effect()
    generation = hf.idempotency_key().split("/")[2]
    await asyncio.sleep(3 if generation == "3" else 900)  # only the last is waited for
    return hf.idempotency_key()


@app.workflow
async def rolling(turn: int, seen: list[int]) -> list[int | str]:
    late = asyncio.ensure_future(slow())  # under the same key in each generation
    seen = [*seen, await hf.wait_for(go), await work(turn)]
    if turn < 3:
        return hf.continue_as_new(rolling.bind(turn + 1, seen))
    return [*seen, await hf.wait_for(kept), await hf.wait_for(kept), await late]


async def run_rolling(caller: Caller) -> None:
    await caller.start(rolling.bind(1, []), "rolling")
    await caller.signal("rolling", kept, "a", id="a")
    for n in (1, 2):
        await caller.signal("rolling", go, n, id=f"go {n}")
    await caller.signal("rolling", kept, "b", id="b")
    await caller.sleep(1)
    await caller.signal("rolling", go, 3, id="go 3")
    ended = ("completed", [1, 10, 2, 20, 3, 30, "a", "b", "default/rolling/3/slow#1"])
    assert await caller.result("rolling") == ended


def each_is_received_once(world: World) -> list[str]:
    living = [e for e in world.dump.events["default", "rolling"] if e.superseded_by is None]
    received = [e.key for e in living if e.kind == "signal.received"]
    wanted = ["go/go 1", "go/go 2", "kept/a", "kept/b", "go/go 3"]
    return [] if sorted(received) == sorted(wanted) else [f"{received} were received"]


SCENARIOS = (
    Scenario("continue", app, run_rolling, apart=True, workers=2,
             check=each_is_received_once),
)  # fmt: skip
