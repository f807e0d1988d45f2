"""A walk that tells what it does: the same way through the graph, and a word about each turn of it.

Only views walk like this, on machines of their own (see `view.py`); a worker's walk tells nothing,
and pays for nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from holdfast.errors import ExecutionError
from holdfast.fronts.graph.blueprint import Blueprint
from holdfast.fronts.graph.edges import END, START, Edge, Fork, Routes
from holdfast.fronts.graph.walking import Place, Walk, in_short, is_choice


class Trace(Protocol):
    """Who is told."""

    def tell(self, type: str, source: str, data: Mapping[str, Any]) -> None:
        """Take a word about what the body is doing right now."""
        ...

    def snapshot(self, name: str, graph: Blueprint, state: Any) -> Mapping[str, Any]:
        """Return the values of a state under this name, or nothing."""
        ...

    def is_saved(self, graph: Blueprint, node: str, iteration: int) -> bool:
        """Tell whether a node that is done right now has left a checkpoint."""
        ...


TRACE: ContextVar[Trace | None] = ContextVar("holdfast_trace", default=None)
"""Who is told of the body that runs in this context; nobody, in a worker."""


def tell(type: str, source: str, data: Mapping[str, Any]) -> None:
    """Tell whoever watches this body, if somebody does: for code of bodies, beside their walks."""
    trace = TRACE.get()
    if trace is not None:
        trace.tell(type, source, data)


def walk_of(graph: Blueprint) -> Walk:
    """Return a walk through a graph, which tells if somebody watches."""
    trace = TRACE.get()
    return Walk(graph) if trace is None else TracedWalk(graph, trace)


class TracedWalk(Walk):
    """A walk that tells each node, each edge and each fork."""

    def __init__(self, graph: Blueprint, trace: Trace) -> None:
        super().__init__(graph)
        self._trace = trace
        self._visits = Counter[str]()

    async def run(self, state: Any) -> Any:
        """Go from START to END; return the last state. Raises `ExecutionError`."""
        entries = self.graph.targets_of(START)
        self._tell("graph.start", entry_point=", ".join(entries), exit_points=_exits(self.graph))
        try:
            ended = await super().run(state)
        except asyncio.CancelledError:
            self._tell("graph.cancelled", **self._counts())
            raise
        except Exception as error:
            node = error.node if isinstance(error, ExecutionError) else ""
            self._tell("graph.failed", node=node, error_message=in_short(error), **self._counts())
            raise
        self._tell("graph.complete", exit_point=self.path[-1], **self._counts())
        return ended

    async def _visit(self, place: Place) -> Place:
        if len(self.path) >= self.graph.max_iterations:
            return await super()._visit(place)
        node, iteration = place.node, len(self.path) + 1
        at = {"node": node, "iteration": iteration}
        self._visits[node] += 1
        if (visits := self._visits[node]) > 1:
            self._tell("cycle.detected", **at, visit_count=visits, path_length=iteration)
        show = self._trace.snapshot
        self._tell("node.start", **at, **show("input_snapshot", self.graph, place.state))
        try:
            after = await super()._visit(place)
        except BaseException as error:
            self._tell("node.complete", **at, error=True, error_message=_problem(error))
            raise
        shown = show("output_snapshot", self.graph, after.state)
        self._tell("node.complete", **at, error=False, **shown)
        if self._trace.is_saved(self.graph, node, iteration):
            self._tell("checkpoint.save", node=node)
        return after

    def _choose(self, place: Place) -> tuple[int, str]:
        ways = self.graph.ways.get(place.node, ())
        try:
            index, target = super()._choose(place)
        except ExecutionError:
            self._evaluated(place.node, ways)
            raise
        # One plain edge from START or to END is what others call an entry or an exit point.
        is_inner = place.node != START and target != END
        if is_inner or is_choice(ways[index], ways) or _is_asked(ways[index]):
            self._evaluated(place.node, ways[: index + 1])
            name = ways[index].name
            told = {"from": place.node, "to": target, "edge_index": index}
            self._tell("edge.transition", **told, predicate_name=name, predicate_result=True)
        return index, target

    def _evaluated(self, node: str, ways: Sequence[Edge | Routes]) -> None:
        for index, way in enumerate(ways):
            to = way.target if isinstance(way, Edge) else ", ".join(way.targets.values())
            told = {"from": node, "to": to, "edge_index": index}
            self._tell("edge.evaluate", **told, has_predicate=_is_asked(way))

    async def _fork(self, fork: Fork, place: Place) -> Place:
        told = {"from": fork.source, "branches": [*fork.branches], "join": fork.join}
        self._tell("fork.start", **told)
        joined = await super()._fork(fork, place)
        self._tell("fork.join", **told)
        return joined

    def _counts(self) -> dict[str, int]:
        return {"iterations": len(self.path), "path_length": len(self.path)}

    def _tell(self, type: str, **data: Any) -> None:
        self._trace.tell(type, self.graph.name, data)


def _problem(error: BaseException) -> str:
    """Return why a node came to no end."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    is_ours = isinstance(error, ExecutionError) and error.__cause__ is not None
    return in_short(error.__cause__ if is_ours and error.__cause__ else error)


def _is_asked(way: Edge | Routes) -> bool:
    return isinstance(way, Routes) or way.predicate is not None


def _exits(graph: Blueprint) -> int:
    """Count the nodes at which a run may end."""
    joins = {fork.join for fork in graph.forks.values()}
    found = [name for name in graph.nodes if END in graph.targets_of(name)]
    return len(found) or int(END in joins)
