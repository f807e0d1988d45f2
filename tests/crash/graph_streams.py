"""What runs of graphs tell, word by word: golden streams, which no crash may change.

`python -m tests.crash.graph_streams` writes them anew, from a world without faults.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.fronts.graph.view import View
from holdfast.graphs import GraphWorkflow
from holdfast.model.status import CLOSED
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_sweep import run
from holdfast.testing.crash_world import Scenario, World, effect

STREAMS = Path(__file__).parent / "streams"
app = hf.App("streams")
ONCE = hf.Retry(max_attempts=1)


def adds(name: str) -> Any:
    async def node(state: hf.State) -> Mapping[str, Any]:
        effect(name)
        return {"path": [*state.get("path", []), name]}

    return node


def drawn(name: str, *nodes: str, interval: int = 0) -> hf.StateGraph[hf.State]:
    graph = app.graph(name, checkpoint=hf.CheckpointConfig(interval=interval))
    for node in nodes:
        graph.add_node(node, adds(node))
    return graph


chain = drawn("chain", "a", "b")
chain.add_edge(hf.START, "a").add_edge("a", "b").add_edge("b", hf.END)


def is_long(state: hf.State) -> bool:
    return len(state["path"]) > 3


cycle = drawn("cycle", "write", "check")
cycle.set_entry_point("write").add_edge("write", "check")
cycle.add_edge("check", hf.END, is_long, name="long enough").add_edge("check", "write")

marked = drawn("marked", "first", "left", "right", "join", interval=2)
marked.add_edge(hf.START, "first").set_exit_point("join")
marked.add_fork("first", ["left", "right"], join="join", merge={"path": "append"})
marked.add_edge("left", "join").add_edge("right", "join")

fork = drawn("fork", "first", "left", "join")


@fork.node(body=True)
async def right(state: hf.State) -> Mapping[str, Any]:
    await hf.sleep(2)
    return {"path": [*state["path"], "right"], "slept": True}


fork.add_edge(hf.START, "first").set_exit_point("join")
fork.add_fork("first", ["left", right], join="join", merge={"path": "append"})
fork.add_edge("left", "join").add_edge(right, "join")

failure = drawn("failure", "before")


@failure.node(retry=ONCE)
async def breaks(state: hf.State) -> Mapping[str, Any]:
    effect("breaks")
    if int(hf.idempotency_key().split("/")[2]) == 1:
        raise ValueError("no ink")
    return {"mended": True}


failure.add_edge(hf.START, "before").add_edge("before", breaks).add_edge(breaks, hf.END)

resume = drawn("resume", "read", "write", interval=1)


@resume.node(retry=ONCE)
async def send(state: hf.State) -> Mapping[str, Any]:
    effect("send")
    generation = int(hf.idempotency_key().split("/")[2])
    if generation == 1:
        raise ValueError("no stamps")
    return {"sent": generation}


resume.add_edge(hf.START, "read").add_edge("read", "write", hf.key_exists("path"))
resume.add_edge("read", hf.END).add_edge("write", send).add_edge(send, hf.END)

cancel = drawn("cancel", "before")


@cancel.node(body=True)
async def waits(state: hf.State) -> None:
    await hf.sleep(3600)


cancel.add_edge(hf.START, "before").add_edge("before", waits).add_edge(waits, hf.END)

interrupt = drawn("interrupt", "draft")


@interrupt.node(body=True)
async def review(state: hf.State) -> Mapping[str, Any]:
    return {"ok": await hf.ask("Good?", bool)}


interrupt.add_edge(hf.START, "draft").add_edge("draft", review)
interrupt.add_conditional_edge(review, lambda state: state["ok"], {True: hf.END, False: "draft"})

items = app.graph("items")


@app.step
async def shout(word: str) -> str:
    effect(f"shout {word}")
    return word.upper()


@app.step
async def join(word: str, so_far: str) -> str:
    effect(f"join {word}")
    return so_far + word


@items.node(body=True)
async def work(state: hf.State) -> Mapping[str, Any]:
    one_by_one = hf.ParallelConfig(max_workers=1)
    loud = (await hf.process_parallel(["a", "b"], shout, one_by_one)).results
    joined = (await hf.process_chain(loud, "", join)).final
    return {"said": await hf.process_conditional(joined, len_of, {"2": shout}, default=shout)}


def len_of(text: str) -> str:
    return str(len(text))


items.set_entry_point(work).set_exit_point(work)


async def run_through(caller: Caller, name: str) -> None:
    await caller.start(app.workflows[name].bind(hf.State()), name)
    if name == "interrupt":
        for round_, answer in ((1, False), (2, True)):
            await caller.answer(name, f"review[{round_}]/ask#1", answer, by="ada")
    while name == "failure" and (await caller.row(name)).generation == 1:
        await caller.until(name, "failed")
        await caller.retry(name)
    if name == "resume":
        await resume_twice(caller, name)
    if name == "cancel":
        while not await _sleeps(caller, name):
            await caller.sleep(1)
        await caller.cancel(name)
    ended = await caller.result(name)
    assert ended.status == ("was cancelled" if name == "cancel" else "completed")


async def resume_twice(caller: Caller, name: str) -> None:
    """Go on after a failure, and when that is complete, once more from its first checkpoint."""
    while (await caller.row(name)).generation == 1:
        await caller.until(name, "failed")
        await caller.resume(name)
    if (await caller.row(name)).generation == 2:
        await caller.until(name, "completed")
    await caller.resume(name, "read:1", id="again")


async def _sleeps(caller: Caller, run: str) -> bool:
    row = await caller.row(run)
    return row.status in CLOSED or (row.wake_at or 0) > row.updated_at + 1_000_000_000


def lines(world: World, name: str) -> list[str]:
    """Return what a run of the world told, without times."""
    workflow = app.workflows[name]
    assert isinstance(workflow, GraphWorkflow)
    history = world.dump.events["default", name]
    graph, body = workflow.graph.blueprint, workflow.function
    with View(graph, body, workflow.signature, ns="default", run=name) as view:
        return [_line(event) for event in view.read(history)]


def _line(event: hf.ExecutionEvent) -> str:
    told = {key: value for key, value in event.data.items() if key != "duration_ms"}
    return f"{event.type} {event.source} {json.dumps(told)}"


def golden(name: str) -> list[str]:
    return (STREAMS / f"{name}.txt").read_text("utf-8").splitlines()


def stream_wrong(world: World) -> list[str]:
    """Say what a run told that it should not; how branches take turns is left to them."""
    name = world.scenario.name.removeprefix("stream-")
    if ("default", name) not in world.dump.events:
        return []
    told, wanted = lines(world, name), golden(name)
    is_same = [*_by_branch(told)] == [*_by_branch(wanted)]
    return [] if is_same else [f"{name} told {told} instead of {wanted}"]


def _by_branch(told: Sequence[str]) -> Iterator[list[str]]:
    places = [json.loads(line.split(" ", 2)[2]).get("within", "") for line in told]
    for place in sorted(set(places)):
        yield [line for line, at in zip(told, places, strict=True) if at == place]


def _scenario(name: str) -> Scenario:
    async def script(caller: Caller) -> None:
        await run_through(caller, name)

    return Scenario(f"stream-{name}", app, script, workers=1, flavours=(), check=stream_wrong)


GRAPH_STREAMS = tuple(_scenario(graph.name) for graph in app.graphs)


if __name__ == "__main__":
    STREAMS.mkdir(exist_ok=True)
    for graph, scenario in zip(app.graphs, GRAPH_STREAMS, strict=True):
        text = "".join(f"{line}\n" for line in lines(run(scenario, "memory"), graph.name))
        (STREAMS / f"{graph.name}.txt").write_text(text, "utf-8")
