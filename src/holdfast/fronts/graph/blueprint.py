"""What a graph consists of, as it is declared: nodes, edges, forks, and the limits of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.errors import BadDefinition
from holdfast.fronts.graph.edges import (
    END,
    PLACES,
    START,
    Edge,
    Fork,
    Predicate,
    Router,
    Routes,
    Rule,
    name_of,
)
from holdfast.fronts.graph.settings import CheckpointConfig
from holdfast.fronts.graph.shapes import Delta, Shape

NodeKind = Literal["step", "body", "graph", "run"]
NO_CHECKPOINTS = CheckpointConfig()


@dataclass(frozen=True, slots=True)
class Node:
    """A named part of a graph. `call` takes the state and gives what it changed.

    A `step` is recorded when it is done; a `body` is code of the graph itself, which only asks; a
    `graph` is walked inside this one; a `run` is a child.
    """

    name: str
    kind: NodeKind
    call: Callable[[Any, bytes], Awaitable[Delta]]
    """Does it, given the state and the digest of how that came about."""
    function: Callable[..., Any]
    source: Callable[..., Any] | None = None
    """What of its code is part of the graph's body."""
    inner: Blueprint | None = None
    """The graph that is walked inside this one."""


class Blueprint:
    """A graph while it is built, and, once frozen, as it is walked."""

    def __init__(
        self,
        name: str,
        shape: Shape,
        max_iterations: int,
        checkpoint: CheckpointConfig = NO_CHECKPOINTS,
    ) -> None:
        if type(max_iterations) is not int or max_iterations < 1:
            raise BadDefinition(
                what=f"max_iterations={max_iterations!r:.60} of graph {name!r} allows no node",
                hint="Give how many nodes a run may visit at most, 1 or more.",
            )
        self.name, self.shape, self.max_iterations = name, shape, max_iterations
        self.checkpoint = checkpoint
        self.nodes: dict[str, Node] = {}
        self.ways: dict[str, list[Edge | Routes]] = {}
        self.forks: dict[str, Fork] = {}
        self.exits: set[str] = set()
        self.is_frozen = False
        self.decisions: dict[tuple[str, int, str], tuple[str, bytes]] = {}
        """What is recorded of the ways that walks have taken, and under which name: by node, place
        and target."""

    def must_be_free(self, name: str) -> None:
        """Refuse a name that no node can have now. Raises `BadDefinition`."""
        self._must_be_open("add_node")
        if name in PLACES:
            raise self._bad(f"{name} is no name for a node", "It is where graphs begin or end.")
        if name in self.nodes:
            raise self._bad(f"Node {name!r} already exists", "Give one of them another name.")

    def add_node(self, node: Node) -> None:
        """Take in a node. Raises `BadDefinition`."""
        self.must_be_free(node.name)
        self.nodes[node.name] = node

    def name_of(self, function: Callable[..., Any]) -> str:
        """Return the name of the one node that a function is. Raises `BadDefinition`."""
        found = [node.name for node in self.nodes.values() if node.function is function]
        if len(found) > 1:
            raise self._bad(
                f"{function!r:.60} is the function of {', '.join(found)}", "Name the node you mean."
            )
        return found[0] if found else getattr(function, "__name__", repr(function))

    def add_edge(self, source: str, target: str, predicate: Predicate | None, name: str) -> None:
        """Add a way out of a node. Raises `BadDefinition`."""
        self._must_be_open("add_edge")
        self._known(source, "from", PLACES[:1])
        self._known(target, "to", PLACES[1:])
        if predicate is not None and not callable(predicate):
            raise self._bad(
                f"The predicate of {source} -> {target} is {predicate!r:.60}",
                "Give a function of the state that returns a bool, such as hf.key_equals(...).",
            )
        named = name or ("" if predicate is None else name_of(predicate))
        ways = self.ways.setdefault(source, [])
        if source == START and predicate is None and any(_is_plain(way) for way in ways):
            raise self._bad("The entry point is set already", "A graph begins at one node.")
        ways.append(Edge(source, target, predicate, named))

    def add_routes(
        self, source: str, router: Router, targets: Mapping[Any, str], name: str
    ) -> None:
        """Add ways out of a node between which a function chooses. Raises `BadDefinition`."""
        self._must_be_open("add_conditional_edge")
        self._known(source, "from", PLACES[:1])
        if not callable(router):
            raise self._bad(
                f"The router of {source!r} is {router!r:.60}",
                "Give a function of the state that returns where to go.",
            )
        if not targets:
            raise self._bad(f"The router of {source!r} has no targets", "Name where it may go.")
        for target in targets.values():
            self._known(target, "to", PLACES[1:])
        routes = Routes(source, router, dict(targets), name or name_of(router))
        self.ways.setdefault(source, []).append(routes)

    def add_fork(
        self, source: str, branches: Sequence[str], join: str, rules: Mapping[str, Rule]
    ) -> None:
        """Let branches go on side by side from a node. Raises `BadDefinition`."""
        self._must_be_open("add_fork")
        self._known(source, "source", PLACES[:1])
        for branch in branches:
            self._known(branch, "branch", ())
        self._known(join, "join", PLACES[1:])
        if len(branches) < 2 or len(set(branches)) < len(branches):
            raise self._bad(
                f"The fork at {source!r} has the branches {', '.join(branches) or 'none'}",
                "Name two or more, each once. For one, write add_edge.",
            )
        if source in self.forks:
            raise self._bad(f"{source!r} has a fork already", "Name all branches in one call.")
        if join in branches:
            raise self._bad(f"{join!r} is a branch of the fork and its join", "Join after it.")
        fields = self.shape.fields
        if fields is not None and (unknown := next((f for f in rules if f not in fields), None)):
            listed = ", ".join(fields)
            raise self._bad(f"The merge rule of {unknown!r} is for no field", f"Fields: {listed}.")
        self.forks[source] = Fork(source, tuple(branches), join, dict(rules))

    def add_exit(self, node: str) -> None:
        """Let a run end at a node, whatever edges it has. Raises `BadDefinition`."""
        self._must_be_open("set_exit_point")
        self._known(node, "exit point", ())
        self.exits.add(node)

    def sources(self) -> Iterator[Callable[..., Any]]:
        """Yield the functions that decide what a run does: of graphs inside this one, too."""
        for way in (way for ways in self.ways.values() for way in ways):
            function = way.predicate if isinstance(way, Edge) else way.router
            if function is not None:
                yield function
        for fork in self.forks.values():
            yield from fork.rules.values()
        for node in self.nodes.values():
            if node.source is not None:
                yield node.source
            if node.inner is not None:
                yield from node.inner.sources()

    def targets_of(self, source: str) -> list[str]:
        """Return where a run may go from a node, in the order in which that is tried."""
        if source in self.exits:
            return [END]
        if source in self.forks:
            fork = self.forks[source]
            return [*fork.branches]
        found: list[str] = []
        for way in self.ways.get(source, ()):
            found += [way.target] if isinstance(way, Edge) else way.targets.values()
        return found

    def _known(self, name: object, what: str, places: Sequence[str]) -> None:
        if not isinstance(name, str) or not name:
            raise self._bad(f"{what}={name!r:.60} names no node", "Give the name of a node.")
        if name in places or name in self.nodes:
            return
        listed = ", ".join((*places, *self.nodes)) or "none yet"
        raise self._bad(
            f"{what}={name!r:.60} is no node", f"Add nodes before edges. There are: {listed}."
        )

    def _must_be_open(self, call: str) -> None:
        if self.is_frozen:
            raise self._bad(
                f"{call} came after the graph was opened or bound",
                "Declare all of it before: runs walk the graph as it was.",
            )

    def _bad(self, what: str, hint: str) -> BadDefinition:
        return BadDefinition(what=f"Graph {self.name!r}: {what}", hint=hint)


def _is_plain(way: Edge | Routes) -> bool:
    return isinstance(way, Edge) and way.predicate is None
