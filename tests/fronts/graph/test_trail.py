"""The way of a run, read from its history: it is the way that its nodes were run."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

import holdfast as hf
from holdfast.fronts.graph.scene import TIMES
from holdfast.fronts.graph.trail import Trail, trail_of
from tests.engine.places import until

ONCE = hf.Retry(max_attempts=1)


class Walked:
    """A graph whose nodes count their visits, and how many rounds they were told to go."""

    def __init__(self, *names: str, app: hf.App | None = None, name: str = "walked") -> None:
        self.app = app or hf.App("trails")
        self.graph = self.app.graph(name)
        self.seen: Counter[str] = Counter()
        for each in names:
            self.graph.add_node(each, self.node(each), retry=ONCE)

    def node(self, name: str) -> Any:
        async def visit(state: hf.State) -> Mapping[str, Any]:
            self.seen[name] += 1
            if state.get("fails") == name:
                raise ValueError("as it was told")
            return {f"{name}_visits": state.get(f"{name}_visits", 0) + 1}

        return visit

    def run(self, **data: Any) -> Trail:
        async def story() -> Trail:
            async with self.app.open("memory://") as client:
                run = await client.start(self.graph.bind(hf.State(data)))
                with suppress(hf.RunFailed):
                    await run.result()
                return trail_of(self.graph.blueprint, (await run.history()).events)

        return asyncio.run(story())

    def check(self, trail: Trail) -> None:
        seen = {name: count for name, count in trail.visits.items() if name not in ("START", "END")}
        assert seen == dict(self.seen)
        assert trail.visits["START"] == 1


def test_a_chain_with_a_loop() -> None:
    walked = Walked("one", "two", "three")
    walked.graph.add_edge(hf.START, "one").add_edge("one", "two")
    walked.graph.add_edge("two", "one", lambda state: state["two_visits"] < 3)
    walked.graph.add_edge("two", "three").add_edge("three", hf.END)
    trail = walked.run()
    walked.check(trail)
    assert trail.taken["two", "one"] == 2
    assert (trail.taken["START", "one"], trail.taken["three", "END"]) == (1, 1)
    assert (trail.at, trail.ended_at, trail.status) == (set(), "", "completed")


def test_a_single_node_that_is_an_exit() -> None:
    walked = Walked("only")
    walked.graph.set_entry_point("only").set_exit_point("only")
    trail = walked.run()
    walked.check(trail)
    assert dict(trail.taken) == {("START", "only"): 1, ("only", "END"): 1}


def test_forks_in_forks_in_a_loop() -> None:
    walked = Walked("begin", "a", "b", "a1", "a2", "meet", "last")
    graph = walked.graph
    graph.add_edge(hf.START, "begin")
    graph.add_fork("begin", ["a", "b"], join="last")
    graph.add_fork("a", ["a1", "a2"], join="meet")
    graph.add_edge("a1", "meet").add_edge("a2", "meet").add_edge("meet", "last")
    graph.add_edge("b", hf.END, hf.key_exists("b_visits")).add_edge("b", "last")
    graph.add_edge("last", "begin", lambda state: state["last_visits"] < 2)
    graph.add_edge("last", hf.END)
    trail = walked.run()
    walked.check(trail)
    assert set(walked.seen.values()) == {2}
    assert trail.taken["a", "a2"] == trail.taken["b", "END"] == 2
    assert not trail.at


@pytest.mark.parametrize("node", ["a", "b"])
def test_a_branch_that_fails_is_where_the_run_ended(node: str) -> None:
    walked = Walked("begin", "a", "b", "last")
    graph = walked.graph
    graph.add_edge(hf.START, "begin").add_fork("begin", ["a", "b"], join="last")
    graph.add_edge("a", "last").add_edge("b", "last").add_edge("last", hf.END)
    trail = walked.run(fails=node)
    assert (trail.ended_at, trail.status, trail.visits["last"]) == (node, "failed", 0)


def test_the_way_inside_a_graph_that_is_a_node() -> None:
    inner = Walked("read", "write", name="inner")
    inner.graph.add_edge(hf.START, "read").add_edge("read", "write").set_exit_point("write")
    walked = Walked("begin", app=inner.app)
    graph = walked.graph
    graph.add_node("sub", inner.graph).add_node("write", walked.node("write"), retry=ONCE)
    graph.add_edge(hf.START, "begin").add_fork("begin", ["sub", "write"], join=hf.END)
    graph.add_edge("sub", "sub", lambda state: state["read_visits"] < 2)
    graph.add_edge("sub", hf.END).add_edge("write", hf.END)
    trail = walked.run()
    assert dict(trail.visits) == {"START": 1, "begin": 1, "sub": 2, "write": 1, "END": 1}
    found = trail.inner["sub"]
    assert (found.visits["read"], found.visits["write"]) == (2, 2)
    assert (found.taken["START", "read"], found.taken["read", "write"]) == (2, 2)
    failed = walked.run(fails="read")
    assert (failed.ended_at, failed.inner["sub"].ended_at) == ("sub", "read")


def test_where_a_run_is_that_asks() -> None:
    app = hf.App("trails")
    graph = app.graph("asks")

    @graph.node
    async def write(state: hf.State) -> Mapping[str, Any]:
        return {"text": "words"}

    @graph.node(body=True)
    async def review(state: hf.State) -> Mapping[str, Any]:
        return {"ok": await hf.ask("Good?", bool)}

    graph.add_edge(hf.START, write).add_edge(write, review)
    graph.add_conditional_edge(review, lambda state: state["ok"], {True: hf.END, False: write})

    async def story() -> None:
        async with app.open("memory://") as client:
            run = await client.start(graph.bind(hf.State()))
            for round_ in (1, 2):
                await until(partial(_is_asked, client, round_))
                trail = trail_of(graph.blueprint, (await run.history()).events)
                assert (trail.at, trail.visits["write"], trail.status) == ({"review"}, round_, "")
                await run.answer(f"review[{round_}]/ask#1", round_ == 2)
            await run.result()
            history = (await run.history()).events
            assert "● review" not in graph.text(history)
            assert f"✓ review  done {TIMES}2" in graph.text(history)

    asyncio.run(story())


async def _is_asked(client: hf.Client, round_: int) -> bool:
    found = (await client.questions()).questions
    return [each.key for each in found] == [f"review[{round_}]/ask#1"]
