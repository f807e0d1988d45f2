"""What a run of a graph leaves in its history: ways that were not taken, and why it failed."""

import json
from typing import Any

import pytest

import holdfast as hf
from holdfast.machine import Machine
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


async def test_a_graph_fed_at_once_is_the_same_as_event_by_event(place: Place, app: hf.App) -> None:
    async def counts(state: hf.State) -> dict[str, Any]:
        return {"n": state["n"] + 1}

    graph = app.graph("rounds").add_node("count", counts).add_node("left", nothing)
    graph.add_node("right", nothing).add_node("last", nothing)
    graph.add_edge(hf.START, "count").add_edge("count", "count", lambda state: state["n"] < 3)
    graph.add_node("split", nothing).add_edge("count", "split")
    graph.add_fork("split", ["left", "right"], join="last").add_edge("last", hf.END)
    graph.add_edge("left", "last").add_edge("right", "last")
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 0})))
        await within(run.result())
        row, events, *_ = await run.history()
    workflow = app.versions.of_run(row.workflow, row.version)
    assert workflow is not None
    for length in range(1, len(events)):
        one_by_one, at_once = (
            Machine(workflow.function, workflow.signature, ns=row.ns, run=row.id) for _ in range(2)
        )
        one_by_one.past = events[:length]  # a replay, but for the results at hand
        for event in events[:length]:
            one_by_one.feed(event)
        at_once.feed_all(events[:length])
        assert at_once.fingerprint() == one_by_one.fingerprint()
        assert (at_once.seq, at_once.now) == (one_by_one.seq, one_by_one.now)
        assert one_by_one.decisions is not None or length == 1
        if one_by_one.decisions is not None:
            assert at_once.notes == one_by_one.decisions.unrecorded()
        one_by_one.close()
        at_once.close()
