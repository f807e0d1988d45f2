"""How graphs are declared: every mistake is told where it is made, or all of them by `validate`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import holdfast as hf


async def nothing(state: Any) -> None:
    return None


@dataclass
class Thawed:
    n: int = 0


@dataclass(frozen=True)
class Frozen:
    n: int = 0


@pytest.fixture
def app() -> hf.App:
    return hf.App("building")


@pytest.fixture
def graph(app: hf.App) -> hf.StateGraph[hf.State]:
    return app.graph("g").add_node("a", nothing).add_node("b", nothing).add_node("c", nothing)


Graph = hf.StateGraph[Any]

MISTAKES: dict[str, tuple[Callable[[Graph], object], str]] = {
    "empty name": (lambda g: g.add_node("", nothing), "has 0 characters"),
    "name of a place": (lambda g: g.add_node("END", nothing), "END is no name for a node"),
    "no function": (lambda g: g.add_node("d", None), "node 'd' is None, and no function"),  # type: ignore[arg-type]
    "name taken": (lambda g: g.add_node("a", nothing), "Node 'a' already exists"),
    "sync body": (lambda g: g.add_node("d", print, body=True), "is no `async def`"),
    "options of a body": (
        lambda g: g.add_node("d", nothing, body=True, timeout=1, retry=hf.Retry()),
        "node 'd' takes no retry",
    ),
    "options of a workflow": (
        lambda g: g.add_node("d", hf.App("x").graph("y").workflow, timeout=1),
        "takes no timeout",
    ),
    "inline function": (
        lambda g: g.add_node("d", nothing, inline=True),
        "'d' cannot be inline as it is. Give a workflow",
    ),
    "isolated": (
        lambda g: g.add_node("d", nothing, isolate="process"),
        r"node 'd' cannot be isolated.*@app.step\(isolate",
    ),
    "from nowhere": (lambda g: g.add_edge("", "b"), "from='' names no node"),
    "to nowhere": (lambda g: g.add_edge("a", ""), "to='' names no node"),
    "unknown from": (lambda g: g.add_edge("x", "b"), r"from='x' is no node.*START, a, b, c"),
    "unknown to": (lambda g: g.add_edge("a", print), "to='print' is no node"),
    "which of them": (lambda g: g.add_edge("a", nothing), "is the function of a, b, c"),
    "to START": (lambda g: g.add_edge("a", hf.START), "to='START' is no node"),
    "from END": (lambda g: g.add_edge(hf.END, "a"), "from='END' is no node"),
    "no predicate": (lambda g: g.add_edge("a", "b", True), "The predicate of a -> b is True"),  # type: ignore[arg-type]
    "second entry": (
        lambda g: g.set_entry_point("a").set_entry_point("a"),
        "entry point is set already",
    ),
    "unknown entry": (lambda g: g.set_entry_point("x"), "to='x' is no node"),
    "unknown exit": (lambda g: g.set_exit_point("x"), "exit point='x' is no node"),
    "no router": (lambda g: g.add_conditional_edge("a", "b", ["c"]), "The router of 'a' is 'b'"),  # type: ignore[arg-type]
    "no targets": (lambda g: g.add_conditional_edge("a", len, []), "has no targets"),
    "unknown target": (lambda g: g.add_conditional_edge("a", len, {0: "x"}), "to='x' is no node"),
    "fork of one": (lambda g: g.add_fork("a", ["b"], join="c"), "has the branches b"),
    "fork of twins": (lambda g: g.add_fork("a", ["b", "b"], join="c"), "has the branches b, b"),
    "join is a branch": (
        lambda g: g.add_fork("a", ["b", "c"], join="c"),
        "a branch of the fork and its join",
    ),
    "second fork": (
        lambda g: g.add_fork("a", ["b", "c"], join=hf.END).add_fork("a", ["b", "c"], join=hf.END),
        "'a' has a fork already",
    ),
    "no rule": (
        lambda g: g.add_fork("a", ["b", "c"], join=hf.END, merge={"n": "blend"}),  # type: ignore[dict-item]
        "The merge rule of 'n' is 'blend'",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_where_it_is_made(graph: Graph, name: str) -> None:
    make, told = MISTAKES[name]
    with pytest.raises(hf.BadDefinition, match=told):
        make(graph)


def test_a_graph_may_visit_at_least_one_node(app: hf.App) -> None:
    for bad in (0, -1, True, "many"):
        with pytest.raises(hf.BadDefinition, match=f"max_iterations={bad!r}"):
            app.graph("g", max_iterations=bad)  # type: ignore[arg-type]


def test_a_state_must_not_change_under_a_run(app: hf.App) -> None:
    with pytest.raises(hf.BadDefinition, match="Thawed is a dataclass that is not frozen"):
        app.graph("g", state=Thawed)
    with pytest.raises(hf.BadDefinition, match="int is no state"):
        app.graph("g", state=int)


def test_rules_and_maps_are_for_fields(app: hf.App) -> None:
    graph = app.graph("g", state=Frozen).add_node("a", nothing).add_node("b", nothing)
    with pytest.raises(hf.BadDefinition, match=r"merge rule of 'm' is for no field\. Fields: n"):
        graph.add_fork(hf.START, ["a", "b"], join=hf.END, merge={"m": "last"})
    with pytest.raises(hf.BadDefinition, match="into='m' of node 'c' is no field"):
        graph.add_map("c", nothing, over=lambda state: [], into="m")


def test_graphs_of_two_states_do_not_nest(app: hf.App) -> None:
    with pytest.raises(hf.BadDefinition, match="node 'sub' is a graph of another state"):
        app.graph("g").add_node("sub", app.graph("inner", state=Frozen))


def test_a_name_is_taken_once_in_an_app(app: hf.App) -> None:
    app.graph("g")
    with pytest.raises(hf.BadDefinition, match="already has a workflow 'g'"):
        app.graph("g")


def test_the_time_of_a_body_is_a_duration(graph: Graph) -> None:
    with pytest.raises(hf.InvalidDuration, match="timeout='1'"):
        graph.add_node("d", nothing, body=True, timeout="1")


def test_validate_lists_every_problem_at_once(app: hf.App) -> None:
    assert app.graph("empty").validate() == ["There are no nodes."]
    graph = app.graph("g")
    for name in ("a", "b", "c", "d", "e", "f"):
        graph.add_node(name, nothing)
    assert graph.validate()[:2] == [
        "There is no entry point: write add_edge(START, ...) or set_entry_point(...).",
        "There is no exit: write add_edge(..., END) or set_exit_point(...).",
    ]
    graph.add_edge(hf.START, "a").add_edge("a", "b").add_edge("a", hf.END, hf.key_exists("n"))
    graph.add_edge("b", "c").add_edge("c", "b").add_edge("d", "e")
    assert graph.validate() == [
        "Node 'd' is never reached: no edge leads there from START.",
        "Node 'e' is never reached: no edge leads there from START.",
        "Node 'f' is never reached: no edge leads there from START.",
        "From node 'b' no exit can be reached.",
        "From node 'c' no exit can be reached.",
        "The edge a -> END is never taken: one before it always is.",
    ]


def test_validate_knows_dead_ends_forks_and_exits(graph: Graph) -> None:
    graph.add_node("j", nothing)
    graph.add_edge(hf.START, "a").add_fork("a", ["b", "c"], join="j").add_edge("b", "j")
    graph.set_exit_point("j").add_edge("j", "a")
    assert graph.validate() == [
        "Node 'c' is a dead end: it has no edges and is no exit.",
        "Branch 'c' of the fork at 'a' never reaches its join.",
    ]


async def test_an_app_with_a_broken_graph_does_not_open(app: hf.App, graph: Graph) -> None:
    graph.add_edge(hf.START, "a")
    with pytest.raises(hf.InvalidGraph) as caught:
        async with app.open("memory://"):
            pass
    assert caught.value.problems == tuple(graph.validate())
    assert "There is no exit" in str(caught.value)
    with pytest.raises(hf.InvalidGraph):
        graph.bind(hf.State())


def test_nothing_is_added_to_a_graph_that_runs_may_walk(app: hf.App) -> None:
    graph = app.graph("g").add_node("a", nothing).add_edge(hf.START, "a").add_edge("a", hf.END)
    graph.bind(hf.State())
    for call in (
        lambda: graph.add_node("b", nothing),
        lambda: graph.add_edge("a", "a"),
        lambda: graph.set_exit_point("a"),
    ):
        with pytest.raises(hf.BadDefinition, match="came after the graph was opened or bound"):
            call()


def test_the_shape_of_a_graph_changes_with_its_edges_and_its_routers() -> None:
    def shape(target: str, router: Callable[[Any], str]) -> bytes:
        graph = hf.App("shapes").graph("g").add_node("a", nothing).add_node("b", nothing)
        graph.add_edge(hf.START, "a").add_conditional_edge("a", router, {"x": target, "y": hf.END})
        graph.add_edge("b", hf.END)
        return graph.workflow.shape

    def one(state: Any) -> str:
        return "x"

    def other(state: Any) -> str:
        return "y"

    assert shape("b", one) == shape("b", one)
    assert len({shape("b", one), shape("a", one), shape("b", other)}) == 3


def test_the_shape_knows_what_chooses_items_and_the_graphs_inside() -> None:
    def shape(over: Callable[[Any], list[int]], target: str) -> bytes:
        app = hf.App("shapes")
        inner = app.graph("inner").add_node("a", nothing).add_node("b", nothing)
        inner.add_edge(hf.START, "a").add_edge("a", target).add_edge("b", hf.END)
        graph = app.graph("outer").add_node("sub", inner)
        graph.add_map("each", abs_of, over=over, into="n")
        graph.add_edge(hf.START, "sub").add_edge("sub", "each").add_edge("each", hf.END)
        return graph.workflow.shape

    def one(state: Any) -> list[int]:
        return [1]

    def two(state: Any) -> list[int]:
        return [1, 2]

    assert shape(one, "b") == shape(one, "b")
    assert len({shape(one, "b"), shape(two, "b"), shape(one, hf.END)}) == 3


async def abs_of(n: int) -> int:
    return abs(n)


def test_a_graph_is_frozen_with_those_inside_it(app: hf.App) -> None:
    inner = hf.App("other").graph("inner").add_node("a", nothing)
    graph = app.graph("outer").add_node("sub", inner)
    graph.add_edge(hf.START, "sub").add_edge("sub", hf.END)
    with pytest.raises(hf.InvalidGraph, match="Graph 'inner' cannot be walked"):
        graph.bind(hf.State())


def test_the_picture_of_a_graph_is_the_same_each_time(app: hf.App) -> None:
    graph = app.graph("drawn").add_node("look", nothing).add_node("ask", nothing, body=True)
    graph.add_edge(hf.START, "look").add_edge("look", "ask", hf.key_equals("sure", False))
    graph.add_edge("look", hf.END).add_edge("ask", "look")
    assert graph.mermaid() == (
        "flowchart TD\n"
        "    at_start((start))\n"
        '    n0["look"]\n'
        '    n1(["ask"])\n'
        "    at_end((end))\n"
        "    at_start --> n0\n"
        '    n0 -->|"key_equals(sure, False)"| n1\n'
        "    n0 --> at_end\n"
        "    n1 --> n0\n"
    )
