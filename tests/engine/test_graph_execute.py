"""Graphs without an app: `execute` and `resume` on an engine inside the process."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, until, within

ONCE = hf.Retry(max_attempts=1)


@dataclass(frozen=True)
class Typed:
    n: int


class Broken(Exception):
    pass


class Papers:
    """A graph of three nodes; `broken` ones raise, `calls` are those that ran."""

    def __init__(self, store: Any = None, **config: Any) -> None:
        self.graph = hf.new_graph_with_deps(hf.GraphConfig("papers", **config), store=store)
        self.calls: list[str] = []
        self.broken: set[str] = set()
        self.held: set[str] = set()
        for name in ("read", "judge", "file"):
            self.graph.add_node(name, self.node(name), retry=ONCE)
        self.graph.set_entry_point("read").add_edge("read", "judge").add_edge("judge", "file")
        self.graph.set_exit_point("file")

    def node(self, name: str) -> Any:
        async def work(state: hf.State) -> hf.State:
            self.calls.append(name)
            if name in self.broken:
                raise Broken(f"no {name}")
            if name in self.held:
                await asyncio.Event().wait()
            return state.set(name, state.get_secret("token") is not None)

        return work


def store_of(place: Place) -> Any:
    return place.url


async def test_a_graph_is_executed_without_an_app(place: Place) -> None:
    papers = Papers(store_of(place))
    state = hf.State({"topic": "tides"}, run_id="tides").set_secret("token", "hunter22-hunter22")
    result = await within(papers.graph.execute(state))
    assert dict(result) == {"topic": "tides", "read": True, "judge": True, "file": True}
    assert (result.run_id, result.checkpoint_node) == ("tides", "file")
    assert result.timestamp is not None
    assert result.get_secret("token") == state.get_secret("token")
    assert await within(papers.graph.execute(state)) == result, "the same id is the same run"
    assert papers.calls == ["read", "judge", "file"]


async def test_a_failure_names_node_path_state_and_cause_and_resume_goes_on(place: Place) -> None:
    papers = Papers(store_of(place))
    papers.broken.add("judge")
    with pytest.raises(hf.ExecutionError, match="no judge") as caught:
        await within(papers.graph.execute(hf.State({"n": 1})))
    error = caught.value
    assert (error.graph, error.node, error.path) == ("papers", "judge", ("read", "judge"))
    assert isinstance(error.state, hf.State)
    assert dict(error.state) == {"n": 1, "read": False}
    assert error.state.checkpoint_node == "read"
    assert isinstance(error.__cause__, hf.StepFailed)
    assert error.__cause__.type == "Broken"
    papers.broken.clear()
    resumed = await within(papers.graph.resume(error.state.run_id))
    assert dict(resumed) == {"n": 1, "read": False, "judge": False, "file": False}
    assert papers.calls == ["read", "judge", "judge", "file"]
    with pytest.raises(hf.InvalidStatus, match="it is completed"):
        await papers.graph.resume(error.state.run_id)
    with pytest.raises(hf.RunNotFound):
        await papers.graph.resume("nobody")


@pytest.mark.parametrize("how", ["cancel", "terminate", "left"])
async def test_a_run_that_was_stopped_goes_on_where_it_was(place: Place, how: str) -> None:
    papers = Papers(store_of(place))
    papers.held.add("judge")
    state = hf.State({"n": 1}, run_id="tides").set_secret("token", "hunter22-hunter22")
    executing = asyncio.ensure_future(papers.graph.execute(state))
    await until(lambda: "judge" in papers.calls)
    if how == "left":
        executing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await within(executing)
    else:
        async with papers.graph._engine.client() as client:  # pyright: ignore[reportPrivateUsage]
            run = client.get("tides")
            await (run.cancel() if how == "cancel" else run.terminate())
            ended = hf.RunCancelled if how == "cancel" else hf.RunTerminated
            with pytest.raises(ended):
                await within(executing)
    papers.held.clear()
    result = await within(papers.graph.resume("tides", state))
    assert dict(result) == {"n": 1, "read": True, "judge": True, "file": True}
    assert papers.calls == ["read", "judge", "judge", "file"], "no recorded node ran again"


async def test_executions_that_overlap_share_one_engine(place: Place) -> None:
    papers = Papers(store_of(place))
    states = [hf.State({"n": n}) for n in range(5)]
    results = await within(asyncio.gather(*map(papers.graph.execute, states)))
    assert [state["n"] for state in results] == [0, 1, 2, 3, 4]
    assert len(papers.calls) == 15


def test_runs_in_memory_are_found_again_from_another_event_loop() -> None:
    papers = Papers()
    papers.broken.add("file")
    with pytest.raises(hf.ExecutionError):
        asyncio.run(papers.graph.execute(hf.State(run_id="tides")))
    papers.broken.clear()
    assert dict(asyncio.run(papers.graph.resume("tides")))["file"] is False
    assert papers.calls == ["read", "judge", "file", "file"]


async def test_a_store_that_the_config_names_is_used_by_every_process(tmp_path: Path) -> None:
    config = hf.CheckpointConfig(store=f"sqlite:///{tmp_path}/papers.db")
    first, second = Papers(checkpoint=config), Papers(checkpoint=config)
    first.broken.add("judge")
    with pytest.raises(hf.ExecutionError):
        await within(first.graph.execute(hf.State(run_id="tides")))
    await within(second.graph.resume("tides"))
    assert (first.calls, second.calls) == (["read", "judge"], ["judge", "file"])


async def test_a_graph_that_cannot_be_walked_is_refused_and_nothing_is_stored(
    tmp_path: Path,
) -> None:
    graph = hf.StateGraph(hf.GraphConfig("empty"), store=f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(hf.InvalidGraph):
        await graph.execute(hf.State())
    assert list(tmp_path.iterdir()) == []


async def test_observers_are_given_or_named() -> None:
    seen: list[str] = []

    class Watch:
        async def on_event(self, event: hf.ExecutionEvent) -> None:
            seen.append(event.type)

    graph = hf.new_graph_with_deps(hf.default_graph_config("watched"), Watch())
    graph.add_node("one", dict).set_entry_point("one").set_exit_point("one")
    await within(graph.execute(hf.State({"a": 1})))
    await until(lambda: "graph.complete" in seen)
    with pytest.raises(hf.BadDefinition, match="'shout' names no observer"):
        hf.StateGraph(hf.GraphConfig("loud", observer="shout"))
    hf.StateGraph(hf.GraphConfig("quiet", observer="slog"))


async def test_a_typed_graph_of_an_app_is_executed_in_the_same_way(app: hf.App) -> None:
    graph = app.graph("typed", state=Typed)

    @graph.node
    def one(state: Typed) -> Typed:
        return Typed(state.n + 1)

    graph.set_entry_point(one).set_exit_point(one)
    assert await within(graph.execute(Typed(1))) == Typed(2)
