"""A graph as a Mermaid flowchart: the same graph gives the same text."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.fronts.graph.blueprint import Blueprint
from holdfast.fronts.graph.edges import END, START, Edge
from holdfast.fronts.graph.scene import scene_of
from holdfast.fronts.graph.trail import Trail

STYLES = {
    "done": "fill:#e2f3f0,stroke:#0f766e,color:#17212b",
    "at": "fill:#e0eaff,stroke:#1d4ed8,stroke-width:3px,color:#17212b",
    "ended": "fill:#fde8e6,stroke:#b42318,stroke-width:3px,color:#17212b",
    "unseen": "stroke-dasharray:4 3",
}


def mermaid(graph: Blueprint, trail: Trail | None = None) -> str:
    """Return the text of the picture, with the way of a run if there is one."""
    way = [] if trail is None else [*_way(graph, trail)]
    return "\n".join(("flowchart TD", *_nodes(graph), *_edges(graph), *way)) + "\n"


def _way(graph: Blueprint, trail: Trail) -> Iterator[str]:
    """Mark the nodes that a run visited, the one it is at, and the ways it took."""
    marks: dict[str, list[str]] = {}
    for box in scene_of(graph, trail).boxes:
        if box.kind not in ("fork", "join"):
            marks.setdefault(box.mark, []).append(_id(graph, box.id))
    for mark, nodes in sorted(marks.items()):
        yield f"    classDef {mark} {STYLES[mark]}"
        yield f"    class {','.join(nodes)} {mark}"
    pairs = [pair for pair, _ in _ways(graph)]
    taken = [str(number) for number, pair in enumerate(pairs) if trail.taken[pair]]
    if taken:
        yield f"    linkStyle {','.join(taken)} stroke:#0f766e,stroke-width:3px"


def _nodes(graph: Blueprint) -> Iterator[str]:
    yield f"    {_id(graph, START)}((start))"
    for name, node in graph.nodes.items():
        left, right = ("[[", "]]") if node.kind in ("graph", "run") else ("[", "]")
        if node.kind == "body":
            left, right = "([", "])"
        yield f'    {_id(graph, name)}{left}"{_text(name)}"{right}'
    yield f"    {_id(graph, END)}((end))"


def _edges(graph: Blueprint) -> Iterator[str]:
    for (source, target), label in _ways(graph):
        yield _edge(graph, source, target, label)


def _ways(graph: Blueprint) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield every way of a graph, with its words."""
    for source in (START, *graph.nodes):
        if source in graph.exits:
            yield (source, END), ""
        elif source in graph.forks:
            for branch in graph.forks[source].branches:
                yield (source, branch), "fork"
        else:
            for way in graph.ways.get(source, ()):
                if isinstance(way, Edge):
                    yield (source, way.target), way.name
                else:
                    for key, target in way.targets.items():
                        yield (source, target), f"{way.name}: {key}"


def _edge(graph: Blueprint, source: str, target: str, label: str) -> str:
    told = f'|"{_text(label)}"|' if label else ""
    return f"    {_id(graph, source)} -->{told} {_id(graph, target)}"


def _id(graph: Blueprint, name: str) -> str:
    """Name a node without the words that Mermaid keeps for itself, such as `end`."""
    if name in (START, END):
        return f"at_{name.lower()}"
    return f"n{list(graph.nodes).index(name)}"


def _text(name: str) -> str:
    return name.replace('"', "#quot;")
