"""Stores of checkpoints, on every store of runs: fed after the commit, in nobody's way."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, status_of, until, within

go = hf.Signal("go", int)


@dataclass(frozen=True)
class Part:
    size: int
    made: datetime


@dataclass(frozen=True)
class Doc:
    n: int = 0
    parts: tuple[Part, ...] = ()


MADE = datetime(2026, 1, 2, 3, 4)  # noqa: DTZ001 - as it is written


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what waits for a store told however slow the machine is, and tried again at once."""
    monkeypatch.setattr("holdfast.hosts.worker.observing.LEAVE", 60.0)
    monkeypatch.setattr("holdfast.checkpoint_stores.PATIENCE", (0.01, 0.02))


class Kept(hf.MemoryCheckpointStore):
    """A store that tells what was done with it, and refuses as often as it is told to."""

    def __init__(self, refusals: int = 0) -> None:
        super().__init__()
        self.done: list[tuple[str, Any]] = []
        self.refusals = refusals

    async def save(self, state: hf.State) -> None:
        if self.refusals:
            self.refusals -= 1
            raise ConnectionError("no answer")
        self.done.append(("save", (state.checkpoint_node, state.get("n"))))
        await super().save(state)

    async def delete(self, run_id: str) -> None:
        self.done.append(("delete", run_id))
        await super().delete(run_id)


def drawn(app: hf.App, name: str = "kept", **config: Any) -> hf.StateGraph[hf.State]:
    graph = app.graph("round", checkpoint=hf.CheckpointConfig(store=name, **config))

    @graph.node
    async def add(state: hf.State) -> Mapping[str, Any]:
        return {"n": state["n"] + 1}

    @graph.node(body=True)
    async def waits(state: hf.State) -> Mapping[str, Any]:
        return {"go": await hf.wait_for(go)}

    graph.add_edge(hf.START, add).add_edge(add, waits)
    return graph.add_edge(waits, hf.END, hf.key_equals("n", 2)).add_edge(waits, add)


SAVES = [("save", (node, n)) for node, n in (("add", 1), ("waits", 1), ("add", 2), ("waits", 2))]


@pytest.mark.parametrize("preserve", [True, False])
async def test_a_store_is_fed_in_order_and_emptied_when_the_run_is_complete(
    place: Place, app: hf.App, preserve: bool
) -> None:
    store = Kept(refusals=2)
    app.register_checkpoint_store("kept", store)
    graph = drawn(app, interval=1, preserve=preserve)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 0})), id="r")
        for n in (1, 2):
            await run.signal(go, n)
        assert (await within(run.result()))["n"] == 2
        await until(lambda: _is(len(store.done) == 5 - preserve))
    assert store.done == SAVES + ([] if preserve else [("delete", "r")])
    assert await store.list() == (["r"] if preserve else [])
    if preserve:
        state = await store.load("r")
        assert (dict(state), state.run_id, state.checkpoint_node) == (
            {"n": 2, "go": 2}, "r", "waits",
        )  # fmt: skip
        assert state.timestamp is not None
    else:
        with pytest.raises(hf.UnknownKey):
            await store.load("r")


async def _is(holds: bool) -> bool:
    return holds


async def test_a_store_that_fails_holds_up_no_run(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    store = Kept(refusals=1 << 30)
    app.register_checkpoint_store("kept", store)
    graph = drawn(app, interval=1)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 1})))
        await run.signal(go, 1)
        assert (await within(run.result()))["n"] == 2
        await until(lambda: _is("ConnectionError" in caplog.text))
        store.refusals = 0
        await until(lambda: _is(("delete", run.id) in store.done))
    levels = {each.levelno for each in caplog.records if each.name == "holdfast.checkpoints"}
    assert levels == {logging.WARNING}


async def test_what_was_not_told_is_told_by_the_next_worker(place: Place) -> None:
    def opened(store: hf.CheckpointStore) -> tuple[hf.App, hf.StateGraph[hf.State]]:
        app = hf.App("engine-tests")
        app.register_checkpoint_store("kept", store)
        return app, drawn(app, interval=1)

    app, graph = opened(Kept())
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 0})), id="r")
        ended = await client.start(graph.bind(hf.State({"n": 1})), id="ended")
        await ended.signal(go, 1)
        await within(ended.result())
        await status_of(run, "waiting")
    # Another process takes over; all that the first kept is lost, or was never told.
    left = Kept()
    await left.save(hf.State({"n": 1}, run_id="ended").placed("ended", "add", 1))
    await left.save(hf.State({"n": 0}, run_id="stranger").placed("stranger", "add", 1))
    left.done.clear()
    app, graph = opened(left)
    async with place.open(app) as client:
        await client.get("r").signal(go, 1)
        await until(
            lambda: _is(("save", ("add", 2)) in left.done and ("delete", "ended") in left.done)
        )
    assert await left.list() == ["stranger", "r"]
    assert [each for each in left.done if each[0] == "save"] == SAVES[:3]


async def test_a_typed_state_is_kept_as_its_fields(app: hf.App) -> None:
    store = hf.MemoryCheckpointStore()
    config = hf.GraphConfig("typed", checkpoint=hf.CheckpointConfig(interval=1, preserve=True))
    graph = hf.StateGraph(config, state=Doc, store=store)

    @graph.node
    async def make(doc: Doc) -> Doc:
        return Doc(doc.n + 1, (Part(2, MADE),))

    graph.add_edge(hf.START, make).add_edge(make, hf.END)
    await graph.execute(Doc())
    (run,) = await store.list()
    assert dict(await store.load(run)) == {
        "n": 1, "parts": [{"size": 2, "made": "2026-01-02T03:04:00"}],
    }  # fmt: skip
    state = await store.load(run)
    state["parts"].clear()
    assert len((await store.load(run))["parts"]) == 1


async def test_secrets_are_in_no_store(app: hf.App) -> None:
    store = Kept()
    config = hf.GraphConfig("fetch", checkpoint=hf.CheckpointConfig(interval=1, preserve=True))
    graph = hf.new_graph_with_deps(config, None, store)

    @graph.node
    async def fetch(state: hf.State) -> hf.State:
        token = state.get_secret("token")
        return state.set("n", len(token.reveal()) if token else 0)

    graph.add_edge(hf.START, fetch).add_edge(fetch, hf.END)
    await graph.execute(hf.State({}, run_id="r").set_secret("token", "hunter22"))
    kept = await store.load("r")
    assert (dict(kept), dict(kept.secrets)) == ({"n": 8}, {})
    assert "hunter22" not in repr(vars(store))


async def test_the_histories_are_a_store_that_can_be_read(place: Place, app: hf.App) -> None:
    app.register_checkpoint_store("kept", hf.MemoryCheckpointStore())
    graph = drawn(app, interval=2, preserve=True)

    @app.workflow
    async def other() -> None:
        return None

    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State({"n": 1})), id="r")
        await run.signal(go, 1)
        await within(run.result())
        await within((await client.start(other.bind(), id="other")).result())
        store: hf.CheckpointStore = hf.HistoryCheckpoints(client)
        assert await store.list() == ["r"]
        state = await store.load("r")
        assert (dict(state), state.run_id, state.checkpoint_node) == (
            {"n": 2, "go": 1}, "r", "waits",
        )  # fmt: skip
        with pytest.raises(hf.BadDefinition, match="record their checkpoints"):
            await store.save(state)
        with pytest.raises(hf.BadDefinition, match="record their checkpoints"):
            await store.delete("r")
        with pytest.raises(hf.RunNotFound):
            await store.load("nobody")


async def test_a_store_that_is_not_there_is_named_with_those_that_are(app: hf.App) -> None:
    app.register_checkpoint_store("kept", hf.MemoryCheckpointStore())
    with pytest.raises(
        hf.BadDefinition, match=r"unknown checkpoint store: 'keep'\. Known are kept, mem"
    ):
        drawn(app, "keep")
    with pytest.raises(hf.BadDefinition, match="is taken"):
        app.register_checkpoint_store("memory", hf.MemoryCheckpointStore())
    store: Any = object()
    with pytest.raises(hf.BadDefinition, match="save, load, delete, list"):
        app.register_checkpoint_store("mine", store)


async def test_runs_of_factories_are_kept_too(app: hf.App) -> None:
    store = Kept()
    app.register_checkpoint_store("kept", store)

    def factory(
        graph: hf.StateGraph[hf.State], runtime: Any, params: Mapping[str, Any]
    ) -> hf.State:
        @graph.node
        async def add(state: hf.State) -> hf.State:
            return state.set("n", 1)

        graph.add_edge(hf.START, add).add_edge(add, hf.END)
        return hf.State(params)

    point = hf.CheckpointConfig(interval=1, store="kept", preserve=True)
    app.factories.register("made", factory, config=hf.GraphConfig("made", checkpoint=point))
    async with app.open("memory://") as client:
        await within((await hf.Executor(client).create_run("made", id="r")).result())
        await until(lambda: _is(bool(store.done)))
    assert store.done == [("save", ("add", 1))]
