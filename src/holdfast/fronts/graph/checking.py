"""What is wrong with a graph, all of it at once: what can be seen without running it."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.fronts.graph.blueprint import Blueprint
from holdfast.fronts.graph.edges import END, START, Edge
from holdfast.fronts.graph.exposing import sounds_secret
from holdfast.fronts.graph.shapes import Shape

LISTED = "@graph.node(secrets=[{name!r}]) and hf.secret({name!r})"
"""What to write instead of a field that is a secret."""
NUMBERS: tuple[object, ...] = (bool, int, float)


def problems(graph: Blueprint) -> list[str]:
    """Return every problem of a graph, as a sentence each; nothing of a sound one."""
    return [*_problems(graph)]


def _problems(graph: Blueprint) -> Iterator[str]:
    if not graph.nodes:
        yield "There are no nodes."
        return
    if not graph.ways.get(START) and START not in graph.forks:
        yield "There is no entry point: write add_edge(START, ...) or set_entry_point(...)."
    ending = _ending(graph)
    if len(ending) == 1:
        yield "There is no exit: write add_edge(..., END) or set_exit_point(...)."
    yield from _lost(graph)
    if len(ending) > 1:
        yield from (
            f"From node {name!r} no exit can be reached."
            for name in sorted(_reached(graph) - ending - {START})
            if graph.targets_of(name)
        )
    yield from _shadowed(graph)
    yield from _forks(graph)
    if graph.shape.is_strict:
        yield from (
            f"Field {name!r} sounds like a secret, and a state is stored: write "
            f"{LISTED.format(name=name)} instead."
            for name in exposed_fields(graph.shape)
        )


def exposed_fields(shape: Shape) -> list[str]:
    """Return the fields of a type for a state that have names of secrets, and may hold a text."""
    fields = shape.fields or {}
    return [name for name, kind in fields.items() if sounds_secret(name) and kind not in NUMBERS]


def _lost(graph: Blueprint) -> Iterator[str]:
    reached = _reached(graph)
    for name in graph.nodes:
        if name not in reached:
            yield f"Node {name!r} is never reached: no edge leads there from START."
        elif not graph.targets_of(name):
            yield f"Node {name!r} is a dead end: it has no edges and is no exit."


def _shadowed(graph: Blueprint) -> Iterator[str]:
    for source, ways in graph.ways.items():
        if source in graph.exits:
            continue  # a run ends there, whatever edges it has
        if source in graph.forks:
            yield f"The edges of {source!r} are never taken: it has a fork."
        plain = next((i for i, way in enumerate(ways) if _always(way)), len(ways))
        for way in ways[plain + 1 :]:
            told = way.target if isinstance(way, Edge) else f"router {way.name}"
            yield f"The edge {source} -> {told} is never taken: one before it always is."


def _forks(graph: Blueprint) -> Iterator[str]:
    for fork in graph.forks.values():
        if fork.source in graph.exits:
            yield f"The fork at {fork.source!r} is never taken: it is an exit point."
        for branch in fork.branches:
            if fork.join != END and fork.join not in _reached(graph, branch):
                yield f"Branch {branch!r} of the fork at {fork.source!r} never reaches its join."


def _always(way: object) -> bool:
    return not isinstance(way, Edge) or way.predicate is None


def _successors(graph: Blueprint, node: str) -> list[str]:
    found = graph.targets_of(node)
    return [*found, graph.forks[node].join] if node in graph.forks else found


def _reached(graph: Blueprint, start: str = START) -> set[str]:
    """Return the nodes that a run can come to."""
    found, left = {start}, [start]
    while left:
        for target in _successors(graph, left.pop()):
            if target not in found:
                found.add(target)
                left.append(target)
    return found


def _ending(graph: Blueprint) -> set[str]:
    """Return the nodes from which a run can come to an end."""
    before: dict[str, list[str]] = {}
    for node in (START, *graph.nodes):
        for target in _successors(graph, node):
            before.setdefault(target, []).append(node)
    found, left = {END}, [END]
    while left:
        new = [node for node in before.get(left.pop(), ()) if node not in found]
        found.update(new)
        left += new
    return found
