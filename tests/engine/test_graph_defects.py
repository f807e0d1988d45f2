"""The first ten defects of the systems that came before: each has a test that would show it.

Which they are is in docs/design/graph-defects.md.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.errors import StoreUnavailable
from holdfast.model.writes import Advance, Outcome, Write
from holdfast.testing import invariants
from tests.engine.places import Place, status_of, until, within

TOKEN = "hunter22-hunter22"
ONCE = hf.Retry(max_attempts=1)
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
