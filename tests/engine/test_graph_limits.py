"""How long a node of a graph may take: its step, its body, the graph that it is."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import crashtest
from tests.engine.places import Place, within

ONCE = hf.Retry(max_attempts=1)


async def failure_of(place: Place, app: hf.App, graph: hf.StateGraph[hf.State]) -> str:
    """Return why a run of the graph failed."""
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()))
        with pytest.raises(hf.RunFailed) as caught:
            await within(run.result())
    return str(caught.value)


async def test_a_node_that_takes_too_long_is_tried_again_and_then_fails_its_run(
    place: Place, app: hf.App
) -> None:
    graph = app.graph("slow")
    began: list[int] = []

    @graph.node(timeout=0.02, retry=hf.Retry(max_attempts=2, initial=0.01))
    async def hangs(state: hf.State) -> None:
        began.append(hf.attempt())
        await asyncio.Event().wait()

    graph.add_edge(hf.START, hangs).add_edge(hangs, hf.END)
    told = await failure_of(place, app, graph)
    assert "failed at node hangs: Step slow.hangs#1 failed after 2 attempts" in told
    assert began == [1, 2]


async def test_a_body_that_takes_too_long_fails_its_run(place: Place, app: hf.App) -> None:
    graph = app.graph("asks")
    ended: list[str] = []

    @graph.node(body=True, timeout=0.02)
    async def review(state: hf.State) -> Mapping[str, Any]:
        try:
            return {"ok": await hf.ask("Good?", bool)}
        finally:
            ended.append("review")

    graph.add_edge(hf.START, review).add_edge(review, hf.END)
    told = await failure_of(place, app, graph)
    assert "failed at node review: TimeoutError: node review took longer than 0.02 s" in told
    assert ended


async def test_a_graph_inside_that_takes_too_long_fails_its_run(place: Place, app: hf.App) -> None:
    inner = app.graph("inner")

    @inner.node
    async def hangs(state: hf.State) -> None:
        await asyncio.Event().wait()

    inner.add_edge(hf.START, hangs).add_edge(hangs, hf.END)
    outer = app.graph("outer").add_node("sub", inner, timeout=0.02)
    outer.add_edge(hf.START, "sub").add_edge("sub", hf.END)
    told = await failure_of(place, app, outer)
    assert "failed at node sub: TimeoutError: node sub took longer than 0.02 s" in told


async def test_a_node_in_time_knows_nothing_of_its_limit(place: Place, app: hf.App) -> None:
    graph = app.graph("quick")

    @graph.node(body=True, timeout=60)
    async def rests(state: hf.State) -> Mapping[str, Any]:
        await hf.sleep(0.01)
        try:
            async with asyncio.timeout(0.01):
                await hf.sleep(60)
        except TimeoutError:
            return {"rested": True}
        raise AssertionError("it was not woken")

    graph.add_edge(hf.START, rests).add_edge(rests, hf.END)
    async with place.open(app) as client:
        done = await within((await client.start(graph.bind(hf.State()))).result())
    assert dict(done) == {"rested": True}


def test_a_limit_holds_over_every_crash(app: hf.App) -> None:
    graph = app.graph("limited")

    @graph.node(body=True, timeout=30)
    async def rests(state: hf.State) -> Mapping[str, Any]:
        await hf.sleep(20)
        return {"rested": True}

    graph.add_edge(hf.START, rests).add_edge(rests, hf.END)
    assert crashtest(graph.bind(hf.State()), app=app).violations == []
