"""What a picture of a graph shows: boxes and lines, with the way of a run on them.

A fork and its join are bars of their own, so that branches side by side are seen as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from holdfast.fronts.graph.blueprint import Blueprint
from holdfast.fronts.graph.edges import END, START, Edge, Fork
from holdfast.fronts.graph.trail import Trail

BoxKind = Literal["start", "end", "step", "body", "run", "graph", "fork", "join"]
Mark = Literal["", "done", "at", "ended", "unseen"]
"""How a run stands to a box; nothing, if the picture is of no run."""
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Box:
    """A node, a place or a bar. `told` is what is said of it below its name."""

    id: str
    text: str
    kind: BoxKind
    mark: Mark = ""
    told: str = ""
    inner: Scene | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A way from one box to another; `taken` says how often, None if the picture is of no run."""

    source: str
    target: str
    label: str = ""
    taken: int | None = None

    @property
    def told(self) -> str:
        """The label, and how often the way was taken, if that was more than once."""
        often = f"{TIMES}{self.taken}" if self.taken and self.taken > 1 else ""
        return f"{self.label} {often}".strip()


@dataclass(frozen=True, slots=True)
class Scene:
    """A graph as it is drawn."""

    name: str
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def clean(words: str) -> str:
    """Return words in one line, without what cannot be seen."""
    return " ".join("".join(c if c.isprintable() else " " for c in words).split())


def scene_of(graph: Blueprint, trail: Trail | None = None) -> Scene:
    """Return what to draw of a graph, and of a run's way if there is one."""
    regions = {source: _region(graph, fork) for source, fork in graph.forks.items()}
    boxes = [_box(graph, START, trail), *(_box(graph, name, trail) for name in graph.nodes)]
    for source in graph.forks:
        left = 0 if trail is None else sum(trail.taken[source, b] for b in _branches(graph, source))
        mark: Mark = "" if trail is None else "done" if left else "unseen"
        boxes += [
            Box(_fork(source), "fork", "fork", mark),
            Box(_join(source), "join", "join", mark),
        ]
    boxes.append(_box(graph, END, trail))
    return Scene(graph.name, tuple(boxes), tuple(_lines(graph, regions, trail)))


def _branches(graph: Blueprint, source: str) -> tuple[str, ...]:
    return graph.forks[source].branches


def _fork(source: str) -> str:
    return f"fork {source}"


def _join(source: str) -> str:
    return f"join {source}"


def _box(graph: Blueprint, name: str, trail: Trail | None) -> Box:
    if name in (START, END):
        place: BoxKind = "start" if name == START else "end"
        is_seen = trail is not None and trail.visits[name] > 0
        mark: Mark = "" if trail is None else "done" if is_seen else "unseen"
        return Box(name, place, place, mark)
    node = graph.nodes[name]
    inner = None
    if node.inner is not None:
        seen = None if trail is None else trail.inner.get(name, Trail())
        inner = scene_of(node.inner, seen)
    mark, told = ("", "") if trail is None else _seen(name, trail)
    return Box(name, name, node.kind, mark, told, inner)


def _seen(name: str, trail: Trail) -> tuple[Mark, str]:
    """Return how a run stands to a node, and the words for it."""
    visits = trail.visits[name]
    often = f", visit {visits}" if visits > 1 else ""
    if name == trail.ended_at:
        return "ended", f"{trail.status}{often}"
    if name in trail.at:
        return "at", f"here{often}"
    if not visits:
        return "unseen", "not visited"
    return "done", "done" if visits == 1 else f"done {TIMES}{visits}"


def _lines(
    graph: Blueprint, regions: Mapping[str, frozenset[str]], trail: Trail | None
) -> Iterator[Line]:
    for source in (START, *graph.nodes):
        if source in graph.forks and source not in graph.exits:
            yield from _forked(graph, regions, source, trail)
            continue
        for target, label in _ways(graph, source):
            arrival = _arrival(graph, regions, source, target)
            yield Line(source, arrival, label, _count(trail, source, target))


def _forked(
    graph: Blueprint, regions: Mapping[str, frozenset[str]], source: str, trail: Trail | None
) -> Iterator[Line]:
    fork = graph.forks[source]
    taken = [_count(trail, source, branch) for branch in fork.branches]
    yield Line(source, _fork(source), "", taken[0])
    for branch, count in zip(fork.branches, taken, strict=True):
        yield Line(_fork(source), branch, "", count)
    joined = None if trail is None else min(taken[0] or 0, trail.visits[fork.join])
    yield Line(_join(source), _arrival(graph, regions, source, fork.join), "", joined)


def _ways(graph: Blueprint, source: str) -> Iterator[tuple[str, str]]:
    """Yield where a node may lead to, and the words on that way; the same way is drawn once."""
    if source in graph.exits:
        yield END, ""
        return
    found: dict[str, list[str]] = {}
    for way in graph.ways.get(source, ()):
        if isinstance(way, Edge):
            found.setdefault(way.target, []).append(way.name)
        else:
            for key, target in way.targets.items():
                is_named = key != target
                found.setdefault(target, []).append(f"{way.name}: {key}" if is_named else way.name)
    for target, labels in found.items():
        yield target, " or ".join(dict.fromkeys(filter(None, labels)))


def _arrival(
    graph: Blueprint, regions: Mapping[str, frozenset[str]], source: str, target: str
) -> str:
    """Return where a way ends: inside a fork that is its join, in place of what follows that."""
    around = [name for name, region in regions.items() if source in region]
    around.sort(key=lambda name: len(regions[name]))
    for name in around[:1]:
        if target in (graph.forks[name].join, END):
            return _join(name)
    return target


def _count(trail: Trail | None, source: str, target: str) -> int | None:
    return None if trail is None else trail.taken[source, target]


def _region(graph: Blueprint, fork: Fork) -> frozenset[str]:
    """Return the nodes between a fork and its join."""
    found: set[str] = set()
    todo = list(fork.branches)
    while todo:
        name = todo.pop()
        if name in found or name in (fork.join, END):
            continue
        found.add(name)
        todo += graph.targets_of(name)
        if name in graph.forks:
            todo.append(graph.forks[name].join)
    return frozenset(found)
