"""Graphs to draw, and what they gave: `python -m tests.fronts.graph.gallery` writes that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.fronts.graph.blueprint import Blueprint, Node
from holdfast.fronts.graph.pictures import Pictured
from holdfast.fronts.graph.shapes import Shape

PICTURES = Path(__file__).parent / "pictures"
FORMS = ("svg", "txt", "mmd")


class Plain(Pictured):
    """A graph of nodes that do nothing."""

    def __init__(self, *names: str) -> None:
        self.blueprint = Blueprint("plain", Shape(hf.State), 1_000)
        for name in names:
            self.add(name)

    def add(self, name: str, inner: Plain | None = None, kind: Any = "step") -> None:
        blueprint = None if inner is None else inner.blueprint
        made = Node(name, "graph" if inner else kind, _nothing, _nothing, inner=blueprint)
        self.blueprint.add_node(made)

    def edges(self, *ways: tuple[str, str] | tuple[str, str, str]) -> None:
        for source, target, *names in ways:
            name = names[0] if names else ""
            predicate = (lambda state: True) if names else None
            self.blueprint.add_edge(source, target, predicate, name)


async def _nothing(state: Any, past: bytes = b"") -> Any:
    return {}


def chain() -> Plain:
    graph = Plain("one", "two")
    graph.edges(("START", "one"), ("one", "two"), ("two", "END"))
    return graph


def loops() -> Plain:
    """A box with a loop of its own, one inside another, and names that are not plain."""
    graph = Plain('<draft> & "more"', "試す", "a name that is much longer than all the others are")
    first, second, third = graph.blueprint.nodes
    graph.edges(
        ("START", first), (first, first, "again"), (first, second), (second, third, "maybe"),
        (second, "END"), (third, first, "from the start"), (third, second), (third, "END", "ok"),
    )  # fmt: skip
    return graph


def forks() -> Plain:
    """A fork in a fork, a branch that goes round, a branch that ends, and a graph in the graph."""
    inner = Plain("read", "write")
    inner.edges(("START", "read"), ("read", "write", "is_new"), ("read", "END"), ("write", "END"))
    graph = Plain("begin", "a", "b", "c", "a1", "a2", "meet", "again")
    graph.add("inner", inner)
    graph.add("after", kind="run")
    graph.add("ask", kind="body")
    graph.blueprint.add_fork("begin", ["a", "b", "c"], "inner", {})
    graph.blueprint.add_fork("a", ["a1", "a2"], "meet", {})
    graph.edges(
        ("START", "begin"), ("a1", "meet"), ("a2", "meet"), ("meet", "inner"), ("b", "again"),
        ("again", "b", "once more"), ("again", "inner"), ("c", "END"), ("inner", "after"),
        ("after", "ask"), ("ask", "begin", "no"), ("ask", "END", "yes"),
    )  # fmt: skip
    return graph


def large() -> Plain:
    """Thirty nodes, with ways that skip many, and ways that lead back over many."""
    graph = Plain(*(f"n{number}" for number in range(30)))
    graph.edges(("START", "n0"))
    for number in range(30):
        name = f"n{number}"
        if number % 4 == 1:
            graph.edges((name, f"n{number * 7 % 30}", f"is_{number}"))
        if number % 5 == 2:
            graph.edges((name, f"n{min(number + 6, 29)}", f"skips_{number}"))
        graph.edges((name, f"n{number + 1}" if number < 29 else "END"))
    return graph


GRAPHS: dict[str, Callable[[], Plain]] = {
    "chain": chain, "loops": loops, "forks": forks, "large": large,
}  # fmt: skip


def drawn(graph: Pictured, form: str) -> str:
    if form == "svg":
        return graph.svg()
    return graph.text() if form == "txt" else graph.mermaid()


def pictures() -> Iterator[tuple[Path, str]]:
    for name, make in GRAPHS.items():
        for form in FORMS:
            yield PICTURES / f"{name}.{form}", drawn(make(), form)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for path, text in pictures():
        path.write_text(text, encoding="utf-8")
