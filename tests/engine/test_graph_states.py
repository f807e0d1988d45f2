"""The state of a graph between its nodes: in memory, compared by how it came about."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pydantic
import pytest
from typing_extensions import TypedDict

import holdfast as hf
from tests.engine.places import Place, status_of, within

AGAIN = hf.Retry(max_attempts=2, initial=0.001)
go = hf.Signal("go", int)


@dataclass(frozen=True)
class Frozen:
    seen: list[int] = field(default_factory=list)


class Model(pydantic.BaseModel):
    seen: list[int] = []


class Typed(TypedDict, total=False):
    seen: list[int]


STATES: dict[str, tuple[Any, Any]] = {
    "dataclass": (Frozen, Frozen()),
    "model": (Model, Model()),
    "typed dict": (Typed, {"seen": []}),
    "map": (hf.State, hf.State({"seen": []})),
}


@pytest.mark.parametrize("kind", STATES)
async def test_each_attempt_of_a_node_has_a_state_of_its_own(
    place: Place, app: hf.App, kind: str
) -> None:
    cls, state = STATES[kind]
    graph: hf.StateGraph[Any] = app.graph("attempts", state=cls)
    met: list[list[int]] = []

    @graph.node(retry=AGAIN)
    async def meddle(state: Any) -> None:
        seen = state["seen"] if isinstance(state, dict | hf.State) else state.seen
        met.append(list(seen))
        seen.append(len(met))
        if len(met) == 1:
            raise ConnectionError("once")

    graph.add_edge(hf.START, meddle).add_edge(meddle, hf.END)
    async with place.open(app) as client:
        ended = await within((await client.start(graph.bind(state))).result())
    assert met == [[], []]
    assert ended == state


async def test_a_state_that_came_about_in_another_way_blocks_the_run(place: Place) -> None:
    def release(number: int) -> hf.App:
        app = hf.App("engine-tests")
        graph = app.graph("chosen")

        @graph.node(body=True)
        async def choose(state: hf.State) -> dict[str, int]:
            return {"number": number}

        @graph.node
        async def use(state: hf.State) -> None: ...

        @graph.node(body=True)
        async def wait(state: hf.State) -> dict[str, int]:
            return {"go": await hf.wait_for(go)}

        graph.add_edge(hf.START, choose).add_edge(choose, use).add_edge(use, wait)
        graph.add_edge(wait, hf.END)
        return app

    first = release(1)
    async with place.open(first) as client:
        bound: hf.Bound[Any] = first.workflows["chosen"].bind(hf.State())
        await client.start(bound, id="r")
        await status_of(client.get("r"), "waiting")
    async with place.open(release(2)) as client:
        await client.get("r").signal(go, 1)
        row = await status_of(client.get("r"), "blocked", "completed")
        assert row.status == "blocked"
        assert "chosen.use#1" in row.reason
    async with place.open(release(1)) as client:
        await client.get("r").retry()
        assert (await within(client.get("r").result()))["number"] == 1


async def test_a_merge_rule_gives_only_what_can_be_stored(place: Place, app: hf.App) -> None:
    graph = app.graph("odd")
    for name, function in {"a": nothing, "b": one, "c": one, "d": nothing}.items():
        graph.add_node(name, function)
    graph.add_edge(hf.START, "a")
    graph.add_fork("a", ["b", "c"], join="d", merge={"n": lambda before, each: object()})
    graph.add_edge("b", "d").add_edge("c", "d").add_edge("d", hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()))
        with pytest.raises(hf.RunFailed, match="object"):
            await within(run.result())


def nothing(state: hf.State) -> None: ...


def one(state: hf.State) -> dict[str, int]:
    return {"n": 1}


async def test_a_cached_node_knows_the_state_by_its_values(place: Place, app: hf.App) -> None:
    graph, done = app.graph("frugal"), list[int]()

    @graph.node(cache=hf.Cache(timedelta(hours=1)))
    async def look(state: hf.State) -> dict[str, int]:
        done.append(state["n"])
        return {"found": state["n"] * 10}

    graph.add_edge(hf.START, look).add_edge(look, hf.END)
    async with place.open(app) as client:
        for n in (1, 1, 2):
            ended = await within((await client.start(graph.bind(hf.State({"n": n})))).result())
            assert ended["found"] == n * 10
    assert sorted(set(done)) == [1, 2]
