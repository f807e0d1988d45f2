"""Checkpoints of graphs: which nodes leave one, and what a run that goes another way leaves."""

import json
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.run import Loaded
from tests.engine.places import Place, history_when, within

go = hf.Signal("go", int)


def counts(app: hf.App, **config: Any) -> hf.StateGraph[hf.State]:
    """Return a graph that goes round between two nodes: seven are visited."""
    graph = app.graph("counts", checkpoint=hf.CheckpointConfig(**config))

    @graph.node
    async def add(state: hf.State) -> Mapping[str, Any]:
        return {"n": state["n"] + 1}

    @graph.node(body=True)
    async def look(state: hf.State) -> Mapping[str, Any]:
        return {"seen": state["n"]}

    graph.add_edge(hf.START, add).add_edge(add, look, lambda state: state["n"] < 4, name="few")
    graph.add_edge(add, hf.END).add_edge(look, add)
    return graph


def marks(events: tuple[hf.Event, ...]) -> list[hf.Event]:
    return [event for event in events if event.kind == "note.checkpoint"]


def saved(told: list[hf.ExecutionEvent]) -> list[tuple[str, str]]:
    """Return each checkpoint that was told, with what was told right before."""
    return [(a.type, b.data["node"]) for a, b in pairwise(told) if b.type == "checkpoint.save"]


@pytest.mark.parametrize(
    ("interval", "wanted"),
    [(0, []), (1, ["add:1", "look:2", "add:3", "look:4", "add:5", "look:6", "add:7"]),
     (2, ["look:2", "look:4", "look:6"]), (5, ["add:5"])],
)  # fmt: skip
async def test_each_nth_node_leaves_a_checkpoint_in_the_commit_of_its_way(
    place: Place, app: hf.App, interval: int, wanted: list[str]
) -> None:
    graph = counts(app, interval=interval, preserve=interval == 2)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 0})))
        assert (await within(run.result()))["n"] == 4
        events = (await run.history()).events
        told = [each async for each in hf.graph_events(client, run.id)]
    found = marks(events)
    assert [event.key for event in found] == wanted
    for event in found:
        node, _, iteration = event.key.partition(":")
        more = {"preserve": True} if interval == 2 else {}
        expected = {"node": node, "iteration": int(iteration), **more}
        assert json.loads(event.payload or b"") == expected
        assert event.epoch == events[event.asked_seq - 1].epoch
        assert event.at == events[event.asked_seq - 1].at
    assert saved(told) == [("node.complete", key.partition(":")[0]) for key in wanted]


def circled(interval: int = 0) -> hf.App:
    """Return an app with a graph that waits for a signal in each of its three rounds."""
    app = hf.App("engine-tests")
    graph = app.graph("circles", checkpoint=hf.CheckpointConfig(interval=interval))

    @graph.node
    async def add(state: hf.State) -> Mapping[str, Any]:
        return {"n": state["n"] + 1}

    @graph.node(body=True)
    async def waits(state: hf.State) -> Mapping[str, Any]:
        return {"go": await hf.wait_for(go)}

    graph.add_edge(hf.START, add).add_edge(add, waits)
    graph.add_edge(waits, hf.END, hf.key_equals("n", 3)).add_edge(waits, add)
    return app


async def test_a_run_goes_on_whose_graph_marks_other_nodes_now(place: Place) -> None:
    for round_, (interval, ways) in enumerate(((1, 3), (0, 5), (2, 6)), start=1):
        app = circled(interval)
        (graph,) = app.graphs
        async with place.open(app) as client:
            run = await client.start(graph.bind(hf.State({"n": 0})), id="r")
            await run.signal(go, round_)
            await history_when(run, partial(_has_decided, ways))
    async with place.open(circled(), worker=False) as client:
        events = (await client.get("r").history()).events
        told = [each async for each in hf.graph_events(client, "r")]
    keys = ["add:1", "waits:2", "add:3", "waits:6"]
    assert [event.key for event in marks(events)] == keys
    assert saved(told) == [("node.complete", key.partition(":")[0]) for key in keys]


def _has_decided(ways: int, loaded: Loaded) -> bool:
    return sum(event.kind == "note.decided" for event in loaded.events) == ways


async def test_a_fork_that_goes_another_way_records_it(place: Place, app: hf.App) -> None:
    graph = counts(app, interval=1)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 0})))
        await within(run.result())
        edited = {"counts.add#2": {"set": {"n": 9}}}
        last = await run.fork(results=edited)
        middle = await run.fork("counts.add#4", results=edited)
        for fork in (last, middle):
            assert dict(await within(fork.result())) == {"n": 9, "seen": 1}
            events = (await fork.history()).events
            ways = [json.loads(e.payload or b"") for e in events if e.kind == "note.decided"]
            assert [way["to"] for way in ways] == ["look", "add", hf.END]
            assert [event.key for event in marks(events)] == ["add:1", "look:2", "add:3"]
            again = [each async for each in hf.graph_events(client, fork.id)]
            assert again[-1].data["iterations"] == 3


async def test_an_observer_is_told_of_checkpoints_as_the_stream_is(
    place: Place, app: hf.App
) -> None:
    told: list[hf.ExecutionEvent] = []

    class Seen:
        async def on_event(self, event: hf.ExecutionEvent) -> None:
            told.append(event)

    app.observe_graphs(Seen())
    graph = counts(app, interval=2)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 0})))
        await within(run.result())
        stream = [each async for each in hf.graph_events(client, run.id)]
    assert [each.id for each in told] == [each.id for each in stream]
    assert saved(told) == [("node.complete", "look")] * 3
