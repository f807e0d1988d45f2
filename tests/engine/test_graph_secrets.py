"""What an `hf.State` carries besides its values, on every store: whose it is, and its secrets."""

import asyncio
import json
from typing import Any

import pytest

import holdfast as hf
from holdfast.compose import open_client
from tests.engine.places import Place, event_of, history_when, within

TOKEN = "hunter22-hunter22"


class Papers:
    """A graph of two nodes with a question between; `seen` is what its nodes were given."""

    def __init__(self, **options: Any) -> None:
        self.app = hf.App("papers")
        self.seen: list[tuple[str, str, str, bool]] = []
        self.graph = graph = self.app.graph("papers")

        def look(state: hf.State) -> dict[str, Any]:
            token = state.get_secret("token")
            told = "" if token is None else token.reveal()
            has_time = state.timestamp is not None
            self.seen.append((state.run_id, state.checkpoint_node, told, has_time))
            return {"looks": state.get("looks", 0) + 1}

        async def ask(state: hf.State) -> hf.State:
            with pytest.raises(hf.NotInStep):
                state.get_secret("token")
            assert state.checkpoint_node == "first"
            return state.set("said", await hf.ask("Go on?", str, to="ada"))

        def is_known(state: hf.State) -> bool:
            return state.run_id != "" and "token" in state.secrets

        graph.add_node("first", look, **options)
        graph.add_node("ask", ask, body=True)
        graph.add_node("second", look, **options)
        graph.set_entry_point("first").add_edge("first", "ask", is_known)
        graph.add_edge("ask", "second").set_exit_point("second")


@pytest.fixture
def papers() -> Papers:
    return Papers()


STATE = hf.State({"topic": "tides"}, run_id="tides").set_secret("token", TOKEN)


async def asked(run: hf.RunHandle[Any]) -> None:
    await history_when(run, lambda loaded: "ask[1]/ask#1" in loaded.run.reason)


async def test_nodes_get_secrets_and_place_and_nothing_of_it_is_stored(
    place: Place, papers: Papers
) -> None:
    async with place.open(papers.app) as client:
        run = await client.start(papers.graph.bind(STATE), id="tides")
        await asked(run)
        await run.answer("ask[1]/ask#1", "yes")
        result = await within(run.result())
        assert dict(result) == {"topic": "tides", "looks": 2, "said": "yes"}
        assert papers.seen == [("tides", "", TOKEN, True), ("tides", "ask", TOKEN, True)]
        events = (await run.history()).events
        assert all(TOKEN.encode() not in (event.payload or b"") for event in events)
        started = next(event for event in events if event.kind == "run.started")
        told = json.loads(started.payload or b"{}")
        assert told == {"state": {"topic": "tides"}, "secrets": ["token"]}


async def test_after_a_crash_the_run_waits_for_its_secret(place: Place, papers: Papers) -> None:
    async with place.open(papers.app) as client:
        await asked(await client.start(papers.graph.bind(STATE), id="tides"))
    again = Papers()
    async with place.open(again.app) as client:
        run = client.get("tides", again.graph.workflow)
        await run.answer("ask[1]/ask#1", "yes")
        row = await history_when(run, lambda loaded: "secret token" in loaded.run.reason)
        assert "holdfast runs secret tides token" in row.run.reason
        await run.supply_secret("token", hf.Secret("another-token"))
        assert dict(await within(run.result()))["said"] == "yes"
    assert [token for _, _, token, _ in again.seen] == ["another-token"]


async def test_a_node_on_a_queue_gets_them_from_its_worker(place: Place) -> None:
    papers = Papers(queue="pages")
    ring = hf.KeyRing({"k1": hf.KeyRing.new_key()})
    async with open_client(papers.app, place.url, keys=ring) as client:
        run = await client.start(papers.graph.bind(STATE), id="tides")
        await asked(run)
        assert papers.seen == [("tides", "", TOKEN, True)]


async def test_a_node_may_delete_a_secret_and_may_not_set_one(place: Place, app: hf.App) -> None:
    graph, seen = app.graph("forget"), list[bool]()

    def forget(state: hf.State) -> hf.State:
        return state.delete_secret("token").set("n", 1)

    def keep(state: hf.State) -> None:
        seen.append(state.get_secret("token") is None)

    async def other(state: hf.State) -> hf.State:
        await asyncio.sleep(0)
        return state

    def choose(state: hf.State) -> hf.State:
        return state.set_secret("other", "swordfish-swordfish")

    graph.add_node("start", keep).add_node("forget", forget).add_node("other", other)
    graph.add_node("keep", keep).add_node("choose", choose, retry=hf.Retry(max_attempts=1))
    graph.set_entry_point("start").add_fork("start", ["forget", "other"], join="keep")
    graph.add_edge("forget", "keep").add_edge("other", "keep").add_edge("keep", "choose")
    graph.set_exit_point("choose")
    async with place.open(app) as client:
        run = await client.start(graph.bind(STATE))
        with pytest.raises(hf.RunFailed, match="Node 'choose' set the secret 'other'"):
            await within(run.result())
        failed = await event_of(run, "run.failed")
        assert b"swordfish" not in (failed.payload or b"")
    assert seen == [False, True]


async def test_secrets_that_nobody_would_keep_are_refused(place: Place, papers: Papers) -> None:
    bound, go = papers.graph.bind(STATE), hf.Signal("go", int)
    async with place.open(papers.app, worker=False) as client:
        with pytest.raises(hf.InvalidValue, match="no key ring"):
            await client.start(bound, id="tides")
        with pytest.raises(hf.InvalidValue, match=r"signal_with_start.*the state has token"):
            await client.signal_with_start(bound, go.bind(1), id="tides")
        with pytest.raises(hf.InvalidValue, match=r"app\.schedule.*the state has token"):
            papers.app.schedule("daily", bound, hf.Schedule(cron="0 3 * * *"))
        assert (await client.list()).runs == []
