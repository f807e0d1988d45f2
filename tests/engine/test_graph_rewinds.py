"""States of a run of a graph at its nodes: read, compared, and gone on from, in every type."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

import holdfast as hf
from holdfast.machine.looking import fed
from holdfast.machine.machine import Machine
from holdfast.model.run import Loaded
from tests.engine.places import Place, history_when, within


@dataclass(frozen=True)
class Paper:
    n: int = 0
    seen: list[int] | None = None


class Model(BaseModel):
    n: int = 0
    seen: list[int] | None = None


class Typed(TypedDict, total=False):
    n: int
    seen: list[int]


Change = Callable[[Any, int], Any]


def of_dataclass(state: Any, n: int) -> Any:
    return replace(state, n=n)


def of_model(state: Any, n: int) -> Any:
    return state.model_copy(update={"n": n})


def of_dict(state: Any, n: int) -> Any:
    return {**state, "n": n}


def of_state(state: Any, n: int) -> Any:
    return state.set("n", n)


STATES: dict[str, tuple[Any, Any, Change]] = {
    "dataclass": (Paper, Paper(), of_dataclass),
    "pydantic": (Model, Model(), of_model),
    "TypedDict": (Typed, {"n": 0}, of_dict),
    "State": (hf.State, hf.State({"n": 0}), of_state),
}


def values(state: Any) -> dict[str, Any]:
    """Return what is in a state, whatever its type."""
    return vars(state) if isinstance(state, Paper | Model) else {**state}


def is_low(state: Any) -> bool:
    return values(state)["n"] < 3


def counting(app: hf.App, cls: Any, **config: Any) -> hf.StateGraph[Any]:
    graph = app.graph("count", state=cls, checkpoint=hf.CheckpointConfig(**config))

    async def add(state: Any) -> Any:
        return {"n": values(state)["n"] + 1}

    async def look(state: Any) -> Any:
        return {"seen": [*(values(state).get("seen") or ()), values(state)["n"]]}

    graph.add_node("add", add).add_node("look", look, body=True)
    graph.add_edge(hf.START, "add").add_edge("add", "look")
    graph.add_conditional_edge("look", is_low, {True: "add", False: hf.END})
    return graph


@pytest.mark.parametrize("kind", STATES)
async def test_a_state_is_read_compared_and_edited_at_any_node(
    place: Place, app: hf.App, kind: str
) -> None:
    cls, first, changed = STATES[kind]
    graph = counting(app, cls, interval=2, preserve=True)
    async with place.open(app) as client:
        run = await client.start(graph.bind(first), id="r")
        ended = await within(run.result())
        points = hf.Checkpoints(client, "r")
        found = await points.list()
        assert [each.key for each in found] == ["look:2", "look:4", "look:6"]
        assert [(e.run_id, e.node, e.iteration) for e in found[:1]] == [("r", "look", 2)]
        assert [values(await points.state(each.key))["seen"] for each in found] == [
            [1],
            [1, 2],
            [1, 2, 3],
        ]
        assert await points.state() == await points.state("look") == ended
        assert type(await points.state("add:3")) is type(first)
        assert values(await points.state("add:3"))["n"] == 2
        assert values(await points.state(found[0].seq)) == values(await points.state("look:2"))
        assert values(await points.state(1))["n"] == 0
        assert (await points.diff("look:2", "look:4")).changed == {
            "n": (1, 2), "seen": ([1], [1, 2]),
        }  # fmt: skip
        fork = await points.fork("add:3", changed(await points.state("add:3"), 7))
        assert values(await within(fork.result())) == {"n": 7, "seen": [1, 7]}
        partly = await points.fork("add:3", {"n": 8}, id="partly")
        assert values(await within(partly.result())) == {"n": 8, "seen": [1, 8]}
        body = await points.fork("look:2", changed(await points.state("look:2"), 5))
        assert values(await within(body.result())) == {"n": 5, "seen": [1]}
        same = await points.fork("look:2")
        assert await within(same.result()) == ended
        assert [each.key for each in await hf.Checkpoints(client, same.id).list()] == [
            each.key for each in found
        ]
        assert (await run.history()).events[-1].kind == "run.completed"


async def test_what_a_diff_adds_and_removes(place: Place, app: hf.App) -> None:
    graph = app.graph("words")

    @graph.node
    async def first(state: hf.State) -> hf.State:
        return state.set("a", 1)

    @graph.node
    async def second(state: hf.State) -> hf.State:
        return state.without("a").set("b", 2)

    graph.add_edge(hf.START, "first").add_edge("first", "second").add_edge("second", hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"same": 0})))
        await within(run.result())
        points = hf.Checkpoints(client, run.id)
        assert await points.diff("first") == hf.StateDiff({}, {"b": 2}, {"a": 1})
        fork = await points.fork("second", hf.State({"only": 3}))
        assert dict(await within(fork.result())) == {"only": 3}


async def test_what_cannot_be_named_or_edited_is_refused(place: Place, app: hf.App) -> None:
    graph = counting(app, Paper)

    @app.workflow
    async def plain() -> None:
        return None

    async with place.open(app) as client:
        run = await client.start(graph.bind(Paper()), id="r")
        await within(run.result())
        points = hf.Checkpoints(client, "r")
        assert await points.list() == []
        with pytest.raises(hf.UnknownKey, match="add:1, look:2, add:3"):
            await points.state("ad:1")
        with pytest.raises(hf.InvalidValue, match=r"no node was done .*run\.fork\(input="):
            await points.fork(1, Paper(9))
        with pytest.raises(hf.InvalidValue, match="no field of Paper"):
            await points.fork("add:3", {"m": 9})
        other = await client.start(plain.bind())
        with pytest.raises(hf.BadDefinition, match="no graph"):
            await hf.Checkpoints(client, other.id).state()
        with pytest.raises(hf.RunNotFound):
            await hf.Checkpoints(client, "nobody").list()


async def test_checkpoints_of_a_run_that_failed_are_kept_and_of_one_that_completed_are_not(
    place: Place, app: hf.App
) -> None:
    graph = app.graph("breaks", checkpoint=hf.CheckpointConfig(interval=1))
    broken = [True]

    @graph.node
    async def first(state: hf.State) -> Mapping[str, Any]:
        return {"n": 1}

    @graph.node(retry=hf.Retry(max_attempts=1))
    async def second(state: hf.State) -> None:
        if broken:
            raise ValueError("no ink")

    graph.add_edge(hf.START, first).add_edge(first, second).add_edge(second, hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()))
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        points = hf.Checkpoints(client, run.id)
        assert [each.key for each in await points.list()] == ["first:1"]
        broken.clear()
        await run.retry()
        await within(run.result())
        assert await points.list() == []
        assert dict(await points.state("first:1")) == {"n": 1}


async def test_a_run_is_resumed_at_a_node(app: hf.App) -> None:
    graph = app.graph("count")
    calls = list[int]()

    @graph.node
    async def add(state: hf.State) -> hf.State:
        calls.append(state["n"] + 1)
        return state.set("n", state["n"] + 1)

    graph.add_edge(hf.START, add).add_edge(add, hf.END, hf.key_equals("n", 3)).add_edge(add, add)
    assert (await graph.execute(hf.State({"n": 0}, run_id="r")))["n"] == 3
    again = await graph.resume("r", at="add:1")
    assert (again["n"], calls) == (3, [1, 2, 3, 2, 3])
    assert (await graph.resume("r", at="add:2"))["n"] == 3
    assert calls == [1, 2, 3, 2, 3, 3]
    with pytest.raises(hf.UnknownKey):
        await graph.resume("r", at="add:4")


async def test_a_run_of_a_factory_is_read_and_resumed_at_a_node(place: Place, app: hf.App) -> None:
    calls = list[str]()

    def factory(graph: hf.StateGraph[hf.State], _: Any, params: Mapping[str, Any]) -> hf.State:
        async def visit(state: hf.State) -> hf.State:
            calls.append(state.checkpoint_node)
            return state.set("n", state["n"] + 1)

        graph.add_node("first", visit).add_node("second", visit)
        graph.add_edge(hf.START, "first").add_edge("first", "second").add_edge("second", hf.END)
        return hf.State(params)

    app.factories.register("made", factory)
    async with place.open(app) as client:
        executor = hf.Executor(client)
        run = await executor.create_run("made", {"n": 0}, id="r")
        await within(run.result())
        points = hf.Checkpoints(client, "r")
        assert dict(await points.state("first")) == {"n": 1}
        events, again = await executor.resume("r", at="first")
        told = [event.type async for event in events]
        assert (await within(again.result()))["n"] == 2
        assert told[:2] == ["checkpoint.load", "checkpoint.resume"]
        fork = await points.fork("first", {"n": 7})
        assert (await within(fork.result()))["n"] == 8
    assert calls == ["", "first", "first", "first"]


async def test_a_secret_is_in_no_checkpoint(place: Place, app: hf.App) -> None:
    graph = app.graph("fetch", checkpoint=hf.CheckpointConfig(interval=1, preserve=True))

    @graph.node
    async def fetch(state: hf.State) -> hf.State:
        token = state.get_secret("token")
        return state.set("size", len(token.reveal()) if token else 0)

    graph.add_edge(hf.START, fetch).add_edge(fetch, fetch, hf.key_equals("size", 0))
    graph.add_edge(fetch, hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State().set_secret("token", "hunter22")))
        assert (await within(run.result()))["size"] == 8
        points = hf.Checkpoints(client, run.id)
        state = await points.state("fetch:1")
        told = repr((await points.list(), state, await points.diff(1), state.secrets))
        assert "hunter22" not in told + repr((await run.history()).events)
        assert state.get_secret("token") is None
        fork = await points.fork("fetch:1", {"size": 0})
        await fork.supply_secret("token", hf.Secret("hunter2"))
        assert (await within(fork.result()))["size"] == 7


# --- to go on from a checkpoint is to go on as the run did


def everything(app: hf.App) -> hf.StateGraph[hf.State]:
    """Return a graph with a cycle, a fork, a fan-out, a question and a graph inside it."""
    marks = hf.CheckpointConfig(interval=1, preserve=True)
    inner = app.graph("inner", checkpoint=marks)
    inner.add_node("polish", noting("polish")).add_node("shine", noting("shine"))
    inner.add_edge(hf.START, "polish").add_edge("polish", "shine").add_edge("shine", hf.END)
    graph = app.graph("everything", checkpoint=marks)
    graph.add_node("write", noting("write")).add_node("left", noting("left"))
    graph.add_node("right", sleeping, body=True).add_node("polish", inner)
    graph.add_map("read", double, over=pages, into="pages").add_node("ask", asking, body=True)
    graph.add_edge(hf.START, "write")
    graph.add_fork("write", ["left", "right"], join="read", merge={"notes": "append"})
    graph.add_edge("left", "read").add_edge("right", "read").add_edge("read", "polish")
    graph.add_edge("polish", "ask")
    graph.add_conditional_edge("ask", lambda state: state["ok"], {True: hf.END, False: "write"})
    return graph


def noting(name: str) -> Any:
    async def node(state: hf.State) -> Mapping[str, Any]:
        return {"notes": [*state.get("notes", []), name]}

    return node


async def sleeping(state: hf.State) -> Mapping[str, Any]:
    await hf.sleep(0.01)
    return {"notes": [*state["notes"], "right"]}


async def asking(state: hf.State) -> Mapping[str, Any]:
    return {"ok": await hf.ask("Good?", bool)}


async def double(page: int) -> int:
    return page * 2


def pages(state: hf.State) -> Sequence[int]:
    return [1, 2]


def next_turn(graph: hf.StateGraph[Any], loaded: Loaded) -> tuple[Any, ...]:
    """Return what a body that has seen these events waits for, and where it is."""
    workflow = graph.workflow
    machine = Machine(workflow.function, workflow.signature, ns="default", run="r")
    with fed(machine, loaded.run, loaded.events):
        return machine.fingerprint()


async def test_to_go_on_from_a_checkpoint_is_to_go_on_as_the_run_did(
    place: Place, app: hf.App
) -> None:
    graph = everything(app)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        for round_, answer in ((1, False), (2, True)):
            key = f"ask[{round_}]/ask#1"
            await history_when(run, partial(_is_open, key))
            await run.answer(key, answer)
        await within(run.result())
        whole, found = await run.history(), await hf.Checkpoints(client, "r").list()
    assert len(found) == 16
    async with place.open(app, worker=False) as client:
        points = hf.Checkpoints(client, "r")
        for each in found:
            then = whole._replace(events=_until(whole.events, each.seq))
            fork = await points.fork(each.key)
            assert next_turn(graph, await fork.history()) == next_turn(graph, then)
            there = hf.Checkpoints(client, fork.id)
            assert await there.state(each.key) == await points.state(each.key)
            assert [mark.key for mark in await there.list()] == _marks(then.events)
        for each in reversed(found):
            then = whole._replace(events=_until(whole.events, each.seq))
            await client.get("r").rerun(each.seq, exactly=True)
            assert next_turn(graph, await client.get("r").history()) == next_turn(graph, then)
            assert [mark.key for mark in await points.list()] == _marks(then.events)


def _marks(events: Sequence[hf.Event]) -> list[str]:
    return [event.key for event in events if event.kind == "note.checkpoint"]


def _until(events: Sequence[hf.Event], seq: int) -> tuple[hf.Event, ...]:
    """Return a history up to the turn of an event."""
    said = [e for e in events if e.seq > seq and e.kind.startswith("note.") and e.asked_seq <= seq]
    return (*(event for event in events if event.seq <= seq), *said)


def _is_open(key: str, loaded: Loaded) -> bool:
    asked = [event.key for event in loaded.events if event.kind == "question.asked"]
    answered = [event.key for event in loaded.events if event.kind == "question.answered"]
    return key in asked and key not in answered
