"""Defects of the systems that came before: the first ten, and what else a resume did wrong.

Which they are is in docs/design/graph-defects.md.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.errors import StoreUnavailable
from holdfast.graph_running import resume, take_back
from holdfast.model.writes import Advance, Outcome, Write
from holdfast.testing import invariants
from tests.engine.places import Place, status_of, until, within

TOKEN = "hunter22-hunter22"
ONCE = hf.Retry(max_attempts=1)
DONE, EDGE = "step.completed", "edge.transition"
SETTLED = ("completed", "cancelled")


class Papers:
    """A process: a factory of two nodes, of which `broken` ones raise and `held` ones wait."""

    def __init__(self) -> None:
        self.app = hf.App("papers")
        self.broken: dict[str, BaseException] = {}
        self.held, self.release = set[str](), asyncio.Event()
        self.calls, self.told = list[str](), list[str]()
        self.app.factories.register("read", self.draw)
        self.app.observe_graphs(self)

    async def on_event(self, event: hf.ExecutionEvent) -> None:
        self.told.append(event.type)

    def draw(self, graph: Any, runtime: Any, params: Mapping[str, Any]) -> hf.State:
        for name in ("one", "two"):
            graph.add_node(name, self.node(name), retry=ONCE)
        graph.set_entry_point("one").add_edge("one", "two").set_exit_point("two")
        return hf.State(params)

    def node(self, name: str) -> Any:
        async def work(state: hf.State) -> hf.State:
            self.calls.append(name)
            if name in self.held:
                await self.waited()
            if name in self.broken:
                raise self.broken[name]
            token = state.get_secret("token")
            return state.merge({name: len(token.reveal() if token else "")})

        return work

    async def waited(self) -> None:
        """Wait to be released, whoever asks to stop."""
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            await self.release.wait()


async def test_a_run_that_is_cancelled_is_closed_even_if_its_last_node_goes_on(
    place: Place,
) -> None:
    papers = Papers()
    papers.held.add("two")
    async with place.open(papers.app) as client:
        executor = hf.Executor(client)
        await executor.execute("read", id="r")
        await until(lambda: "two" in papers.calls)
        assert await executor.cancel("r")
        papers.release.set()
        row = await status_of(client.get("r"), *SETTLED)
        assert row.closed_at is not None
        await until(lambda: papers.told[-1] in ("graph.cancelled", "graph.complete"))


async def test_a_run_that_a_process_left_goes_on_in_the_next_or_can_be_cancelled(
    place: Place,
) -> None:
    left, following = Papers(), Papers()
    left.held.add("two")
    left.release.set()  # the node may end, its process does not stay for it
    async with place.open(left.app) as client:
        await hf.Executor(client).execute("read", id="goes on")
        await hf.Executor(client).execute("read", id="is cancelled")
    async with place.open(following.app, worker=False) as client:
        executor = hf.Executor(client)
        row = await executor.find_run("is cancelled")
        if row.status not in SETTLED:
            await executor.cancel("is cancelled")
    async with place.open(following.app) as client:
        await status_of(client.get("goes on"), "completed")
        await status_of(client.get("is cancelled"), *SETTLED)


async def test_a_state_that_is_resumed_elsewhere_has_secrets_and_observers(place: Place) -> None:
    first, second = Papers(), Papers()
    first.broken["two"] = ValueError("no ink")
    async with place.open(first.app) as client:
        await hf.Executor(client).execute("read", token=TOKEN, id="r")
        await status_of(client.get("r"), "failed")
    async with place.open(second.app) as client:
        events, run = await hf.Executor(client).resume("r", TOKEN)
        assert dict(await within(run.result())) == {"one": len(TOKEN), "two": len(TOKEN)}
        types = [event.type async for event in events]
        assert types[:2] == ["checkpoint.load", "checkpoint.resume"]
        await until(lambda: bool(second.told) and second.told[-1] == types[-1])
    assert second.calls == ["two"]


@dataclass(frozen=True)
class Page:
    number: int
    scale: float = 1.0


@dataclass(frozen=True)
class Doc:
    pages: tuple[Page, ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict[str, int])


async def test_a_state_that_is_resumed_elsewhere_has_its_types(place: Place) -> None:
    def process(is_broken: bool) -> tuple[hf.App, hf.StateGraph[Doc], list[Doc]]:
        app, seen = hf.App("docs"), list[Doc]()
        graph = app.graph("docs", state=Doc)

        @graph.node
        async def load(doc: Doc) -> Doc:
            return Doc((Page(1), Page(2, 2.0)), {"a": 1})

        @graph.node(retry=ONCE)
        async def judge(doc: Doc) -> None:
            if is_broken:
                raise ValueError("no ink")
            seen.append(doc)

        graph.add_edge(hf.START, load).add_edge(load, judge)
        graph.add_edge(judge, hf.END, is_whole)
        return app, graph, seen

    def is_whole(doc: Doc) -> bool:
        return type(doc.pages[0].number) is int and isinstance(doc.pages[1], Page)

    app, graph, _ = process(is_broken=True)
    async with place.open(app) as client:
        await client.start(graph.bind(Doc()), id="r")
        await status_of(client.get("r"), "failed")
    app, graph, seen = process(is_broken=False)
    async with place.open(app) as client:
        await client.get("r").retry()
        done = await within(client.get("r", graph.workflow).result())
    assert seen == [done] == [Doc((Page(1), Page(2, 2.0)), {"a": 1})]
    assert [type(each.scale) for each in done.pages] == [float, float]


async def test_a_run_without_a_recorded_node_is_resumed_once_however_many_ask(
    place: Place,
) -> None:
    papers = Papers()
    papers.broken["one"] = ValueError("no ink")
    async with place.open(papers.app) as client:
        executor = hf.Executor(client)
        _, run = await executor.execute("read", token=TOKEN, id="r")
        await status_of(run, "failed")
        papers.broken.clear()
        papers.held.add("one")
        asked = [executor.resume("r", TOKEN) for _ in range(5)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [each for each in answers if isinstance(each, BaseException)]
        assert len(refused) == 4
        assert {type(each) for each in refused} == {hf.InvalidStatus}
        papers.release.set()
        assert dict(await within(run.result())) == {"one": len(TOKEN), "two": len(TOKEN)}
    assert papers.calls == ["one", "one", "two"]


class Panic(BaseException):
    """What no `except Exception` catches."""


@pytest.mark.parametrize("error", [TypeError("no id"), Panic("no id")], ids=["error", "panic"])
async def test_a_node_that_breaks_fails_its_run_and_no_other(
    place: Place, error: BaseException
) -> None:
    papers = Papers()
    papers.broken["two"] = error
    async with place.open(papers.app) as client:
        executor = hf.Executor(client)
        await executor.execute("read", {"document_id": 7}, id="broken")
        await status_of(client.get("broken"), "failed")
        papers.broken.clear()
        _, run = await executor.execute("read", id="sound")
        await within(run.result())


async def test_an_error_of_the_last_write_is_not_ignored(place: Place) -> None:
    papers, refused = Papers(), list[str]()

    async with place.open(papers.app) as client:
        store: Any = client.engine.store
        write = store.write

        async def refuses_the_end(batch: Sequence[Write]) -> list[Outcome]:
            ends = [w for w in batch if isinstance(w, Advance) and w.status == "completed"]
            if ends and len(refused) < 3:
                refused.append(ends[0].run)
                assert "graph.complete" not in papers.told
                raise StoreUnavailable("disk full")
            return cast("list[Outcome]", await write(batch))

        store.write = refuses_the_end
        _, run = await hf.Executor(client).execute("read", id="r")
        await within(run.result())
        assert (await run.describe()).status == "completed"
        await until(lambda: papers.told[-1:] == ["graph.complete"])
    assert refused == ["r", "r", "r"]
    assert papers.calls == ["one", "two"]


async def test_nothing_is_left_of_a_run_that_is_deleted_and_an_open_one_is_kept(
    place: Place,
) -> None:
    papers = Papers()
    async with place.open(papers.app) as client:
        executor = hf.Executor(client)
        _, run = await executor.execute("read", token=TOKEN, id="a-run-that-is-deleted")
        await within(run.result())
        papers.held.add("two")
        await executor.execute("read", id="a-run-that-is-open")
        await until(lambda: papers.calls == ["one", "two"] * 2)
        assert await client.prune(older_than=0) == 1
        left = repr(await invariants.dump(cast("Any", client.engine.store)))
        assert "a-run-that-is-deleted" not in left
        assert "a-run-that-is-open" in left
        papers.release.set()
        await within(client.get("a-run-that-is-open").result())


async def _send(state: hf.State) -> hf.State:
    return state.set("sent", True)


class Loop:
    """A graph that writes until there are four pages; the third fails in its first life."""

    def __init__(self) -> None:
        self.app, self.pages = hf.App("loop"), list[int]()
        graph = self.graph = self.app.graph("loop")

        @graph.node(retry=ONCE)
        async def write(state: hf.State) -> hf.State:
            self.pages.append(page := state.get("pages", 0) + 1)
            if page == 3 and self.pages.count(3) == 1:
                raise ValueError("no ink")
            return state.set("pages", page)

        graph.add_node("send", _send).set_entry_point(write).set_exit_point("send")
        graph.add_edge(write, "send", hf.key_equals("pages", 4)).add_edge(write, write)
        graph.add_edge("send", write)

    async def resume(self, client: hf.Client, run: str, at: str | None = None) -> None:
        """Do as `graph.resume` does, and do not wait."""
        handle = client.get(run)
        await (resume(handle) if at is None else take_back(handle, self.graph.workflow, at))


async def test_a_loop_that_is_resumed_counts_on_and_overwrites_nothing(place: Place) -> None:
    loop = Loop()
    async with place.open(loop.app) as client:
        run = await client.start(loop.graph.bind(hf.State()), id="r")
        await status_of(run, "failed")
        before = (await run.history()).events
        kept = [(each.seq, each.key, each.payload) for each in before if each.kind == DONE]
        assert [key for _, key, _ in kept] == ["loop.write#1", "loop.write#2"]
        told = [event async for event in hf.graph_events(client, "r")]
        await run.retry()
        await within(run.result())
        after = [each for each in (await run.history()).events if each.kind == DONE]
        assert [(each.seq, each.key, each.payload) for each in after][:2] == kept
        assert [each.key for each in after[2:]] == ["loop.write#3", "loop.write#4", "loop.send#1"]
        later = [event async for event in hf.graph_events(client, "r")]
        assert later[: len(told)] == told
        visits = [each.data["iteration"] for each in later if each.type == "node.complete"]
        assert visits == [1, 2, 3, 3, 4, 5]
    assert loop.pages == [1, 2, 3, 3, 4]


async def test_a_resume_never_goes_past_an_exit_and_its_way_is_told(place: Place) -> None:
    loop = Loop()
    loop.pages.append(3)  # as if the first life were over
    async with place.open(loop.app) as client:
        run = await client.start(loop.graph.bind(hf.State()), id="r")
        done = await within(run.result())
        with pytest.raises(hf.InvalidStatus):
            await loop.resume(client, "r")
        for at in ("send", "write:4"):
            await loop.resume(client, "r", at)
            assert await within(run.result()) == done
        told = [event async for event in hf.graph_events(client, "r")]
    ways = [(each.data["from"], each.data["to"]) for each in told if each.type == EDGE]
    assert ways == [("write", "write")] * 3 + [("write", "send")]
    resumed = [each.data["resume_node"] for each in told if each.type == "checkpoint.resume"]
    assert resumed == ["", "send"]
    assert loop.pages == [3, 1, 2, 3, 4]
