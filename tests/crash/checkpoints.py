"""The scenarios of checkpoints: whatever their interval, no crash changes which there are."""

from collections.abc import Mapping
from typing import Any

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect

app = hf.App("checkpoints")
INTERVALS = (0, 1, 2, 5)


def drawn(name: str, interval: int, preserve: bool) -> hf.StateGraph[hf.State]:
    """Return a graph that visits seven nodes: three that are steps, and three that sleep.

    The first does neither: it is done before anything is recorded but the start.
    """
    config = hf.CheckpointConfig(interval=interval, preserve=preserve)
    graph = app.graph(name, checkpoint=config)

    @graph.node(body=True)
    async def begin(state: hf.State) -> Mapping[str, Any]:
        return {"rests": 0}

    @graph.node
    async def add(state: hf.State) -> Mapping[str, Any]:
        effect("add")
        return {"n": state["n"] + 1}

    @graph.node(body=True)
    async def rest(state: hf.State) -> Mapping[str, Any]:
        await hf.sleep(2)
        return {"rests": state["rests"] + 1}

    graph.add_edge(hf.START, begin).add_edge(begin, add).add_edge(add, rest)
    return graph.add_edge(rest, hf.END, hf.key_equals("n", 3)).add_edge(rest, add)


def scenario(interval: int, preserve: bool) -> Scenario:
    name = f"checkpoints-{interval}{'-preserved' if preserve else ''}"
    graph = drawn(name, interval, preserve)

    async def script(caller: Caller) -> None:
        await caller.start(graph.bind(hf.State({"n": 0})), name)
        wanted = ("completed", hf.State({"n": 3, "rests": 3}))
        assert await caller.result(name) == wanted

    def wrong(world: World) -> list[str]:
        events = world.dump.events.get(("default", name), ())
        marks = [event.key for event in events if event.kind == "note.checkpoint"]
        nodes = ["begin:1", *(f"{('add', 'rest')[n % 2]}:{n}" for n in range(2, 8))]
        wanted = nodes[interval - 1 :: interval] if interval else []
        at = [event.asked_seq for event in events if event.kind == "note.checkpoint"]
        is_sound = marks == wanted[: len(marks)] and sorted(set(at)) == at
        is_whole = marks == wanted or not events or events[-1].kind != "run.completed"
        return [] if is_sound and is_whole else [f"{name} left {marks} instead of {wanted}"]

    return Scenario(name, app, script, workers=1, only_commits=True, check=wrong)


CHECKPOINTS = {
    each.name: each
    for each in (scenario(n, preserve) for n in INTERVALS for preserve in (False, True))
}
