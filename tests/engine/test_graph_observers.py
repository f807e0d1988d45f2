"""Observers of graphs, on every store: told what runs do, after the commit, and in nobody's way."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import holdfast as hf
from holdfast.hosts.worker import observing
from tests.engine.places import Place, status_of, until, within

go = hf.Signal("go", int)


class Seen:
    """An observer that keeps what it is told, and waits for `hold` before it does."""

    def __init__(self) -> None:
        self.events: list[hf.ExecutionEvent] = []
        self.hold: asyncio.Event | None = None

    async def on_event(self, event: hf.ExecutionEvent) -> None:
        if self.hold is not None:
            await self.hold.wait()
        self.events.append(event)

    def ids(self) -> list[str]:
        return [each.id for each in self.events]


class Kept:
    """A store of one's own: what is in it, and how often it refuses."""

    def __init__(self) -> None:
        self.rows: list[hf.ExecutionEvent] = []
        self.refusals = 0

    async def last(self, run_id: str) -> str:
        return next((each.id for each in reversed(self.rows) if each.run_id == run_id), "")

    async def unfinished(self) -> list[str]:
        closed = {each.run_id for each in self.rows if each.closes}
        return [*{each.run_id for each in self.rows} - closed]

    async def save(self, events: Sequence[hf.ExecutionEvent]) -> None:
        if self.refusals:
            self.refusals -= 1
            raise ConnectionError("no answer")
        self.rows += events


def drawn(graph: hf.StateGraph[hf.State]) -> hf.StateGraph[hf.State]:
    @graph.node
    async def first(state: hf.State) -> Mapping[str, Any]:
        return {"n": state.get("n", 0) + 1, "name": "Ada Lovelace"}

    @graph.node(body=True)
    async def waits(state: hf.State) -> Mapping[str, Any]:
        return {"go": await hf.wait_for(go)}

    graph.add_edge(hf.START, first).add_edge(first, waits)
    return graph.add_edge(waits, hf.END, hf.key_equals("go", 2)).add_edge(waits, first)


async def told(client: hf.Client, run: str) -> list[hf.ExecutionEvent]:
    return [event async for event in hf.graph_events(client, run)]


async def gone_round(run: hf.RunHandle[Any]) -> None:
    for n in (1, 2):
        await status_of(run, "waiting")
        read = (await run.describe()).inbox_read
        await run.signal(go, n)
        await until(lambda: _has_read(run, read))  # noqa: B023
    await within(run.result())


async def _has_read(run: hf.RunHandle[Any], before: int) -> bool:
    return (await run.describe()).inbox_read > before


async def test_observers_are_told_all_that_the_stream_has(place: Place, app: hf.App) -> None:
    everything, mine, others = Seen(), Seen(), Seen()

    @app.workflow
    async def plain() -> None: ...

    app.register_observer("mine", mine)
    app.register_observer("others", others)
    graph = drawn(app.graph("drawn", observer="mine"))
    drawn(app.graph("other", observer="others"))
    app.observe_graphs(hf.MultiObserver(everything))
    async with place.open(app) as client:
        await client.start(plain.bind(), id="no graph")
        await gone_round(await client.start(graph.bind(hf.State()), id="r"))
        wanted = await told(client, "r")
        await until(lambda: len(mine.events) == len(everything.events) == len(wanted))
    assert mine.events == everything.events == wanted
    assert others.events == []


async def test_what_is_told_is_stored(place: Place, app: hf.App) -> None:
    stored: list[bool] = []

    class Looks:
        async def on_event(self, event: hf.ExecutionEvent) -> None:
            row = await clients[0].get(event.run_id).describe()
            stored.append(row.seq >= event.seq and (row.status == "completed" or not event.closes))

    app.observe_graphs(Looks())
    clients: list[hf.Client] = []
    async with place.open(app) as client:
        clients.append(client)
        await gone_round(await client.start(drawn(app.graph("g")).bind(hf.State()), id="r"))
        wanted = len(await told(client, "r"))
        await until(lambda: len(stored) == wanted)
    assert all(stored)


async def test_an_observer_that_stands_still_delays_no_run(place: Place, app: hf.App) -> None:
    slow, quick = Seen(), Seen()
    slow.hold = asyncio.Event()
    app.observe_graphs(slow, quick)
    async with place.open(app) as client:
        await gone_round(await client.start(drawn(app.graph("g")).bind(hf.State()), id="r"))
        wanted = await told(client, "r")
        await until(lambda: quick.events == wanted)
        assert slow.events == []
        slow.hold.set()
        await until(lambda: slow.events == wanted)


async def test_one_that_raises_fails_no_run_and_is_named_once(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []

    class Breaks:
        async def on_event(self, event: hf.ExecutionEvent) -> None:
            calls.append(event.id)
            raise ValueError("no ink")

    app.observe_graphs(Breaks())
    caplog.set_level(logging.WARNING, "holdfast.observers")
    async with place.open(app) as client:
        await gone_round(await client.start(drawn(app.graph("g")).bind(hf.State()), id="r"))
        wanted = [each.id for each in await told(client, "r")]
        await until(lambda: calls == wanted)
        failed = [each for each in caplog.records if "Breaks failed on" in each.getMessage()]
        assert len(failed) == 1


async def test_who_takes_a_run_up_tells_it_again_with_the_same_ids(
    place: Place, app: hf.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "LEAVE", 0.0)  # the first process tells nobody anything
    held, seen, kept = Seen(), Seen(), Kept()
    held.hold = asyncio.Event()
    graph = drawn(app.graph("g"))
    app.observe_graphs(held)
    async with place.open(app) as client:
        await status_of(await client.start(graph.bind(hf.State()), id="r"), "waiting")
    assert held.events == []
    app.observers = ()
    app.observe_graphs(seen, hf.StoreObserver(kept))
    monkeypatch.undo()
    async with place.open(app) as client:
        await client.get("r").signal(go, 1)
        await until(lambda: any(each.data.get("iteration") == 4 for each in kept.rows))
        await until(lambda: seen.events == kept.rows)
    before = seen.ids()
    async with place.open(app) as client:
        await client.get("r").signal(go, 2)
        await within(client.get("r").result())
        wanted = await told(client, "r")
        await until(lambda: seen.ids()[-1:] == [wanted[-1].id] and kept.rows == wanted)
    assert before == [each.id for each in wanted][: len(before)]
    assert list(dict.fromkeys(seen.ids())) == [each.id for each in wanted]


async def test_a_store_that_refuses_lacks_nothing_later(place: Place, app: hf.App) -> None:
    kept = Kept()
    kept.refusals = 3
    app.observe_graphs(hf.StoreObserver(kept))
    async with place.open(app) as client:
        await gone_round(await client.start(drawn(app.graph("g")).bind(hf.State()), id="r"))
        wanted = await told(client, "r")
        await until(lambda: kept.rows == wanted)
        del kept.rows[3:]  # as if the process had died before it told the rest
        await hf.StoreObserver(kept).catch_up(client, "r")
        assert kept.rows == wanted


async def test_an_end_that_nobody_told_is_mended_when_a_worker_starts(
    place: Place, app: hf.App
) -> None:
    kept, graph = Kept(), drawn(app.graph("g"))
    app.observe_graphs(hf.StoreObserver(kept))
    async with place.open(app) as client:
        await gone_round(await client.start(graph.bind(hf.State()), id="r"))
        wanted = await told(client, "r")
        await until(lambda: kept.rows == wanted)
    del kept.rows[4:]  # as if the process had died before it told the rest
    async with place.open(app):
        await until(lambda: kept.rows == wanted)


async def test_a_stream_gives_what_graphs_do(place: Place, app: hf.App) -> None:
    streaming = hf.StreamingObserver[hf.ExecutionEvent](buffer_size=2)
    app.observe_graphs(streaming)
    live: list[hf.ExecutionEvent] = []

    async def read() -> None:
        async for event in streaming.events():
            live.append(event)
            if event.closes:
                return

    async with place.open(app) as client:
        reading = asyncio.create_task(read())
        await gone_round(await client.start(drawn(app.graph("g")).bind(hf.State()), id="r"))
        await within(reading)
        assert live == await told(client, "r")
        later = [event async for event in streaming.events("r")]
        assert later == live
        rest = [event async for event in streaming.events("r", after=2)]
        assert rest == [each for each in live if each.seq > 2]


async def test_a_graph_without_an_app_tells_its_observer_and_its_log_no_states(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    caplog.set_level(logging.DEBUG, "holdfast.events")

    async def name(state: hf.State) -> hf.State:
        return state.set("name", "Ada Lovelace")

    def named(graph: hf.StateGraph[hf.State]) -> hf.StateGraph[hf.State]:
        return graph.add_node("name", name).set_entry_point("name").set_exit_point("name")

    config = hf.default_graph_config("watched")
    graph = named(hf.new_graph_with_deps(config, seen, place.url))
    await within(graph.execute(hf.State(run_id="r")))
    types = [each.type for each in seen.events]
    assert types == ["graph.start", "node.start", "node.complete", "graph.complete"]
    assert caplog.records == []
    logged = named(hf.StateGraph(hf.GraphConfig("logged"), store=place.url))
    await within(logged.execute(hf.State(run_id="l")))
    lines = [(each.levelname, each.getMessage().split()[0]) for each in caplog.records]
    assert lines == [
        ("INFO", "event=graph.start"), ("DEBUG", "event=node.start"),
        ("DEBUG", "event=node.complete"), ("INFO", "event=graph.complete"),
    ]  # fmt: skip
    assert "Ada" not in str([vars(each) for each in caplog.records])


async def test_a_log_that_shows_only_warnings_has_the_failure(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "holdfast.events")

    async def breaks(state: hf.State) -> None:
        raise ValueError("Ada Lovelace")

    graph = hf.StateGraph(hf.GraphConfig("fails"), store=place.url)
    graph.add_node("breaks", breaks, retry=hf.Retry(max_attempts=1))
    graph.set_entry_point("breaks").set_exit_point("breaks")
    with pytest.raises(hf.ExecutionError):
        await within(graph.execute(hf.State(run_id="r")))
    (line,) = [each for each in caplog.records if each.name == "holdfast.events"]
    assert "event=graph.failed graph=fails run=r" in line.getMessage()
    assert "Ada" not in str(vars(line))


def test_an_unknown_name_is_refused_with_those_that_are_known(app: hf.App) -> None:
    app.register_observer("mine", Seen())
    with pytest.raises(hf.BadDefinition, match=r"Known are mine, noop, slog\."):
        app.graph("g", observer="yours")
    with pytest.raises(hf.BadDefinition, match=r"Known are noop, slog\."):
        hf.StateGraph(hf.GraphConfig("g", observer="mine"))
    with pytest.raises(hf.BadDefinition, match="is no observer"):
        app.register_observer("broken", object())  # type: ignore[arg-type]


async def test_runs_of_a_factory_are_told_by_the_name_in_its_config(
    place: Place, app: hf.App
) -> None:
    seen = Seen()
    app.register_observer("mine", seen)

    def factory(graph: hf.StateGraph[hf.State], runtime: Any, params: Any) -> hf.State:
        async def work(state: hf.State) -> hf.State:
            return state.set("done", True)

        graph.add_node("work", work).set_entry_point("work").set_exit_point("work")
        return hf.State()

    app.factories.register("f", factory, config=hf.GraphConfig("f", observer="mine"))
    async with place.open(app) as client:
        events, run = await hf.Executor(client).execute("f")
        wanted = [event async for event in events]
        await within(run.result())
        await until(lambda: seen.events == wanted)
