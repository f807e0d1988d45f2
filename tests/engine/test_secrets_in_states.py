"""Secrets on their way into a state: told once, and how to do it; refused by strict graphs."""

import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, history_when, status_of, within

go = hf.Signal("go", int)


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "password",
        "api_key",
        "apiKey",
        "API_KEY",
        "db.password",
        "authToken",
        "client_secret",
    ],
)
def test_what_sounds_like_a_secret_is_told_with_the_line_to_write(name: str) -> None:
    line = rf"state\.set_secret\('{name}', \.\.\.\)"
    with pytest.warns(hf.SecretInState, match=line) as told:
        assert hf.State().set(name, "hunter22")[name] == "hunter22"
    assert [each.filename for each in told] == [__file__]
    with pytest.warns(hf.SecretInState, match=line) as told:
        hf.State().merge({"a": 1, name: "hunter22"})
    assert [each.filename for each in told] == [__file__]
    with pytest.warns(hf.SecretInState, match=line) as told:
        hf.State({name: "hunter22"})
    assert [each.filename for each in told] == [__file__]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokens", "a b"), ("token_count", "7"), ("max_tokens", 7), ("has_password", True),
        ("password", ""), ("token", None), ("key", "k"), ("primary_key", "7"), ("monkey", "m"),
        ("next_page_token", "p2"), ("secretary", "Ada"), ("", "x"),
    ],
)  # fmt: skip
def test_what_only_looks_like_one_is_left_alone(name: str, value: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hf.State({name: value}).set(name, value).merge({name: value})


@pytest.mark.parametrize("action", ["always", "error"])
async def test_a_body_is_told_of_and_not_again_in_a_replay(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture, action: Any
) -> None:
    graph = app.graph("g")

    @graph.node(body=True)
    async def tell(state: hf.State) -> hf.State:
        first = await hf.wait_for(go)
        state = state.set("api_key", "hunter22")
        return state.set("n", first + await hf.wait_for(go))

    graph.add_edge(hf.START, tell).add_edge(tell, hf.END)
    streaming = hf.StreamingObserver[hf.ExecutionEvent]()
    app.observe_graphs(streaming)  # which walks the graph once more
    caplog.set_level(logging.WARNING, "holdfast.worker")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter(action, hf.SecretInState)
        async with place.open(app, machines=0) as client:
            seen = streaming.events()
            run = await client.start(graph.bind(hf.State()), id="r")
            for n in (1, 2):
                await status_of(run, "waiting")
                await run.signal(go, n)
                await history_when(run, lambda loaded: loaded.run.inbox_read >= n)  # noqa: B023
            assert dict(await within(run.result())) == {"api_key": "hunter22", "n": 3}
            while not (await within(anext(seen))).closes:
                pass
    said = [each.getMessage() for each in caplog.records if "sounds like" in each.getMessage()]
    said += [str(each.message) for each in told]
    assert len(said) == 1
    assert "state.set_secret('api_key', ...)" in said[0]
    assert "hunter22" not in said[0]
    assert [each.filename for each in told] == ([] if action == "error" else [__file__])


async def test_a_node_that_returns_one_among_its_changes_warns(place: Place, app: hf.App) -> None:
    graph = app.graph("g")

    @graph.node
    async def tell(state: hf.State) -> Mapping[str, Any]:
        return {"password": "hunter22"}

    graph.add_edge(hf.START, tell).add_edge(tell, hf.END)
    async with place.open(app) as client:
        with pytest.warns(hf.SecretInState, match=r"Node 'tell': 'password'"):
            await within((await client.start(graph.bind(hf.State()))).result())


@pytest.mark.parametrize("body", [False, True])
async def test_a_strict_graph_refuses_them(place: Place, app: hf.App, body: bool) -> None:
    graph = app.graph("g", strict=True)
    calls: list[str] = []

    async def tell(state: hf.State) -> Mapping[str, Any]:
        if not body:
            calls.append(state.run_id)
        return {"password": "hunter22"}

    graph.add_node("tell", tell, body=body)
    graph.add_edge(hf.START, "tell").add_edge("tell", hf.END)
    with pytest.warns(hf.SecretInState):
        state = hf.State({"token": "hunter22"})
    with pytest.raises(hf.SecretInState, match="State of graph 'g': 'token'"):
        graph.bind(state)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        with pytest.raises(hf.RunFailed, match=r"Node 'tell': 'password' sounds like a secret"):
            await within(run.result())
        assert b"hunter22" not in b"".join(e.payload or b"" for e in (await run.history()).events)
    assert calls == ([] if body else ["r"])  # tried once


@dataclass(frozen=True)
class Doc:
    token: str = ""
    tokens: int = 0
    password: bool = False


async def nothing(state: Doc) -> None: ...


def typed(strict: bool) -> hf.StateGraph[Doc]:
    graph = hf.App("typed").graph("typed", state=Doc, strict=strict)
    graph.add_node("nothing", nothing)
    return graph.add_edge(hf.START, "nothing").add_edge("nothing", hf.END)


def test_a_field_of_a_type_is_told_once_when_the_graph_is_built() -> None:
    graph = typed(strict=False)
    assert graph.validate() == []
    with pytest.warns(hf.SecretInState, match=r"hf\.secret\('token'\)") as told:
        graph.bind(Doc())
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.bind(Doc())


def test_a_strict_graph_names_such_a_field_among_its_problems() -> None:
    (problem,) = typed(strict=True).validate()
    assert problem.startswith("Field 'token' sounds like a secret")
    with pytest.raises(hf.InvalidGraph, match="Field 'token'"):
        typed(strict=True).bind(Doc())


async def untouched(state: hf.State) -> None: ...


async def test_a_token_among_the_parameters_of_a_factory_is_told(place: Place, app: hf.App) -> None:
    def factory(graph: hf.StateGraph[hf.State], runtime: Any, params: Any) -> hf.State:
        graph.add_node("n", untouched)
        graph.add_edge(hf.START, "n").add_edge("n", hf.END)
        return hf.State()

    app.factories.register("f", factory)
    async with place.open(app) as client:
        with pytest.warns(hf.SecretInState, match=r"token=\.\.\."):
            run = await hf.Executor(client).create_run("f", {"token": "hunter22"})
        await within(run.result())
    with pytest.raises(hf.BadDefinition, match="strict=1 is no bool"):
        hf.GraphConfig("g", strict=1)  # type: ignore[arg-type]


async def test_a_secret_in_a_state_that_a_fork_is_given_is_told_or_refused(
    place: Place, app: hf.App
) -> None:
    async def passes(state: hf.State) -> None:
        return None

    loose, strict = app.graph("loose"), app.graph("strict", strict=True)
    line = r"await fork\.supply_secret\('token', hf\.Secret\(\.\.\.\)\)"
    for graph in (loose, strict):
        graph.add_node("only", passes).add_edge(hf.START, "only").add_edge("only", hf.END)
    async with place.open(app) as client:
        for graph in (loose, strict):
            await within((await client.start(graph.bind(hf.State()), id=graph.name)).result())
        with pytest.warns(hf.SecretInState, match=line) as told:
            await hf.Checkpoints(client, "loose").fork("only", {"token": "hunter22"})
        assert [each.filename for each in told] == [__file__]
        with pytest.raises(hf.SecretInState, match=line):
            await hf.Checkpoints(client, "strict").fork("only", {"token": "hunter22"})
