"""What runs of graphs tell, on every store: live, later, and from anywhere on."""

from collections.abc import Mapping
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, status_of, within

go = hf.Signal("go", int)


def drawn(app: hf.App, name: str = "drawn") -> hf.StateGraph[hf.State]:
    graph = app.graph(name)

    @graph.node
    async def first(state: hf.State) -> Mapping[str, Any]:
        return {"n": state.get("n", 0) + 1}

    @graph.node(body=True)
    async def waits(state: hf.State) -> Mapping[str, Any]:
        return {"go": await hf.wait_for(go)}

    graph.add_edge(hf.START, first).add_edge(first, waits)
    graph.add_edge(waits, hf.END, hf.key_equals("go", 2)).add_edge(waits, first)
    return graph


async def told(client: hf.Client, run: str, **options: Any) -> list[hf.ExecutionEvent]:
    return [event async for event in hf.graph_events(client, run, **options)]


def types(events: list[hf.ExecutionEvent]) -> list[str]:
    return [event.type for event in events]


async def test_a_stream_is_the_same_live_and_later_and_goes_on_after_any_event(
    place: Place, app: hf.App
) -> None:
    async with place.open(app) as client:
        run = await client.start(drawn(app).bind(hf.State()), id="r")
        live: list[hf.ExecutionEvent] = []
        async for event in hf.graph_events(client, "r"):
            if event.type == "node.start" and event.data["node"] == "waits":
                await run.signal(go, event.data["input_snapshot"]["n"])
            if event.closes:  # told after the commit
                assert (await run.describe()).status == "completed"
            live.append(event)
    async with place.open(app, worker=False) as client:
        later = await told(client, "r")
        assert later == live
        assert live[-1].closes
        for place_, event in enumerate(later, start=1):
            assert await told(client, "r", after=event.id) == later[place_:]
        assert await told(client, "r", after=2) == [each for each in later if each.seq > 2]
        bare = await told(client, "r", snapshots=False)
        assert types(bare) == types(later)
        assert not any("input_snapshot" in each.data for each in bare)


async def test_what_was_taken_back_stays_told(place: Place, app: hf.App) -> None:
    graph = drawn(app)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        events = hf.graph_events(client, "r")
        live = [await within(anext(events)) for _ in range(6)]
        assert live[-1].data["node"] == "waits"
        await run.rerun("drawn.first#1")
        live += [await within(anext(events)) for _ in range(8)]
        assert types(live[6:9]) == ["checkpoint.load", "checkpoint.resume", "graph.start"]
        assert live[7].data["resume_node"] == "first"
        assert live[-1].data["node"] == "waits"
        await run.signal(go, 2)
        live += [event async for event in events]
        assert await told(client, "r") == live
        edited = {"drawn.first#1": {"set": {"n": 41}}}
        fork = await run.fork(results=edited, id="f")
        await fork.signal(go, 2)
        shared = await told(client, "f")
        assert shared[0].data == {"node": "first", "run_id": "f", "origin": "r"}
        (begun,) = [each for each in shared if each.type == "node.start"]
        assert begun.data["input_snapshot"] == {"n": 41}


async def test_the_stream_of_a_fork_draws_what_its_origin_drew(place: Place, app: hf.App) -> None:
    graph = app.graph("draws")

    @graph.node(body=True)
    async def draw(state: hf.State) -> Mapping[str, Any]:
        return {"drawn": hf.random().randrange(1 << 30)}

    @graph.node
    async def store(state: hf.State) -> Mapping[str, Any]:
        return {"stored": state["drawn"]}

    graph.add_edge(hf.START, draw).add_edge(draw, store).add_edge(store, hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()), id="r")
        ended = await within(run.result())
        fork = await run.fork("draws.store#1", id="f")
        assert await within(fork.result()) == ended
        assert (await told(client, "f"))[-2].data["output_snapshot"] == dict(ended)


async def test_a_node_that_nobody_ended_is_told_to_have_ended(place: Place, app: hf.App) -> None:
    async with place.open(app) as client:
        run = await client.start(drawn(app).bind(hf.State()), id="r")
        await status_of(run, "waiting")
        await run.terminate("enough")
        ended = (await told(client, "r"))[-2:]
    assert types(ended) == ["node.complete", "graph.cancelled"]
    assert ended[0].data["node"] == "waits"
    assert ended[0].data["error_message"] == ended[1].data["status"] == "terminated"


async def test_a_view_follows_what_a_run_was_told_about_changes_of_the_code(place: Place) -> None:
    def release(is_patched: bool) -> hf.App:
        app = hf.App("engine-tests")
        graph = app.graph("patched")

        @graph.node(body=True)
        async def waits(state: hf.State) -> Mapping[str, Any]:
            first = await hf.wait_for(go)
            is_new = is_patched and hf.patched("double")
            return {"go": first * 2 if is_new else first}

        graph.add_edge(hf.START, waits).add_edge(waits, hf.END)
        return app

    new = release(True)
    async with place.open(release(False)) as client:
        bound: hf.Bound[Any] = client.app.workflows["patched"].bind(hf.State())
        run = await client.start(bound, id="old")
        await run.signal(go, 4)
        await within(run.result())
    async with place.open(new) as client:
        run = await client.start(new.workflows["patched"].bind(hf.State()), id="new")
        events = hf.graph_events(client, "new")
        live = [await within(anext(events)) for _ in range(2)]
        await run.signal(go, 4)
        live += [event async for event in events]
        assert live == await told(client, "new")
        ended = [(await told(client, each))[-2].data for each in ("old", "new")]
    assert [each["output_snapshot"]["go"] for each in ended] == [4, 8]


async def test_a_stream_of_what_is_no_graph_or_from_nowhere_is_refused(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def plain() -> None: ...

    async with place.open(app) as client:
        await client.start(plain.bind(), id="r")
        with pytest.raises(hf.BadDefinition, match="which is no graph"):
            await told(client, "r")
        with pytest.raises(hf.RunNotFound):
            await told(client, "nobody")
        for after in ("x", "1", "1.x", -1, True):
            with pytest.raises(hf.InvalidValue, match="is no place in a run"):
                await told(client, "r", after=after)
