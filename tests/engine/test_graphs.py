"""State graphs on every store: the way of a run, its state, forks, and what fails."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

import holdfast as hf
from holdfast.testing import crashtest
from tests.engine.places import Place, kinds, status_of, until, within

ONCE = hf.Retry(max_attempts=1)


@dataclass(frozen=True)
class Doc:
    text: str = ""
    words: list[str] = field(default_factory=list[str])
    rounds: int = 0
    notes: list[str] = field(default_factory=list[str])


class Model(BaseModel):
    text: str = ""
    rounds: int = 0


class Typed(TypedDict, total=False):
    text: str
    rounds: int


async def ended(place: Place, app: hf.App, bound: hf.Bound[Any]) -> tuple[Any, hf.RunHandle[Any]]:
    async with place.open(app) as client:
        run = await client.start(bound)
        return await within(run.result()), run


async def stored(place: Place, app: hf.App, id: str) -> list[tuple[str, bytes | None]]:
    async with place.open(app, worker=False) as client:
        events = (await client.get(id).history()).events
        return [(event.key, event.payload) for event in events if event.kind == "step.completed"]


async def test_a_graph_goes_round_until_its_router_lets_it_out(place: Place, app: hf.App) -> None:
    graph = app.graph("loop", state=Doc)

    @graph.node
    async def split(doc: Doc) -> Mapping[str, Any]:
        return {"words": doc.text.split()}

    @graph.node
    def count(doc: Doc) -> Doc:
        return Doc(doc.text, doc.words, doc.rounds + 1, doc.notes)

    def enough(doc: Doc) -> bool:
        return doc.rounds >= 3

    graph.add_edge(hf.START, split).add_edge(split, count)
    graph.add_conditional_edge(count, enough, {True: hf.END, False: split})
    result, run = await ended(place, app, graph.bind(Doc("a b")))
    assert result == Doc("a b", ["a", "b"], 3)
    keys = [key for key, _ in await stored(place, app, run.id)]
    assert keys == [f"loop.{node}#{n}" for n in (1, 2, 3) for node in ("split", "count")]


@pytest.mark.parametrize("cls", [hf.State, Doc, Model, Typed])
async def test_only_what_a_node_changed_is_stored(place: Place, app: hf.App, cls: Any) -> None:
    graph = app.graph("deltas", state=cls)
    shape = graph.blueprint.shape

    @graph.node
    async def whole(state: Any) -> Any:
        return shape.changed(state, {"set": {"rounds": 1}})

    @graph.node
    async def part(state: Any) -> Mapping[str, Any]:
        return {"rounds": shape.values(state)["rounds"] + 1}

    @graph.node
    async def nothing(state: Any) -> None:
        assert shape.values(state)["rounds"] == 2

    graph.add_edge(hf.START, whole).add_edge(whole, part).add_edge(part, nothing)
    graph.set_exit_point(nothing)
    first: Any = {"text": "x" * 5_000, "rounds": 0}
    begun = first if cls is Typed else hf.State(first) if cls is hf.State else cls(**first)
    result, run = await ended(place, app, graph.bind(begun))
    assert type(result) is (dict if cls is Typed else cls)
    assert shape.values(result)["rounds"] == 2
    found = [payload for _, payload in await stored(place, app, run.id)]
    assert found == [b'{"set":{"rounds":1}}', b'{"set":{"rounds":2}}', b"{}"]


async def test_what_a_node_changes_inside_its_argument_counts_if_it_returns_it(
    place: Place, app: hf.App
) -> None:
    graph = app.graph("inside", state=Doc)

    @graph.node
    async def returns(doc: Doc) -> Doc:
        doc.notes.append("kept")
        return doc

    @graph.node
    async def forgets(doc: Doc) -> None:
        doc.notes.append("lost")

    graph.add_edge(hf.START, returns).add_edge(returns, forgets).add_edge(forgets, hf.END)
    result, _ = await ended(place, app, graph.bind(Doc()))
    assert result.notes == ["kept"]


async def test_a_key_that_a_node_takes_out_is_gone(place: Place, app: hf.App) -> None:
    graph = app.graph("gone")

    @graph.node
    async def drop(state: hf.State) -> hf.State:
        return state.without("old").set("new", None)

    graph.add_edge(hf.START, drop).add_edge(drop, hf.END)
    result, _ = await ended(place, app, graph.bind(hf.State({"old": 1, "kept": [2]})))
    assert result == hf.State({"kept": [2], "new": None})


async def test_the_first_edge_that_fits_is_taken(place: Place, app: hf.App) -> None:
    graph = app.graph("edges")
    for name in ("look", "small", "other", "rest"):
        graph.add_node(name, _one(name))
    graph.set_entry_point("look")
    graph.add_edge("look", "small", hf.key_equals("n", 1))
    graph.add_edge("look", "other", hf.and_(hf.key_exists("n"), hf.not_(hf.key_equals("n", 3))))
    graph.add_edge("look", "rest", hf.or_(hf.key_equals("n", 3), hf.not_(hf.key_exists("n"))))
    for name in ("small", "other", "rest"):
        graph.add_edge(name, hf.END)
    async with place.open(app) as client:
        for data, name in (
            ({"n": 1}, "small"),
            ({"n": 2}, "other"),
            ({"n": 3}, "rest"),
            ({}, "rest"),
        ):
            run = await client.start(graph.bind(hf.State(data)))
            assert (await within(run.result()))["path"] == ["look", name]


def _one(name: str) -> Any:
    async def node(state: hf.State) -> Mapping[str, Any]:
        return {"path": [*state.get("path", []), name]}

    return node


async def test_branches_of_a_fork_meet_in_the_order_of_their_declaration(
    place: Place, app: hf.App
) -> None:
    graph = app.graph("forked", state=Doc)
    slow = asyncio.Event()

    @graph.node
    async def first(doc: Doc) -> Mapping[str, Any]:
        return {"notes": ["first"]}

    @graph.node
    async def left(doc: Doc) -> Mapping[str, Any]:
        await slow.wait()
        return {"notes": [*doc.notes, "left"], "rounds": doc.rounds + 2}

    @graph.node
    async def right(doc: Doc) -> Mapping[str, Any]:
        return {"notes": [*doc.notes, "right"], "rounds": doc.rounds + 3}

    @graph.node
    async def after(doc: Doc) -> Mapping[str, Any]:
        slow.set()
        return {"words": ["only here"]}

    @graph.node
    async def join(doc: Doc) -> Mapping[str, Any]:
        return {"notes": [*doc.notes, "join"]}

    graph.add_edge(hf.START, first)
    graph.add_fork(first, [left, right], join=join, merge={"notes": "append", "rounds": "total"})
    graph.add_edge(left, join).add_edge(right, after).add_edge(after, join).add_edge(join, hf.END)
    result, run = await ended(place, app, graph.bind(Doc(rounds=1)))
    assert result == Doc("", ["only here"], 6, ["first", "left", "right", "join"])
    keys = {key for key, _ in await stored(place, app, run.id)}
    assert {"left[1]/forked.left#1", "right[1]/forked.right#1", "right[1]/forked.after#1"} <= keys


async def test_two_branches_that_change_one_field_without_a_rule_are_both_named(
    place: Place, app: hf.App
) -> None:
    graph = app.graph("torn")
    for name in ("one", "two"):
        graph.add_node(name, _one(name))
    graph.add_fork(hf.START, ["one", "two"], join=hf.END)
    graph.add_edge("one", hf.END).add_edge("two", hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()))
        with pytest.raises(hf.RunFailed, match="Nodes one and two both changed 'path'"):
            await within(run.result())


async def test_a_branch_that_fails_ends_the_others_and_names_its_node(
    place: Place, app: hf.App
) -> None:
    graph = app.graph("broken", state=Doc)
    cancelled = asyncio.Event()

    @graph.node
    async def waits(doc: Doc) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    @graph.node(retry=ONCE)
    async def breaks(doc: Doc) -> None:
        raise ValueError("no paper")

    graph.add_fork(hf.START, [waits, breaks], join=hf.END)
    graph.add_edge(waits, hf.END).add_edge(breaks, hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(Doc()))
        with pytest.raises(hf.RunFailed, match=r"failed at node breaks: .*no paper"):
            await within(run.result())
        await within(cancelled.wait())


async def test_a_failed_run_that_is_retried_goes_on_at_its_node(place: Place, app: hf.App) -> None:
    graph = app.graph("mended", state=Doc)
    done: list[str] = []
    is_broken = True

    @graph.node
    async def first(doc: Doc) -> Mapping[str, Any]:
        done.append("first")
        return {"rounds": 1}

    @graph.node(retry=ONCE)
    async def second(doc: Doc) -> Mapping[str, Any]:
        done.append("second")
        if is_broken:
            raise ValueError("out of ink")
        return {"rounds": doc.rounds + 1}

    graph.add_edge(hf.START, first).add_edge(first, second).add_edge(second, hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(Doc()))
        with pytest.raises(hf.RunFailed, match="out of ink"):
            await within(run.result())
        is_broken = False
        await run.retry()
        assert (await within(run.result())).rounds == 2
    assert done == ["first", "second", "second"]


async def test_a_graph_that_goes_round_for_ever_is_stopped(place: Place, app: hf.App) -> None:
    graph = app.graph("endless", max_iterations=5)
    graph.add_node("tick", _one("tick")).add_node("tock", _one("tock"))
    graph.add_edge(hf.START, "tick").add_edge("tick", "tock", hf.key_exists("path"))
    graph.add_edge("tick", hf.END).add_edge("tock", "tick")
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()))
        with pytest.raises(hf.RunFailed, match=r"at node tock: max iterations \(5\) exceeded"):
            await within(run.result())
        assert (await kinds(run)).count("step.completed") == 5


ASTRAY: dict[str, tuple[Callable[[hf.State], Any], str]] = {
    "unknown": (lambda state: "nowhere", "returned 'nowhere', which is none of 'end'"),
    "raises": (lambda state: 1 // 0, "the way out cannot be chosen: ZeroDivisionError"),
    "unhashable": (lambda state: [1], r"returned \[1\], which is none of 'end'"),
}


@pytest.mark.parametrize("name", ASTRAY)
async def test_a_router_that_leads_nowhere_fails_the_run(
    place: Place, app: hf.App, name: str
) -> None:
    router, told = ASTRAY[name]
    graph = app.graph("lost")
    graph.add_node("look", _one("look")).add_edge(hf.START, "look")
    graph.add_conditional_edge("look", router, {"end": hf.END})
    async with place.open(app) as client:
        run = await client.start(graph.bind(hf.State()))
        with pytest.raises(hf.RunFailed, match=told):
            await within(run.result())


async def test_a_run_whose_router_has_changed_its_mind_is_blocked(place: Place) -> None:
    def release(target: str) -> hf.App:
        app = hf.App("engine-tests")
        graph = app.graph("fickle")
        graph.add_node("look", _one("look")).add_node("left", _one("left"))
        graph.add_node("wait", _waits, body=True)
        graph.add_edge(hf.START, "look")
        graph.add_conditional_edge("look", lambda state: target, ["left", "wait"])
        graph.add_edge("left", "wait").add_edge("wait", hf.END)
        return app

    first = release("wait")
    async with place.open(first) as client:
        bound: hf.Bound[Any] = first.workflows["fickle"].bind(hf.State())
        await client.start(bound, id="r")
        await status_of(client.get("r"), "waiting")
    async with place.open(release("left")) as client:
        await client.get("r").signal(go, 1)
        row = await status_of(client.get("r"), "blocked", "completed")
        assert row.status == "blocked"
        assert "the decision look.next#1" in row.reason
    async with place.open(release("wait")) as client:
        await client.get("r").retry()
        assert (await within(client.get("r").result()))["go"] == 1


go = hf.Signal("go", int)


async def _waits(state: hf.State) -> Mapping[str, Any]:
    return {"go": await hf.wait_for(go)}


async def test_nothing_before_a_question_runs_again(place: Place, app: hf.App) -> None:
    graph = app.graph("review", state=Doc)
    drafted: list[int] = []

    @app.step
    async def draft(rounds: int) -> str:
        drafted.append(rounds)
        return f"draft {rounds}"

    @graph.node(body=True)
    async def write(doc: Doc) -> Mapping[str, Any]:
        text = await draft(doc.rounds)
        verdict = await hf.ask(f"Is {text!r} good?", bool)
        return {"text": text, "rounds": doc.rounds + 1, "notes": [*doc.notes, str(verdict)]}

    graph.add_edge(hf.START, write)
    graph.add_edge(write, hf.END, lambda doc: doc.notes[-1] == "True").add_edge(write, write)
    async with place.open(app) as client:
        await client.start(graph.bind(Doc()), id="review")
        await until(lambda: _is_asked(client, 1))
    for round_ in (1, 2):
        async with place.open(app) as client:
            await until(partial(_is_asked, client, round_))
            await client.get("review").answer(f"write[{round_}]/ask#1", round_ == 2)
            await until(partial(_is_past, client, round_))
    async with place.open(app) as client:
        result = await within(client.get("review").result())
    assert drafted == [0, 1]
    assert result == Doc("draft 1", [], 2, ["False", "True"])


async def _is_asked(client: hf.Client, round_: int) -> bool:
    found = (await client.questions()).questions
    return [each.key for each in found] == [f"write[{round_}]/ask#1"]


async def _is_past(client: hf.Client, round_: int) -> bool:
    return not await _is_asked(client, round_)


async def test_one_thing_is_done_for_as_many_items_as_the_state_has(
    place: Place, app: hf.App
) -> None:
    graph = app.graph("pages", state=Doc)
    done: list[str] = []

    async def read(word: str) -> str:
        done.append(word)
        return word.upper()

    def words(doc: Doc) -> Sequence[str]:
        return doc.text.split()

    graph.add_map("read", read, over=words, into="words", limit=2)
    graph.add_edge(hf.START, "read").add_edge("read", hf.END)
    result, _ = await ended(place, app, graph.bind(Doc("a b c")))
    assert result.words == ["A", "B", "C"]
    assert sorted(done) == ["a", "b", "c"]


async def test_a_run_ends_at_an_exit_point_whatever_edges_that_has(
    place: Place, app: hf.App
) -> None:
    graph = app.graph("exit", state=Doc)

    @graph.node
    async def a(doc: Doc) -> Mapping[str, Any]:
        return {"rounds": doc.rounds + 1}

    @graph.node
    async def b(doc: Doc) -> Mapping[str, Any]:
        return {"notes": [*doc.notes, "b"]}

    graph.set_entry_point(a).add_edge(a, b)
    graph.add_edge(b, a, lambda doc: doc.rounds < 3).set_exit_point(b)
    assert graph.validate() == []
    result, run = await ended(place, app, graph.bind(Doc()))
    assert result == Doc("", [], 1, ["b"])
    async with place.open(app, worker=False) as client:
        told = [event.type async for event in hf.graph_events(client, run.id)]
        assert (told.count("edge.transition"), told[-1]) == (1, "graph.complete")
        assert "b  done" in graph.text((await client.get(run.id).history()).events)


async def test_a_graph_a_workflow_and_a_step_can_be_nodes(place: Place, app: hf.App) -> None:
    inner = app.graph("inner", state=Doc)

    @inner.node
    async def shout(doc: Doc) -> Mapping[str, Any]:
        return {"text": doc.text.upper()}

    inner.add_edge(hf.START, shout).add_edge(shout, hf.END)

    @app.workflow
    async def child(doc: Doc) -> Doc:
        return Doc(doc.text + "!", doc.words, doc.rounds + 1, doc.notes)

    @app.step
    async def plain(doc: Doc) -> Doc:
        return Doc(doc.text + "?", doc.words, doc.rounds, doc.notes)

    outer = app.graph("outer", state=Doc)
    outer.add_node("sub", inner).add_node("run", child).add_node("step", plain)
    outer.add_edge(hf.START, "sub").add_edge("sub", "run").add_edge("run", "step")
    outer.add_edge("step", hf.END)
    result, run = await ended(place, app, outer.bind(Doc("hi")))
    assert result == Doc("HI!?", [], 1)
    assert [key for key, _ in await stored(place, app, run.id)] == [
        "sub[1]/inner.shout#1",
        "plain#1",
    ]


async def test_a_workflow_that_is_inline_is_part_of_the_run(place: Place, app: hf.App) -> None:
    @app.step
    async def shout(text: str) -> str:
        return text.upper()

    @app.workflow
    async def child(doc: Doc) -> Doc:
        return Doc(await shout(doc.text), doc.words, doc.rounds + 1, doc.notes)

    graph = app.graph("whole", state=Doc).add_node("part", child, inline=True, timeout=60)
    graph.add_edge(hf.START, child).add_edge(child, hf.END)
    result, run = await ended(place, app, graph.bind(Doc("hi")))
    assert result == Doc("HI", [], 1)
    assert [key for key, _ in await stored(place, app, run.id)] == ["part[1]/shout#1"]
    async with place.open(app, worker=False) as client:
        assert len((await client.list()).runs) == 1


async def test_a_node_that_returns_something_else_fails_at_once(place: Place, app: hf.App) -> None:
    graph = app.graph("wrong", state=Doc)
    runs: list[int] = []

    @graph.node
    async def number(doc: Doc) -> Any:
        runs.append(1)
        return 5

    @graph.node
    async def stranger(doc: Doc) -> Any:
        return {"colour": "red"}

    graph.add_conditional_edge(hf.START, lambda doc: doc.text, {"a": number, "b": stranger})
    graph.add_edge(number, hf.END).add_edge(stranger, hf.END)
    async with place.open(app) as client:
        run = await client.start(graph.bind(Doc("a")))
        with pytest.raises(hf.RunFailed, match="'number' returned a value of type int"):
            await within(run.result())
        run = await client.start(graph.bind(Doc("b")))
        with pytest.raises(hf.RunFailed, match="'colour', which is no field of Doc: text, words"):
            await within(run.result())
    assert runs == [1]


def test_a_graph_survives_a_crash_at_every_commit(app: hf.App) -> None:
    graph = app.graph("crashed", state=Doc)

    @graph.node
    async def begin(doc: Doc) -> Mapping[str, Any]:
        return {"rounds": doc.rounds + 1}

    @graph.node
    async def left(doc: Doc) -> Mapping[str, Any]:
        return {"notes": [*doc.notes, "left"]}

    @graph.node(body=True)
    async def right(doc: Doc) -> Mapping[str, Any]:
        await hf.sleep(30)
        return {"notes": [*doc.notes, "right"]}

    @graph.node
    async def join(doc: Doc) -> Mapping[str, Any]:
        return {"text": "done"}

    graph.add_edge(hf.START, begin)
    graph.add_edge(begin, begin, lambda doc: doc.rounds < 2)
    graph.add_node("split", _same)
    graph.add_edge(begin, "split")
    graph.add_fork("split", [left, right], join=join, merge={"notes": "append"})
    graph.add_edge(left, join).add_edge(right, join).add_edge(join, hf.END)
    assert crashtest(graph.bind(Doc()), app=app).violations == []


async def _same(doc: Doc) -> None:
    return None
