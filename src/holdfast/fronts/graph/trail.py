"""The way of a run through its graph, read from its history: what it visited, and where it is.

Every way that was taken is a note in the history, under the key of the place where it was taken:
`left[1]/detect.next#1` is a way out of `detect` in the branch `left` of a fork. The trail follows
them as the walk did, a mark for each branch; what is entered and not left is where the run is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.fronts.graph.blueprint import Blueprint
from holdfast.fronts.graph.edges import END, START, Edge, Fork
from holdfast.model.events import Event, since_start
from holdfast.model.status import CLOSED
from holdfast.model.travel import living

SEGMENT = re.compile(r"^(.*)\[(\d+)\]$", re.DOTALL)
JOINED = ".join#"
"""Ends the key of a note that all branches of a fork have met, before its number."""
Scope = tuple[str, ...]
"""The branches that a mark is in, from the outermost: `("left[1]",)`."""


@dataclass(slots=True)
class Trail:
    """How often each node was entered and each way taken, in all visits of one graph."""

    visits: Counter[str] = field(default_factory=Counter[str])
    taken: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    at: set[str] = field(default_factory=set[str])
    ended_at: str = ""
    """Where it ended, if that was before END."""
    status: str = ""
    """How it was closed, as in `completed`; nothing if it is open."""
    inner: dict[str, Trail] = field(default_factory=dict[str, "Trail"])
    """The trails of the graphs that are nodes, by the names of these."""


def trail_of(graph: Blueprint, events: Sequence[Event]) -> Trail:
    """Return the way that a run went, by its history."""
    lived = since_start(living(events))
    follower = _Follower(graph)
    for event in lived:
        if event.kind == "note.decided" and JOINED not in event.key:
            follower.follow(event.key, json.loads(event.payload or b"{}"))
    status = lived[-1].kind.removeprefix("run.") if lived else ""
    if status == "completed":
        follower.finish()
    trail = follower.told()
    if status in CLOSED:
        _close(trail, status, lived)
    return trail


def _close(trail: Trail, status: str, events: Sequence[Event]) -> None:
    """Mark where a run ended that did not complete: the node of the step that failed last."""
    steps = [event.key for event in events if event.kind == "step.failed"]
    words = set(re.split(r"[/.#]|\[\d+\]", steps[-1])) if steps else set[str]()
    likely = sorted(trail.at, key=lambda node: (node not in words, node))
    trail.status, trail.ended_at, trail.at = status, (likely[0] if likely else ""), set()
    for name, inner in trail.inner.items():
        _close(inner, status if name == trail.ended_at else "completed", events)


class _Follower:
    """Follows the marks of one graph, and of those inside it."""

    def __init__(self, graph: Blueprint) -> None:
        self._graph = graph
        self._trail = Trail()
        self._marks: dict[Scope, str] = {}
        self._forks: dict[Scope, tuple[Fork, set[str]]] = {}
        self._inner: dict[str, _Follower] = {}
        self._rounds: Counter[Scope] = Counter()

    def follow(self, key: str, decision: dict[str, object]) -> None:
        """Take a way that the history tells of."""
        *segments, _ = key.split("/")
        source = str(decision.get("from", ""))
        found = next(_placed(self._graph, tuple(segments), source), None)
        if found is None:
            return
        nodes, scope = found
        follower = self
        for node in nodes:
            follower = follower.inside(node)
        follower.take(scope, source, decision)

    def inside(self, node: str) -> _Follower:
        """Return who follows the marks of the graph that is this node."""
        inner = self._graph.nodes[node].inner
        if inner is not None and node not in self._inner:
            self._inner[node] = _Follower(inner)
        return self._inner[node]

    def take(self, scope: Scope, source: str, decision: dict[str, object]) -> None:
        """Move the mark of a branch."""
        if source == START:
            self._begin()
        elif self._marks.get(scope) != source:
            self._enter(scope, source)
        self._marks.pop(scope, None)
        branches = decision.get("fork")
        if isinstance(branches, list):
            self._fork(scope, self._graph.forks[source])
        else:
            self._go(scope, source, str(decision.get("to", "")))

    def finish(self) -> None:
        """Bring every mark to the end: the run is done."""
        if not self._trail.visits:
            self._enter_first()
        for node in self._marks.values():
            if node in self._graph.exits:
                self._trail.taken[node, END] += 1
        self._marks.clear()
        self._trail.visits[END] = 1
        for follower in self._inner.values():
            follower.finish()

    def told(self) -> Trail:
        """Return what was seen."""
        if not self._trail.visits:
            self._enter_first()
        trail = self._trail
        trail.at = set(self._marks.values())
        for name in trail.at:
            if self._graph.nodes[name].inner is not None and not self.inside(name)._marks:
                self.inside(name)._enter_first()
        for name, follower in self._inner.items():
            trail.inner[name] = follower.told()
        return trail

    def _begin(self) -> None:
        self._trail.visits[START] += 1
        self._marks.clear()
        self._forks.clear()

    def _enter_first(self) -> None:
        """Go the one way out of START that needs no record."""
        ways = self._graph.ways.get(START, ())
        if START not in self._graph.forks and len(ways) == 1 and isinstance(ways[0], Edge):
            self._begin()
            self._go((), START, ways[0].target)

    def _enter(self, scope: Scope, node: str) -> None:
        """Come to a node of which no record tells how: the first one, or a join."""
        first = self._graph.ways.get(START, ())
        if len(first) == 1 and isinstance(first[0], Edge) and first[0].target == node and not scope:
            is_join = scope in self._forks and self._forks[scope][0].join == node
            if not is_join:
                self._begin()
                self._trail.taken[START, node] += 1
        self._forks.pop(scope, None)
        for inside in [each for each in self._marks if each[: len(scope)] == scope]:
            del self._marks[inside]
        self._trail.visits[node] += 1

    def _go(self, scope: Scope, source: str, target: str) -> None:
        self._trail.taken[source, target] += 1
        self._arrive(scope, target)

    def _arrive(self, scope: Scope, node: str) -> None:
        """Put the mark of a branch on a node, or, if that is where its fork ends, take it off."""
        if scope and scope[:-1] in self._forks:
            fork, open_ = self._forks[scope[:-1]]
            if node in (fork.join, END):
                open_.discard(scope[-1])
                if not open_:
                    del self._forks[scope[:-1]]
                    self._arrive(scope[:-1], fork.join)
                return
        self._trail.visits[node] += 1
        if node != END:
            self._marks[scope] = node

    def _fork(self, scope: Scope, fork: Fork) -> None:
        open_: set[str] = set()
        for branch in fork.branches:
            self._rounds[*scope, branch] += 1
            segment = f"{branch}[{self._rounds[*scope, branch]}]"
            open_.add(segment)
            self._trail.taken[fork.source, branch] += 1
            self._trail.visits[branch] += 1
            self._marks[*scope, segment] = branch
        self._forks[scope] = (fork, open_)


def _placed(
    graph: Blueprint, segments: Scope, source: str, scope: Scope = ()
) -> Iterator[tuple[tuple[str, ...], Scope]]:
    """Yield where a key may lie: the nodes that are graphs around it, and the branches in there."""
    if not segments:
        if source == START or source in graph.nodes:
            yield (), scope
        return
    found = SEGMENT.match(segments[0])
    name = found.group(1) if found else segments[0]
    inside = {each.rpartition("[")[0] for each in scope}  # a fork is not in a branch of its own
    forks = [fork for fork in graph.forks.values() if inside.isdisjoint(fork.branches)]
    if any(name in fork.branches for fork in forks):
        yield from _placed(graph, segments[1:], source, (*scope, segments[0]))
    node = graph.nodes.get(name)
    if node is not None and node.inner is not None:
        for nodes, inner in _placed(node.inner, segments[1:], source):
            yield (name, *nodes), inner
