"""The scenarios of graphs with secrets, of graphs stopped and resumed, and of factories."""

import json
from collections.abc import Mapping
from typing import Any

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect
from tests.crash.secrets import TEXT, nothing_tells_it
from tests.crash.travels import shared_steps_do_not_run_again

app = hf.App("graph-lives")
go = hf.Signal("go", int)

# --- secrets in a state


fetch = app.graph("fetch")


@fetch.node(retry=hf.Retry(initial=1, jitter=False))
async def login(state: hf.State) -> hf.State:
    token = _token(state)
    effect("login")
    hf.log.info("log in with %s", token)
    if hf.attempt() == 1:
        raise ConnectionError(f"nobody knows {token}")
    return state.set("length", len(token))


@fetch.node(body=True)
async def wait(state: hf.State) -> Mapping[str, Any]:
    return {"page": await hf.wait_for(go)}


@fetch.node
async def load(state: hf.State) -> hf.State:
    effect("load")
    return state.set("length", state["length"] + len(_token(state))).delete_secret("token")


@fetch.node
async def tell(state: hf.State) -> hf.State:
    effect("tell")
    return state.set("is_gone", state.get_secret("token") is None)


fetch.add_edge(hf.START, login).add_edge(login, wait).add_edge(wait, load)
fetch.add_edge(load, tell).add_edge(tell, hf.END)


def _token(state: hf.State) -> str:
    token = state.get_secret("token")
    assert token is not None, "a node began without its secret"
    return token.reveal()


async def run_with_secrets(caller: Caller) -> None:
    state = hf.State().set_secret("token", TEXT)
    await caller.start(fetch.bind(state), "fetch")
    await caller.signal("fetch", go, 7, "go")
    wanted = hf.State({"length": 2 * len(TEXT), "page": 7, "is_gone": True})
    assert await caller.result("fetch") == ("completed", wanted)


# --- a run that is stopped, and resumed as `graph.resume` does it


stopped = app.graph("stopped")


@stopped.node
async def first(state: hf.State) -> hf.State:
    effect("first")
    return state.set("n", 1)


@stopped.node(body=True)
async def waits(state: hf.State) -> Mapping[str, Any]:
    return {"go": await hf.wait_for(go)}


stopped.add_edge(hf.START, first).add_edge(first, waits).add_edge(waits, hf.END)


async def run_stopped(caller: Caller) -> None:
    await caller.start(stopped.bind(hf.State()), "stopped")
    while (row := await caller.row("stopped")).generation == 1:
        if row.status == "cancelled":
            await caller.resume("stopped")
        elif row.wake_at is None and row.status == "waiting":
            await caller.cancel("stopped")
        await caller.sleep(1)
    await caller.signal("stopped", go, 5, "go")
    ended = await caller.result("stopped")
    assert ended == ("completed", hf.State({"n": 1, "go": 5})), ended


def no_recorded_node_runs_again(world: World) -> list[str]:
    """A node that is recorded has one record, whatever became of the run since then."""
    events = world.dump.events.get(("default", "stopped"), ())
    done = [e for e in events if e.kind == "step.completed" and e.key == "stopped.first#1"]
    return [] if len(done) <= 1 else [f"the first node was done {len(done)} times"]


# --- a factory, which gives another state each time it is called


class Drawn:
    """How often the factory was called in this world."""

    calls = 0


def begin() -> None:
    Drawn.calls = 0


def factory(graph: Any, runtime: Any, params: Mapping[str, Any]) -> hf.State:
    async def double(state: hf.State) -> hf.State:
        effect("double")
        return state.set("n", state["n"] * 2)

    async def pause(state: hf.State) -> Mapping[str, Any]:
        return {"go": await hf.wait_for(go)}

    graph.add_node("double", double).add_node("pause", pause, body=True)
    graph.add_edge(hf.START, "double").add_edge("double", "pause", hf.key_equals("n", 4))
    graph.add_edge("double", "double").add_edge("pause", hf.END)
    Drawn.calls += 1
    return hf.State({**params, "call": Drawn.calls})


app.factories.register("drawn", factory)


async def run_drawn(caller: Caller) -> None:
    await caller.start(app.factories.get("drawn").bind({"n": 1}), "drawn")
    await caller.signal("drawn", go, 3, "go")
    status, state = await caller.result("drawn")
    assert (status, state["n"], state["go"]) == ("completed", 4, 3)


def the_recorded_state_counts(world: World) -> list[str]:
    """The run ends with the state that was recorded of its factory, not with a later one."""
    said = [
        json.loads(event.payload or b"{}")
        for event in world.dump.events.get(("default", "drawn"), ())
        if event.key == "factory#1" or event.kind == "run.completed"
    ]
    if len(said) != 2:
        return [f"{len(said)} records instead of the factory's and the end"]
    recorded, ended = said[0]["state"]["call"], said[1]["call"]
    return [] if recorded == ended else [f"call {recorded} was recorded, {ended} counted"]


# --- forks with other states: after bodies, in a branch, in an inner graph, of a fork


inner = app.graph("lined")


@inner.node(body=True)
async def shine(state: hf.State) -> Mapping[str, Any]:
    await hf.sleep(1)
    return {"shine": 1}


inner.add_edge(hf.START, shine).add_edge(shine, hf.END)
edited = app.graph("edited", checkpoint=hf.CheckpointConfig(interval=2, preserve=True))


@edited.node
async def opens(state: hf.State) -> Mapping[str, Any]:
    effect("opens")
    return {"n": 1}


@edited.node(body=True)
async def rests(state: hf.State) -> Mapping[str, Any]:
    await hf.sleep(2)
    return {"rested": state["n"]}


@edited.node
async def works(state: hf.State) -> Mapping[str, Any]:
    effect("works")
    return {"worked": state["n"]}


@edited.node(body=True)
async def joins(state: hf.State) -> Mapping[str, Any]:
    return {"joined": state["rested"] + state["worked"]}


@edited.node
async def closes(state: hf.State) -> Mapping[str, Any]:
    effect("closes")
    return {"sum": state["joined"] + state["shine"]}


edited.add_node("polish", inner).add_edge(hf.START, opens)
edited.add_fork(opens, [rests, works], join=joins)
edited.add_edge(rests, joins).add_edge(works, joins).add_edge(joins, "polish")
edited.add_edge("polish", closes).add_edge(closes, hf.END)


async def run_edited(caller: Caller) -> None:
    await caller.start(edited.bind(hf.State()), "origin")
    await caller.until("origin", "completed")
    await caller.fork("origin", "fork", at="rests", state={"rested": 100})
    await caller.until("fork", "completed")
    await caller.fork("fork", "again", at="polish[1]/shine:1", state={"shine": 1_000})
    sums = {"origin": 3, "fork": 102, "again": 1_101}
    assert {id: (await caller.result(id)).value["sum"] for id in sums} == sums


GRAPH_LIVES = (
    Scenario("graph-edited", app, run_edited, workers=1, check=shared_steps_do_not_run_again),
    Scenario("graph-secrets", app, run_with_secrets, check=nothing_tells_it),
    Scenario("graph-resumed", app, run_stopped, either=True, check=no_recorded_node_runs_again),
    Scenario("factory", app, run_drawn, either=True, prepare=begin,
             check=the_recorded_state_counts),
)  # fmt: skip
