"""The tables of auditors, read from outside with plain SQL: they tell what the events tell."""

import asyncio
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest

import holdfast as hf
from tests.engine.places import Place, event_of, status_of, within

ONCE = hf.Retry(max_attempts=1)
WALKED = {"runs", "r", "o", "run_events", "h", "c"}
"""The names under which the views read runs and events."""

DIES = """
import asyncio, os, sys
import holdfast as hf

app = hf.App("engine-tests")
graph = app.graph("dies")

@graph.node
async def first(state: hf.State) -> hf.State:
    return state.set("n", 1)

@graph.node
async def second(state: hf.State) -> None:
    if sys.argv[2] == "dies":
        os._exit(9)

graph.add_edge(hf.START, first).add_edge(first, second).add_edge(second, hf.END)

async def main() -> None:
    async with app.open(sys.argv[1]) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        await run.result()

asyncio.run(main())
"""


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A store that others can read with a driver of their own."""
    url = request.getfixturevalue("postgres_store") if request.param == "postgres" else ""
    return Place(request.param, tmp_path, url)


async def read(place: Place, query: str) -> list[dict[str, Any]]:
    """Ask the database itself, without us."""
    if place.kind == "sqlite":
        connection = sqlite3.connect(f"file:{place.path}?mode=ro", uri=True)
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute(query)]
        finally:
            connection.close()
    server = await asyncpg.connect(str(place.url), server_settings={"search_path": "holdfast"})
    try:
        return [dict(row) for row in await server.fetch(query)]
    finally:
        await server.close()


async def stages(place: Place, run: str) -> list[dict[str, Any]]:
    query = f"SELECT * FROM stages WHERE ns = 'default' AND run_id = '{run}' ORDER BY iteration"
    return await read(place, query)


async def decisions(place: Place, run: str) -> list[tuple[Any, ...]]:
    found = await read(place, f"SELECT * FROM decisions WHERE ns = 'default' AND run_id = '{run}'")
    names = ("from_node", "to_node", "predicate_name", "predicate_result", "reason", "within")
    return sorted((tuple(row[name] for name in names) for row in found), key=str)


def one_of_everything(app: hf.App) -> hf.StateGraph[hf.State]:
    """A graph with a loop, a fork, a graph inside, a fan-out, a child and a body."""

    async def passes(state: hf.State) -> None:
        return None

    async def double(n: int) -> int:
        return 2 * n

    twice = app.step(name="double")(double)
    inner = app.graph("inner").add_node("in", passes).add_node("out", passes)
    inner.add_edge(hf.START, "in").add_edge("in", "out").set_exit_point("out")
    child = app.graph("child").add_node("only", passes)
    child.add_edge(hf.START, "only").add_edge("only", hf.END)
    graph = app.graph("all")

    @graph.node
    async def count(state: hf.State) -> hf.State:
        return state.set("n", state.get("n", 0) + 1)

    @graph.node(body=True)
    async def think(state: hf.State) -> dict[str, Any]:
        return {"four": await twice(2)}

    for name in ("left", "right", "after", "last"):
        graph.add_node(name, passes)
    graph.add_node("sub", inner).add_node("run", child.workflow)
    graph.add_map("fan", twice, over=lambda _: [1, 2], into="twos")
    graph.add_edge(hf.START, count).add_edge(count, count, lambda s: s["n"] < 2, name="again")
    graph.add_edge(count, think).add_fork(think, ["left", "right"], join="sub")
    graph.add_edge("right", "after").add_edge("after", "sub").add_edge("left", "sub")
    graph.add_edge("sub", "run").add_edge("run", "fan").add_edge("fan", "last")
    return graph.set_exit_point("last")


async def test_stages_are_the_nodes_that_events_tell(place: Place, app: hf.App) -> None:
    graph = one_of_everything(app)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        await within(run.result())
        told = [event async for event in hf.graph_events(client, "r")]
    ended = [event.data for event in told if event.type == "node.complete"]
    expected = {(e["node"], e["iteration"], e.get("within", ""), e["duration_ms"]) for e in ended}
    found = await stages(place, "r")
    names = ("node_name", "iteration", "within", "duration_ms")
    assert {tuple(row[name] for name in names) for row in found} == expected
    assert len(found) == len(ended) == len({row["id"] for row in found})
    assert {row["status"] for row in found} == {"completed"}
    (own,) = [row for row in found if row["node_name"] == "count" and row["iteration"] == 2]
    assert own["input_snapshot"] == '{"set":{"n":1}}'
    assert (own["output_snapshot"], own["codec"], own["size"]) == ('{"set":{"n":2}}', 0, 15)
    (first,) = [row for row in found if row["iteration"] == 1 and not row["within"]]
    assert json.loads(first["input_snapshot"]) == {"state": {}, "secrets": []}
    assert [row["output_snapshot"] for row in found if row["node_name"] == "think"] == [None]


async def test_decisions_are_the_ways_taken_and_those_rejected(place: Place, app: hf.App) -> None:
    graph = one_of_everything(app)
    async with place.open(app) as client:
        await within((await client.start(graph.bind(hf.State()), id="r")).result())
    found = await decisions(place, "r")
    assert ("count", "count", "again", True, "it held", "") in found
    assert ("count", "count", "again", False, "it did not hold", "") in found
    assert ("count", "think", None, True, "always", "") in found
    assert ("think", "left", None, True, "fork, joined at sub", "") in found
    assert ("right", "after", None, True, "always", "right[1]") in found
    assert ("last", "END", None, True, "always", "") in found
    assert len(found) == 14
    (child,) = await decisions(place, "r/child#1")
    assert child[:2] == ("only", "END")


async def test_runs_are_shown_with_what_came_of_them(place: Place, app: hf.App) -> None:
    @app.step(retry=ONCE)
    async def breaks() -> None:
        raise ValueError("no paper")

    @app.workflow
    async def works(n: int) -> int:
        if n == 2:
            await breaks()
        return n + 1

    async with place.open(app) as client:
        await within((await client.start(works.bind(1), id="good")).result())
        with pytest.raises(hf.RunFailed):
            await within((await client.start(works.bind(2), id="bad")).result())
    rows = {row["id"]: row for row in await read(place, "SELECT * FROM workflow_runs")}
    good, bad = rows["good"], rows["bad"]
    assert (good["workflow_name"], good["status"]) == ("works", "completed")
    assert (good["params"], good["result"], good["error_message"]) == ('{"n":1}', "2", None)
    assert good["completed_at"] >= good["started_at"] == good["created_at"]
    assert (bad["status"], bad["result"]) == ("failed", None)
    assert bad["error_message"].startswith("StepFailed: Step breaks#1 failed")


async def test_a_node_that_failed_shows_why_and_after_a_retry_once(
    place: Place, app: hf.App
) -> None:
    graph, tries = app.graph("retried"), list[int]()

    @graph.node(retry=ONCE)
    async def flaky(state: hf.State) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no paper")

    @graph.node
    async def calm(state: hf.State) -> None:
        return None

    graph.add_edge(hf.START, flaky).add_edge(flaky, calm).add_edge(calm, hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        (row,) = await stages(place, "r")
        assert (row["node_name"], row["iteration"], row["status"]) == ("flaky", 1, "failed")
        assert "no paper" in row["error_message"]
        await run.retry()
        await within(run.result())
    found = await stages(place, "r")
    assert [(row["node_name"], row["status"]) for row in found] == [
        ("flaky", "completed"), ("calm", "completed"),
    ]  # fmt: skip
    assert {row["error_message"] for row in found} == {None}


async def test_nodes_that_are_at_work_show_as_started_then_as_ended_with_their_run(
    place: Place, app: hf.App
) -> None:
    graph, waiting = app.graph("slow"), asyncio.Semaphore(0)

    async def hangs(state: hf.State) -> None:
        waiting.release()
        await asyncio.Event().wait()

    async def passes(state: hf.State) -> None:
        return None

    graph.add_node("first", passes).add_node("left", hangs).add_node("right", passes)
    graph.add_node("slow", hangs).add_node("joined", passes)
    graph.add_edge(hf.START, "first").add_fork("first", ["left", "right"], join="joined")
    graph.add_edge("right", "slow").add_edge("slow", "joined").add_edge("left", "joined")
    graph.add_edge("joined", hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        await within(waiting.acquire())
        await within(waiting.acquire())
        open_ = {row["node_name"]: row for row in await stages(place, "r")}
        assert {name: row["status"] for name, row in open_.items()} == {
            "first": "completed", "left": "started", "right": "completed", "slow": "started",
        }  # fmt: skip
        assert [open_[name]["iteration"] for name in ("left", "right", "slow")] == [2, 3, 4]
        assert open_["slow"]["duration_ms"] is None
        await run.cancel()
        await status_of(run, "cancelled")
    ended = {row["node_name"]: row for row in await stages(place, "r")}
    assert ended["slow"]["status"] == ended["left"]["status"] == "failed"
    assert ended["slow"]["error_message"] == "cancelled"


async def test_a_join_that_waits_shows_as_started(place: Place, app: hf.App) -> None:
    graph = app.graph("asks")

    async def passes(state: hf.State) -> None:
        return None

    @graph.node(body=True)
    async def asks(state: hf.State) -> dict[str, Any]:
        return {"ok": await hf.ask("Good?", bool)}

    for name in ("first", "left", "right"):
        graph.add_node(name, passes)
    graph.add_edge(hf.START, "first").add_fork("first", ["left", "right"], join=asks)
    graph.add_edge("left", asks).add_edge("right", asks).add_edge(asks, hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        await event_of(run, "question.asked")
        *_, last = await stages(place, "r")
        assert (last["node_name"], last["iteration"], last["status"]) == ("asks", 4, "started")
        await run.answer("asks[1]/ask#1", True, by="ada")
        await within(run.result())
    assert [row["status"] for row in await stages(place, "r")] == ["completed"] * 4


async def test_a_process_that_died_left_a_node_that_goes_on(place: Place, tmp_path: Path) -> None:
    program = tmp_path / "dies.py"
    program.write_text(DIES)

    async def run(how: str) -> int:
        child = await asyncio.create_subprocess_exec(
            sys.executable, str(program), str(place.url), how, stderr=asyncio.subprocess.DEVNULL
        )
        async with asyncio.timeout(60):
            return await child.wait()

    assert await run("dies") == 9
    shown = [(row["node_name"], row["status"]) for row in await stages(place, "r")]
    assert shown == [("first", "completed"), ("second", "started")]
    assert await run("lives") == 0
    shown = [(row["node_name"], row["status"]) for row in await stages(place, "r")]
    assert shown == [("first", "completed"), ("second", "completed")]


async def test_a_fork_of_a_run_shows_what_it_shares(place: Place, app: hf.App) -> None:
    graph = one_of_everything(app)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        await within(run.result())
        notes = [e for e in (await run.history()).events if e.key == "think.next#1"]
        fork = await run.fork(notes[0].seq, id="f")
        await within(fork.result())
    of_run, of_fork = await stages(place, "r"), await stages(place, "f")
    names = ("node_name", "iteration", "within", "status", "input_snapshot")
    shown = [sorted(str([row[n] for n in names]) for row in rows) for rows in (of_run, of_fork)]
    assert shown[0] == shown[1]
    assert await decisions(place, "f") == await decisions(place, "r")
    rows = await read(place, "SELECT id, params FROM workflow_runs WHERE id IN ('r', 'f')")
    assert {row["params"] for row in rows} == {'{"state":{},"secrets":[]}'}


async def test_what_is_encrypted_has_a_size_and_no_text(place: Place, app: hf.App) -> None:
    graph = app.graph("private")

    @graph.node
    async def look(state: hf.State) -> hf.State:
        return state.set("found", "hunter22")

    graph.add_edge(hf.START, look).add_edge(look, hf.END)
    keys = hf.KeyRing({"k": hf.KeyRing.new_key()})
    async with app.open(str(place.url), keys=keys) as client:
        await within((await client.start(graph.bind(hf.State()), id="r")).result())
    (row,) = await stages(place, "r")
    assert (row["node_name"], row["status"], row["codec"]) == ("look", "completed", 1)
    assert row["size"] > len("hunter22")
    assert (row["input_snapshot"], row["output_snapshot"]) == (None, None)
    ((source, target, *_),) = await decisions(place, "r")
    assert (source, target) == ("look", None)
    (shown,) = await read(place, "SELECT * FROM workflow_runs")
    assert (shown["params"], shown["result"], shown["codec"]) == (None, None, 1)
    everything = [*await read(place, "SELECT * FROM stages"), shown]
    assert "hunter22" not in str(everything)


async def test_a_graph_of_a_factory_shows_its_nodes(place: Place, app: hf.App) -> None:
    def drawn(graph: hf.StateGraph[hf.State], _: Any, params: Any) -> hf.State:
        async def passes(state: hf.State) -> None:
            return None

        for name in params["names"]:
            graph.add_node(name, passes)
        graph.set_entry_point(params["names"][0]).set_exit_point(params["names"][0])
        return hf.State(params)

    factory = app.factories.register("drawn", drawn)
    async with place.open(app) as client:
        await within((await client.start(factory.bind({"names": ["one"]}), id="r")).result())
    (row,) = await stages(place, "r")
    assert (row["node_name"], row["status"], row["iteration"]) == ("one", "completed", 1)


async def test_the_stages_of_one_run_are_found_by_its_key(tmp_path: Path, app: hf.App) -> None:
    place = Place("sqlite", tmp_path)
    async with place.open(app):
        pass
    for table, column, looks in (
        ("stages", "run_id", {"h"}), ("decisions", "run_id", {"h"}),
        ("workflow_runs", "id", {"c", "s", "run_events"}),
    ):  # fmt: skip
        asked = f"SELECT * FROM {table} WHERE ns = 'default' AND {column} = 'r'"
        plan = [row["detail"] for row in await read(place, f"EXPLAIN QUERY PLAN {asked}")]
        assert not {step.split()[1] for step in plan if step.startswith("SCAN")} & WALKED
        assert {step.split()[1] for step in plan if "USING INTEGER PRIMARY KEY" in step} == looks


@pytest.mark.parametrize("preserve", [True, False])
async def test_checkpoints_hold_what_their_nodes_changed_while_they_count(
    place: Place, app: hf.App, preserve: bool
) -> None:
    kept = hf.CheckpointConfig(interval=2, preserve=preserve)
    config, tries = hf.GraphConfig("marked", checkpoint=kept), [1]
    graph = hf.StateGraph(config, app=cast("Any", app))

    @graph.node
    async def count(state: hf.State) -> hf.State:
        return state.set("n", state.get("n", 0) + 1)

    @graph.node(retry=ONCE)
    async def flaky(state: hf.State) -> None:
        if tries.pop():
            raise ValueError("no paper")

    graph.add_edge(hf.START, count).add_edge(count, count, lambda s: s["n"] < 4)
    graph.add_edge(count, flaky).add_edge(flaky, hf.END)
    marks = [("count", 2, '{"set":{"n":2}}'), ("count", 4, '{"set":{"n":4}}')]

    async def shown() -> list[tuple[Any, ...]]:
        names = ("checkpoint_node", "iteration", "state_data")
        rows = await read(place, "SELECT * FROM checkpoints WHERE ns = 'default' AND run_id = 'r'")
        return sorted(tuple(row[name] for name in names) for row in rows)

    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        assert await shown() == marks
        tries[:] = [0]
        await run.retry()
        await within(run.result())
    assert await shown() == (marks if preserve else [])
