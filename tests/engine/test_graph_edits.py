"""Forks of a run of a graph with another state: at every node that is done, whatever it is."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import make_dataclass
from itertools import pairwise
from typing import Any

import pytest

import holdfast as hf
from holdfast.checkpoints import visits_of
from holdfast.model.travel import edits_of
from tests.engine.places import Place, history_when, status_of, until, within

KINDS = (
    "write:1", "left[1]/left:2", "left[1]/more:4", "right[1]/right:3", "read:5",
    "polish[1]/smooth:1", "polish[1]/shine:2", "polish:6", "child:7", "spread:8", "link:9",
    "ask:10", "last:11",
)  # fmt: skip
"""Each node of `everything`, in the order of its iterations."""


KEY = re.compile(r"default/(?P<run>.*?)/\d+/(?P<key>.*)")


class Calls:
    """Which steps ran in which run, as their keys for the world outside tell."""

    def __init__(self) -> None:
        self.known: list[tuple[str, str]] = []

    def add(self) -> None:
        found = KEY.fullmatch(hf.idempotency_key())
        assert found is not None
        self.known.append((found["run"], found["key"]))

    def of(self, run: str) -> list[str]:
        return [key for each, key in self.known if each == run]


def everything(app: hf.App, calls: Calls) -> hf.StateGraph[hf.State]:
    """Return a graph of every kind of node: a step, a body, a fan-out, a graph, a child..."""

    def noting(name: str) -> Any:
        async def node(state: hf.State) -> Mapping[str, Any]:
            calls.add()
            return {"notes": [*state.get("notes", []), name]}

        return node

    @app.step
    async def double(n: int) -> int:
        calls.add()
        return n * 2

    @app.step
    async def add(n: int, total: int) -> int:
        calls.add()
        return total + n

    @app.workflow
    async def child(state: hf.State) -> dict[str, Any]:
        return {"child": await double(4)}

    async def said(state: hf.State) -> Mapping[str, Any]:
        return {"notes": [*state["notes"], "said"]}

    async def sleeping(state: hf.State) -> Mapping[str, Any]:
        await hf.sleep(0.01)
        return {"notes": [*state["notes"], "right"]}

    async def spread(state: hf.State) -> Mapping[str, Any]:
        return {"spread": [*(await hf.process_parallel([1, 2], double)).results]}

    async def link(state: hf.State) -> Mapping[str, Any]:
        return {"link": (await hf.process_chain([1, 2], 0, add)).final}

    async def asking(state: hf.State) -> Mapping[str, Any]:
        return {"ok": await hf.ask("Good?", bool)}

    inner = app.graph("inner").add_node("smooth", noting("smooth"))
    inner.add_node("shine", said, body=True)
    inner.add_edge(hf.START, "smooth").add_edge("smooth", "shine").add_edge("shine", hf.END)
    graph = app.graph("everything")
    for name in ("write", "left", "last"):
        graph.add_node(name, noting(name))
    for name, body in (("more", said), ("right", sleeping), ("spread", spread), ("link", link)):
        graph.add_node(name, body, body=True)
    graph.add_node("polish", inner).add_node("child", child).add_node("ask", asking, body=True)
    graph.add_map("read", double, over=_pages, into="pages")
    graph.add_edge(hf.START, "write").add_edge("left", "more")
    graph.add_fork("write", ["left", "right"], join="read", merge={"notes": "append"})
    way = ["read", "polish", "child", "spread", "link", "ask", "last", hf.END]
    for source, target in (("more", "read"), ("right", "read"), *pairwise(way)):
        graph.add_edge(source, target)
    return graph


def _pages(state: hf.State) -> Sequence[int]:
    return [1, 2]


async def answered(run: hf.RunHandle[Any], answer: bool = True) -> Any:
    """Answer the question of a run, if it comes to ask one, and return its result."""
    asked = await history_when(run, lambda loaded: loaded.run.status in ("waiting", "completed"))
    if asked.run.status == "waiting":
        await until(lambda: _is_asked(run))
        if (await run.describe()).status == "waiting":
            await run.answer("ask[1]/ask#1", answer)
    return await within(run.result())


async def _is_asked(run: hf.RunHandle[Any]) -> bool:
    loaded = await run.history()
    kinds = [event.kind for event in loaded.events]
    return "question.asked" in kinds or loaded.run.status == "completed"


async def test_a_state_is_edited_at_a_node_of_any_kind(place: Place, app: hf.App) -> None:
    calls = Calls()
    graph = everything(app, calls)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        ended, points = await answered(run), hf.Checkpoints(client, "r")
        whole, visits = (await run.history()).events, await visits_of(client, "r")
        assert {visit.key for visit in visits} == {"", *KINDS}
        for _, key, seq in sorted((visit.iteration, visit.key, visit.seq) for visit in visits[1:]):
            shared = {event.key for event in whole if event.seq <= seq}
            fork = await points.fork(key, {"edit": key}, reason="what if")
            assert dict(await answered(fork)) == {**ended, "edit": key}
            there = hf.Checkpoints(client, fork.id)
            assert await there.state(key) == (await points.state(key)).set("edit", key)
            again = set(calls.of(fork.id))
            assert again == {key for key in calls.of("r") if key not in shared}, key
            told = [e async for e in hf.graph_events(client, fork.id)]
            assert told[-1].type == "graph.complete"
            (edit,) = edits_of((await fork.history()).events)
            assert edit.after == key
        assert (await run.history()).events == whole


async def test_a_node_of_a_child_is_edited_in_the_run_of_the_child(
    place: Place, app: hf.App
) -> None:
    async def count(state: hf.State) -> Mapping[str, Any]:
        return {"n": state.get("n", 0) + 1}

    inner = app.graph("inner").add_node("count", count, body=True)
    inner.add_edge(hf.START, "count").add_edge("count", hf.END)
    graph = app.graph("outer").add_node("child", inner.workflow)
    graph.add_edge(hf.START, "child").add_edge("child", hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        await within(run.result())
        with pytest.raises(hf.UnknownKey, match="child:1"):
            await hf.Checkpoints(client, "r").fork("count", {"n": 7})
        fork = await hf.Checkpoints(client, "r/inner#1").fork("count", {"n": 7})
        assert dict(await within(fork.result())) == {"n": 7}
        assert dict(await run.result()) == {"n": 1}


async def test_a_node_is_edited_that_is_done_when_its_child_is_started(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def below(n: int) -> int:
        return n + await hf.wait_for(go)

    graph = app.graph("spawns")

    @graph.node(body=True)
    async def spawn(state: hf.State) -> Mapping[str, Any]:
        child = await hf.start_child(below.bind(hf.random().randrange(1 << 30)))
        return {"child": child.id, "drawn": hf.random().randrange(1 << 30)}

    @graph.node(body=True)
    async def after(state: hf.State) -> Mapping[str, Any]:
        return {"more": hf.random().randrange(1 << 30)}

    graph.add_edge(hf.START, spawn).add_edge(spawn, after).add_edge(after, hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        ended = await within(run.result())
        fork = await hf.Checkpoints(client, "r").fork("spawn", {"edit": 1}, id="f")
        forked = await within(fork.result())
        assert forked["more"] != ended["more"]
        assert dict(forked) == {**ended, "edit": 1, "more": forked["more"]}


# --- a run whose nodes are bodies: many are done in one turn


def drawing(app: hf.App, **config: Any) -> hf.StateGraph[hf.State]:
    """Return a graph that draws numbers and goes by them, a step in the middle."""
    graph = app.graph("draws", checkpoint=hf.CheckpointConfig(**config))

    async def draw(state: hf.State) -> Mapping[str, Any]:
        return {"drawn": [*state.get("drawn", []), hf.random().randrange(1 << 30)]}

    async def store(state: hf.State) -> Mapping[str, Any]:
        return {"stored": len(state["drawn"])}

    graph.add_node("first", draw, body=True).add_node("even", draw, body=True)
    graph.add_node("odd", draw, body=True).add_node("store", store)
    graph.add_node("last", draw, body=True)
    graph.add_edge(hf.START, "first").add_edge("even", "store").add_edge("odd", "store")
    graph.add_conditional_edge(
        "first", lambda state: state["drawn"][-1] % 2, {0: "even", 1: "odd"}, name="parity"
    )
    return graph.add_edge("store", "last").add_edge("last", hf.END)


async def test_a_fork_comes_to_the_node_that_is_edited_by_the_numbers_of_its_origin(
    place: Place, app: hf.App
) -> None:
    graph = drawing(app, interval=1, preserve=True)
    async with place.open(app) as client:
        for id in ("a", "b", "c", "d"):  # so that one of them draws otherwise
            run = await client.start(graph.bind(hf.State()), id=id)
            ended, points = await within(run.result()), hf.Checkpoints(client, id)
            second = (await points.list())[1]
            for key in ("first:1", second.key):
                fork = await points.fork(key, {"edit": key}, id=f"{id}-{key}")
                forked = await within(fork.result())
                same = [a == b for a, b in zip(forked["drawn"], ended["drawn"], strict=True)]
                assert same == [True, key == second.key, False]
                assert (forked["edit"], forked["stored"]) == (key, 2)
                there = hf.Checkpoints(client, fork.id)
                marks = [each.key for each in await there.list()]
                assert marks == [each.key for each in await points.list()]
                told = [e async for e in hf.graph_events(client, fork.id)]
                assert told[-1].type == "graph.complete"


async def test_a_fork_goes_another_way_from_a_body_and_records_it(
    place: Place, app: hf.App
) -> None:
    graph = drawing(app, interval=1, preserve=True)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        ended, points = await within(run.result()), hf.Checkpoints(client, "r")
        went, goes = ("odd", "even") if ended["drawn"][0] % 2 else ("even", "odd")
        fork = await points.fork("first", {"drawn": [ended["drawn"][0] + 1]}, reason="the other")
        assert (await within(fork.result()))["drawn"][0] == ended["drawn"][0] + 1
        loaded = await fork.history()
        ways = [json.loads(e.payload or b"") for e in loaded.events if e.kind == "note.decided"]
        assert [way["to"] for way in ways] == [goes, "store", "last", hf.END]
        marks = [each.key for each in await hf.Checkpoints(client, fork.id).list()]
        assert marks == ["first:1", f"{goes}:2", "store:3", "last:4"]
        assert f"{went}:2" in [each.key for each in await points.list()]
        compared = await client.diff("r", fork.id)
        assert compared.first is not None
        assert (compared.first.key, compared.first.verdict) == ("state after first:1", "only in b")


# --- what becomes of an edit later


def rounds(app: hf.App) -> hf.StateGraph[hf.State]:
    """Return a graph of one body that waits for a signal, and adds it up, three times."""
    graph = app.graph("rounds")

    async def add(state: hf.State) -> Mapping[str, Any]:
        return {"n": state["n"] + await hf.wait_for(go), "times": state["times"] + 1}

    graph.add_node("add", add, body=True).add_edge(hf.START, "add")
    return graph.add_edge("add", hf.END, hf.key_equals("times", 3)).add_edge("add", "add")


go = hf.Signal("go", int)


async def test_a_fork_of_a_fork_keeps_what_was_edited_before_it_leaves(
    place: Place, app: hf.App
) -> None:
    graph = rounds(app)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 0, "times": 0})), id="r")
        for n in (1, 2, 3):
            await run.signal(go, n)
        assert (await within(run.result()))["n"] == 6
        fork = await hf.Checkpoints(client, "r").fork("add:2", {"n": 100}, id="f")
        await fork.signal(go, 5)
        assert (await within(fork.result()))["n"] == 105
        points = hf.Checkpoints(client, "f")
        for key, state, n in (
            ("add:2", None, 101), ("add:3", {"n": 7}, 7), ("add:2", {"n": 50}, 51),
            ("add:1", {"n": 10}, 12),
        ):  # fmt: skip
            other = await points.fork(key, state)
            for _ in range(3 - (await points.state(key))["times"]):
                await other.signal(go, 1)
            assert (await within(other.result()))["n"] == n
        whole = await points.fork("add:1")
        assert (await hf.Checkpoints(client, whole.id).state())["n"] == 1
        assert edits_of((await whole.history()).events) == ()


async def test_another_result_takes_the_place_of_a_state_that_was_edited_in_its_turn(
    place: Place, app: hf.App
) -> None:
    graph = app.graph("sums")

    async def add(state: hf.State) -> Mapping[str, Any]:
        return {"n": state["n"] + 1}

    graph.add_node("add", add).add_edge(hf.START, "add")
    graph.add_edge("add", hf.END, lambda state: state["n"] > 2, name="much").add_edge("add", "add")
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 0})), id="r")
        assert (await within(run.result()))["n"] == 3
        fork = await hf.Checkpoints(client, "r").fork("add:2", {"n": 100}, id="f")
        assert (await within(fork.result()))["n"] == 100
        other = await fork.fork(results={"sums.add#2": {"set": {"n": 50}}})
        assert (await within(other.result()))["n"] == 50
        first = await fork.fork("sums.add#2", results={"sums.add#1": {"set": {"n": 1}}})
        assert (await within(first.result()))["n"] == 100


async def test_a_fork_that_is_taken_back_keeps_its_edit_up_to_the_node(
    place: Place, app: hf.App
) -> None:
    graph = rounds(app)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 0, "times": 0})), id="r")
        for n in (1, 2, 3):
            await run.signal(go, n)
        await within(run.result())
        fork = await hf.Checkpoints(client, "r").fork("add:2", {"n": 100}, id="f")
        await fork.signal(go, 5)
        assert (await within(fork.result()))["n"] == 105
        first, second = [visit.seq for visit in await visits_of(client, "f")][1:3]
        await fork.rerun(second, exactly=True)  # the signal after it is unread again
        assert (await within(fork.result()))["n"] == 105
        await fork.rerun(first, exactly=True)
        assert (await within(fork.result()))["n"] == 8


async def test_an_edit_in_a_branch_stays_when_another_branch_is_done_again(
    place: Place, app: hf.App
) -> None:
    graph = app.graph("sides")

    def noting(name: str) -> Any:
        async def node(state: hf.State) -> Mapping[str, Any]:
            return {name: state.get(name, 0) + 1}

        return node

    a_is_done = asyncio.Event()

    async def late(state: hf.State) -> None:
        await a_is_done.wait()

    async def passes(state: hf.State) -> None:
        return None

    graph.add_node("begin", passes).add_node("a", noting("a")).add_node("a2", noting("a"))
    graph.add_node("slow", late).add_node("b", noting("b"), body=True).add_node("join", passes)
    graph.add_edge(hf.START, "begin").add_fork("begin", ["a", "slow"], join="join")
    graph.add_edge("a", "a2").add_edge("a2", "join").add_edge("slow", "b").add_edge("b", "join")
    graph.add_edge("join", hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        await history_when(run, lambda loaded: "sides.a2#1" in str(loaded.events))
        a_is_done.set()
        assert dict(await within(run.result())) == {"a": 2, "b": 1}
        points = hf.Checkpoints(client, "r")
        assert await points.state("slow[1]/b:5") == hf.State({"b": 1})
        fork = await points.fork("b", {"b": 9})
        assert dict(await within(fork.result())) == {"a": 2, "b": 9}
        await fork.rerun("a[1]/sides.a#1")
        assert dict(await within(fork.result())) == {"a": 2, "b": 9}
        assert await hf.Checkpoints(client, fork.id).state("slow[1]/b:4") == hf.State({"b": 9})


async def test_a_fork_keeps_its_edit_when_its_origin_is_forgotten(
    place: Place, app: hf.App
) -> None:
    graph = rounds(app)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 0, "times": 0})), id="r")
        for n in (1, 2, 3):
            await run.signal(go, n)
        await within(run.result())
        fork = await hf.Checkpoints(client, "r").fork("add:2", {"n": 100}, id="f")
        again = await hf.Checkpoints(client, "r").fork("add:2", {"n": 100}, id="f")
        assert again.id == fork.id
        with pytest.raises(hf.RunConflict):
            await hf.Checkpoints(client, "r").fork("add:2", {"n": 101}, id="f")
        assert await client.prune(older_than=0) == 1
    async with place.open(app) as client:
        fork = client.get("f", graph.workflow)
        await fork.signal(go, 5)
        assert (await within(fork.result()))["n"] == 105


async def test_what_is_no_state_of_the_graph_is_refused(place: Place, app: hf.App) -> None:
    graph = rounds(app)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 0, "times": 0})), id="r")
        await run.signal(go, 1)
        points = hf.Checkpoints(client, "r")
        await until(lambda: _has_visited(client, "r", 1))
        with pytest.raises(hf.InvalidValue, match="Return a State, or a dict"):
            await points.fork("add:1", 7)
        with pytest.raises(hf.Unserialisable, match="state after add:1"):
            await points.fork("add:1", {"n": object()})
        with pytest.raises(hf.UnknownKey, match="add:1"):
            await points.fork("add:2", {"n": 1})


async def _has_visited(client: hf.Client, run: str, nodes: int) -> bool:
    return len(await visits_of(client, run)) > nodes


async def test_a_state_that_can_no_longer_be_read_blocks_the_fork(place: Place) -> None:
    def release(annotation: Any) -> hf.App:
        app = hf.App("engine-tests")
        paper = make_dataclass("Paper", [("extra", annotation | None, None)], frozen=True)
        graph: hf.StateGraph[Any] = app.graph("notes", state=paper)

        async def wait(state: Any) -> None:
            await hf.wait_for(go)

        graph.add_node("wait", wait, body=True).add_edge(hf.START, "wait")
        graph.add_edge("wait", hf.END)
        return app

    former, wrong = release(int), release(list[int])
    async with place.open(former) as client:
        paper = former.graphs[0].blueprint.shape.cls
        run = await client.start(former.graphs[0].bind(paper()), id="r")
        await run.signal(go, 1)
        await within(run.result())
    async with place.open(former, worker=False) as client:
        await hf.Checkpoints(client, "r").fork("wait", {"extra": 7}, id="f")
        with pytest.raises(hf.Unserialisable):
            await hf.Checkpoints(client, "r").fork("wait", {"extra": "seven"})
    async with place.open(wrong) as client:
        blocked = await status_of(client.get("f"), "blocked")
        assert "the state after wait:1" in blocked.reason
    async with place.open(former) as client:
        assert (await within(client.get("f").result())).extra == 7
