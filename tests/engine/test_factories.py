"""Workflows by name, on every store: factories draw the graph of each run from its parameters."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, status_of, until, within

Graph = hf.StateGraph[hf.State]


class Papers:
    """A factory that draws one node a page; `extra` ones are as if the code had changed."""

    def __init__(self, extra: bool = False, start: int = 0) -> None:
        self.app, self.extra, self.calls = hf.App("papers"), extra, list[str]()
        self.app.runtime = hf.Runtime(services={"start": start})
        self.flow = self.app.factories.register("read", self.draw, "Reads pages.")

    def draw(self, graph: Graph, runtime: hf.Runtime, params: Mapping[str, Any]) -> hf.State:
        before = hf.START
        for page in range(params["pages"] + self.extra):
            graph.add_node(f"p{page}", self.node(page, params.get("asks", False)), body=page == 1)
            graph.add_edge(before, f"p{page}")
            before = f"p{page}"
        graph.set_exit_point(before)
        return hf.State({"read": runtime.services["start"]})

    def node(self, page: int, asks: bool) -> Any:
        async def read(state: hf.State) -> dict[str, Any]:
            self.calls.append(f"{page}")
            if page == 1 and asks:
                await hf.ask("Go on?", bool, to="ada")
            return {"read": state["read"] + 1}

        return read


async def test_the_parameters_of_a_run_draw_its_graph(place: Place) -> None:
    papers = Papers(start=10)
    async with place.open(papers.app) as client:
        for pages in (1, 3):
            run = await client.start(papers.flow.bind({"pages": pages}), id=f"r{pages}")
            assert dict(await within(run.result())) == {"read": 10 + pages}


async def test_another_host_draws_it_again_and_begins_with_the_recorded_state(place: Place) -> None:
    first, second = Papers(start=10), Papers(start=99)
    async with place.open(first.app) as client:
        await client.start(first.flow.bind({"pages": 3, "asks": True}), id="r")
        await until(lambda: "1" in first.calls)
        await status_of(client.get("r"), "waiting")
    async with place.open(second.app) as client:
        run = client.get("r", second.flow)
        await run.answer("p1[1]/ask#1", True)
        assert dict(await within(run.result())) == {"read": 13}
    assert "0" not in second.calls


async def test_a_graph_of_another_shape_blocks_the_run(place: Place) -> None:
    first, second = Papers(), Papers(extra=True)
    async with place.open(first.app) as client:
        await client.start(first.flow.bind({"pages": 3, "asks": True}), id="r")
        await status_of(client.get("r"), "waiting")
    async with place.open(second.app) as client:
        run = client.get("r", second.flow)
        await run.answer("p1[1]/ask#1", True)
        assert "factory#1" in (await status_of(run, "blocked")).reason


async def test_a_factory_that_raises_fails_a_new_run(place: Place) -> None:
    papers = Papers()
    async with place.open(papers.app) as client:
        run = await client.start(papers.flow.bind({}), id="r")
        with pytest.raises(hf.RunFailed, match="'pages'"):
            await within(run.result())


def test_the_registry_lists_finds_and_refuses() -> None:
    papers = Papers()
    factories = papers.app.factories
    threads = [
        threading.Thread(target=factories.register, args=(f"w{n}", papers.draw, f"{n}"))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert factories.list()[0] == hf.WorkflowInfo("read", "Reads pages.")
    assert [info.name for info in factories.list()] == ["read", *(f"w{n}" for n in range(8))]
    with pytest.raises(hf.WorkflowNotFound, match="Did you mean 'read'"):
        factories.get("raed")
    with pytest.raises(hf.BadDefinition, match="already has a workflow 'read'"):
        factories.register("read", papers.draw)
    replaced = factories.register("read", papers.draw, "Another.", replace=True)
    assert factories.get("read") is replaced


async def test_what_is_to_be_done_at_the_end_is_done_when_the_worker_has_stopped() -> None:
    papers, done = Papers(), list[str]()
    assert papers.app.runtime is not None
    papers.app.runtime.lifecycle.on_close(lambda: done.append("closed"))
    async with papers.app.open("memory://"):
        assert done == []
    assert (done, papers.app.runtime.lifecycle.is_closing) == (["closed"], True)
