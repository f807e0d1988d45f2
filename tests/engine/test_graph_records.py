"""What a run of a graph leaves in its history: ways that were not taken, and why it failed."""

import json
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, within


async def nothing(state: hf.State) -> None:
    return None


async def test_edges_that_were_rejected_are_recorded_with_their_predicates(
    place: Place, app: hf.App
) -> None:
    graph = app.graph("edges").add_node("look", nothing).add_node("small", nothing)
    graph.add_edge(hf.START, "look").add_edge("look", "small", hf.key_equals("n", 1), name="is one")
    graph.add_edge("look", hf.END).add_edge("small", hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 2})))
        await within(run.result())
        events = (await run.history()).events
    (note,) = [json.loads(each.payload or b"") for each in events if each.kind == "note.decided"]
    assert (note["from"], note["to"]) == ("look", hf.END)
    assert note["rejected"] == [{"to": "small", "by": "is one"}]


async def test_a_node_that_fails_is_told_once_with_its_words(place: Place, app: hf.App) -> None:
    async def breaks(state: hf.State) -> Any:
        raise ValueError("no paper")

    graph = app.graph("broken")
    graph.add_node("print", breaks, retry=hf.Retry(max_attempts=1))
    graph.add_edge(hf.START, "print").add_edge("print", hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()))
        with pytest.raises(hf.RunFailed, match=r"at node print: .*no paper"):
            await within(run.result())
        failed = [each for each in (await run.history()).events if each.kind.endswith(".failed")]
    assert [each.kind for each in failed] == ["step.failed", "run.failed"]
    assert all(b"no paper" in (each.payload or b"") for each in failed)
