"""The executor on every store: workflows by name, their events, cancel and resume."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, status_of, until, within

TOKEN = "hunter22-hunter22"


class Papers:
    """A factory of two nodes; `broken` and `held` ones do not get through."""

    def __init__(self) -> None:
        self.app = hf.App("papers")
        self.app.runtime = hf.Runtime()
        self.broken, self.held, self.seen = set[str](), set[str](), list[tuple[str, str]]()
        self.app.factories.register("read", self.draw, "Reads.")

    def draw(self, graph: Any, runtime: hf.Runtime, params: Mapping[str, Any]) -> hf.State:
        for name in ("one", "two"):
            graph.add_node(name, self.node(name), retry=hf.Retry(max_attempts=1))
        graph.set_entry_point("one").add_edge("one", "two").set_exit_point("two")
        return hf.State(params)

    def node(self, name: str) -> Any:
        async def work(state: hf.State) -> dict[str, Any]:
            token = state.get_secret("token")
            self.seen.append((name, "" if token is None else token.reveal()))
            if name in self.held:
                await asyncio.Event().wait()
            if name in self.broken:
                raise ValueError(f"no {name}")
            return {name: True}

        return work


async def read(events: Any) -> list[str]:
    return [event.type async for event in events]


async def test_execute_returns_at_once_with_the_run_and_all_that_it_does(place: Place) -> None:
    papers = Papers()
    async with place.open(papers.app) as client:
        executor = hf.Executor(client, papers.app.runtime)
        assert executor.workflows() == [hf.WorkflowInfo("read", "Reads.")]
        events, run = await executor.execute("read", {"n": 1}, TOKEN, id="r")
        types = await within(read(events))
        assert types[0] == "graph.start"
        assert types[-1] == "graph.complete"
        assert types.count("node.complete") == 2
        assert (await executor.find_run("r")).status == "completed", "told after the commit"
        assert dict(await run.result()) == {"n": 1, "one": True, "two": True}
        assert papers.seen == [("one", TOKEN), ("two", TOKEN)]
        history = (await run.history()).events
        assert all(TOKEN.encode() not in (event.payload or b"") for event in history)


async def test_what_is_not_there_or_in_another_status_is_refused(place: Place) -> None:
    papers = Papers()
    async with place.open(papers.app) as client:
        executor = hf.Executor(client)
        with pytest.raises(hf.WorkflowNotFound, match="Did you mean 'read'"):
            await executor.execute("raed")
        with pytest.raises(hf.InvalidValue, match="list is no mapping"):
            await executor.execute("read", ["n"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        with pytest.raises(hf.RunNotFound):
            await executor.find_run("nobody")
        with pytest.raises(hf.RunNotFound):
            await executor.cancel("nobody")
        _, run = await executor.execute("read", id="r")
        await within(run.result())
        with pytest.raises(hf.InvalidStatus, match="Cannot cancel run 'r': it is completed"):
            await executor.cancel("r")
        with pytest.raises(hf.InvalidStatus, match="Cannot resume run 'r': it is completed"):
            await executor.resume("r")
    async with place.open(papers.app, worker=False) as client:
        with pytest.raises(hf.InvalidValue, match="no key ring"):
            await hf.Executor(client).execute("read", token=TOKEN)
        assert len((await client.list()).runs) == 1
        with pytest.raises(hf.WorkflowNotFound):
            await hf.Executor(client).create_run("nothing")


async def test_a_cancel_right_after_the_start_from_another_process_ends_the_run(
    place: Place,
) -> None:
    papers, other = Papers(), Papers()
    papers.held.add("one")
    async with place.open(papers.app) as client:
        executor = hf.Executor(client)
        events, run = await executor.execute("read", {"n": 1}, TOKEN, id="r")
        async with place.open(other.app, worker=False) as outside:
            assert await hf.Executor(outside).cancel("r", "enough")
        assert (await within(read(events)))[-1] == "graph.cancelled"
        assert (await executor.find_run("r")).status == "cancelled"
        papers.held.clear()
        events, run = await executor.resume("r", TOKEN)
        assert dict(await within(run.result())) == {"n": 1, "one": True, "two": True}
        assert (await within(read(events)))[-1] == "graph.complete"


async def test_a_failed_run_goes_on_at_its_node_or_at_any_other(place: Place) -> None:
    papers = Papers()
    papers.broken.add("two")
    async with place.open(papers.app) as client:
        executor = hf.Executor(client)
        events, run = await executor.execute("read", token=TOKEN, id="r")
        assert (await within(read(events)))[-1] == "graph.failed"
        papers.broken.clear()
        with pytest.raises(hf.RunNotFound):
            await executor.resume("nobody")
        _, run = await executor.resume("r", "another-token")
        await within(run.result())
        assert papers.seen == [("one", TOKEN), ("two", TOKEN), ("two", "another-token")]
        _, run = await executor.resume("r", TOKEN, at="read.one#1")
        await within(run.result())
        assert papers.seen[3:] == [("one", TOKEN), ("two", TOKEN)]


async def test_a_run_that_goes_on_by_itself_needs_no_resume(place: Place) -> None:
    papers = Papers()
    papers.held.add("one")
    async with place.open(papers.app) as client:
        executor = hf.Executor(client)
        await executor.execute("read", id="r")
        await until(lambda: bool(papers.seen))
        await status_of(client.get("r"), "running")
        with pytest.raises(hf.InvalidStatus, match="it is running"):
            await executor.resume("r")
        with pytest.raises(hf.BadDefinition, match="opened without it"):
            hf.Executor(client, hf.Runtime())
