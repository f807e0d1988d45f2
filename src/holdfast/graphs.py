"""State graphs of an app: what `app.graph` gives, made of its steps and one of its workflows.

The graph itself and how a run walks it are in `fronts/graph`, which knows neither.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypedDict, TypeVar, Unpack, cast, overload

from holdfast.errors import BadDefinition, InvalidGraph
from holdfast.fronts.function.mapping import LIMIT
from holdfast.fronts.function.mapping import map as map_items
from holdfast.fronts.function.naming import check_name, described, is_async
from holdfast.fronts.function.step import AsyncStep, Step, SyncStep
from holdfast.fronts.function.workflow import Bound, Workflow
from holdfast.fronts.graph.blueprint import Blueprint, Node, NodeKind
from holdfast.fronts.graph.checking import LISTED, exposed_fields, problems
from holdfast.fronts.graph.drawing import mermaid
from holdfast.fronts.graph.edges import START, Predicate, Router, Rule
from holdfast.fronts.graph.exposing import refuse_exposed, warn_of
from holdfast.fronts.graph.merging import RuleName, rule_of
from holdfast.fronts.graph.pictures import Pictured
from holdfast.fronts.graph.settings import NOBODY, CheckpointConfig, GraphConfig, checked_config
from holdfast.fronts.graph.shapes import Delta, Shape
from holdfast.fronts.graph.state import State
from holdfast.fronts.graph.tracing import walk_of
from holdfast.graph_nodes import call_of, function_of, kept, limit
from holdfast.graph_running import Executed, Inside
from holdfast.machine.values import digest
from holdfast.model.durations import Duration

if TYPE_CHECKING:
    from holdfast.checkpoint_stores import CheckpointStore
    from holdfast.model.executed import ExecutionEvent
    from holdfast.ports.observer import Observer
    from holdfast.ports.store import Store

S = TypeVar("S")
Change = Mapping[str, Any] | None
"""What a node may return instead of a whole state: the fields that change, or None for none."""
NodeFunc = Callable[[S], Awaitable[S | Change]] | Callable[[S], S | Change]
"""What a node is: a function of the state that returns a new one, or the fields that change."""
F = TypeVar("F", bound=Callable[..., Any])
AnyStep = AsyncStep[..., Any] | SyncStep[..., Any]
NO_RULES: Mapping[str, Rule | RuleName] = {}


class Registers(Protocol):
    """What a graph needs of its app."""

    def step(self, /, *, name: str, **options: Any) -> Callable[[Callable[..., Any]], AnyStep]:
        """Register a function as a step."""
        ...

    def adopt(self, graph: StateGraph[Any]) -> None:
        """Take a graph in among the workflows."""
        ...

    def keep_checkpoints(
        self, workflow: str, shape: Shape, config: CheckpointConfig, store: Any
    ) -> str | Store:
        """Feed the store of checkpoints that a graph names; return where its runs are kept."""
        ...


class GraphSettings(TypedDict, total=False):
    """What a graph is told as any workflow is."""

    version: str
    timeout: Duration | None
    queue: str
    priority: int


class StateGraph(Executed[S], Pictured):
    """A workflow drawn as a graph: nodes change a state, edges say which node comes next.

    Made by `app.graph`, or by itself of a config: then it has an app of its own. Nodes are named
    by texts, or by the functions they were made of.
    """

    @overload
    def __init__(
        self: StateGraph[State],
        config: GraphConfig,
        *,
        app: Registers | None = None,
        store: str | Store | CheckpointStore | None = None,
        **settings: Unpack[GraphSettings],
    ) -> None: ...
    @overload
    def __init__(
        self,
        config: GraphConfig,
        *,
        state: type[S],
        app: Registers | None = None,
        store: str | Store | CheckpointStore | None = None,
        **settings: Unpack[GraphSettings],
    ) -> None: ...
    def __init__(
        self,
        config: GraphConfig,
        *,
        state: type[Any] = State,
        app: Registers | None = None,
        store: str | Store | CheckpointStore | None = None,
        **settings: Unpack[GraphSettings],
    ) -> None:
        self.config = checked_config(config)
        self.name = check_name(config.name, "Graph name")
        self._app: Registers = _private_app(config) if app is None else app
        self._inner: list[StateGraph[Any]] = []
        shape = Shape(state, is_strict=config.strict)
        self.blueprint = Blueprint(self.name, shape, config.max_iterations, config.checkpoint)
        self.workflow: GraphWorkflow[S] = GraphWorkflow(self, **settings)
        self._app.adopt(self)
        place = self._app.keep_checkpoints(self.name, shape, config.checkpoint, store)
        super().__init__(self.workflow, Inside(cast("Any", self._app), place))

    def __repr__(self) -> str:
        return f"<graph {self.name}>"

    # --- building

    @overload
    def node(self, function: F, /) -> F: ...
    @overload
    def node(
        self, /, *, name: str | None = None, body: bool = False, **options: Any
    ) -> Callable[[F], F]: ...
    def node(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        body: bool = False,
        **options: Any,
    ) -> Any:
        """Add a function as a node: `@graph.node`, or `@graph.node(timeout=30)`. See `add_node`."""

        def register(target: Callable[..., Any]) -> Callable[..., Any]:
            self.add_node(name or target.__name__, target, body=body, **options)
            return target

        return register if function is None else register(function)

    def add_node(
        self,
        name: str,
        function: NodeFunc[S] | Step[..., Any] | Workflow[..., Any] | StateGraph[Any],
        *,
        body: bool = False,
        inline: bool = False,
        **options: Any,
    ) -> Self:
        """Add a node: a function of the state that returns a new one, or the fields that change.

        It is a step, with the `options` of `app.step`. With `body` it is part of the graph itself:
        deterministic, and free to call steps, to sleep, and to ask people. A step of the app, a
        workflow and another graph may be nodes too: they take the state and return as functions do.
        A workflow is a child run or, `inline`, part of the graph itself, as a body is.
        Of the options, bodies and graphs have a `timeout`, of one visit.
        """
        self.blueprint.must_be_free(check_name(name, f"Graph {self.name!r}: node name"))
        if inline:
            self.blueprint.add_node(self._inlined(name, function, options))
            return self
        is_defined = isinstance(function, Step | Workflow)
        allowed = () if is_defined else ("timeout",)
        refused = [each for each in sorted(options) if each not in allowed]
        if refused and (body or is_defined or isinstance(function, StateGraph)):
            raise BadDefinition(
                what=f"Graph {self.name!r}: node {name!r} takes no {', '.join(refused)}",
                hint="These are for nodes that are functions. Set them where it was defined.",
            )
        self.blueprint.add_node(self._made(name, function, body, options))
        return self

    def add_map(
        self,
        name: str,
        each: Callable[..., Any] | Step[..., Any],
        *,
        over: Callable[[S], Sequence[Any]],
        into: str,
        limit: int = LIMIT,
        **options: Any,
    ) -> Self:
        """Add a node that does one thing for many items, as many as the state has.

        `over` gives the items, of a state; `each` is done for every one of them, at most `limit`
        at a time, as a step with the `options` of `app.step`; the results are put into the field
        `into`, in the order of the items.
        """
        self.blueprint.must_be_free(check_name(name, f"Graph {self.name!r}: node name"))
        fields = self.blueprint.shape.fields
        if fields is not None and into not in fields:
            raise BadDefinition(
                what=f"Graph {self.name!r}: into={into!r:.60} of node {name!r} is no field",
                hint=f"Give one of {', '.join(fields)}.",
            )
        step: Any = each
        if not isinstance(each, Step):
            step = self._app.step(name=f"{self.name}.{name}", **options)(each)

        async def call(state: Any, _past: bytes) -> Delta:
            done = await map_items(step, over(state), limit=limit)
            return self.blueprint.shape.crossed({"set": {into: done}})

        self.blueprint.add_node(Node(name, "body", call, cast("Any", each), over))
        return self

    def add_edge(
        self,
        source: str | Callable[..., Any],
        target: str | Callable[..., Any],
        predicate: Predicate | None = None,
        *,
        name: str = "",
    ) -> Self:
        """Go from one node to another, always, or if `predicate` holds of the state.

        Several edges of one node are tried in the order in which they were added.
        """
        self.blueprint.add_edge(self._name(source), self._name(target), predicate, name)
        return self

    def add_conditional_edge(
        self,
        source: str | Callable[..., Any],
        router: Router,
        targets: Mapping[Any, Any] | Iterable[Any],
        *,
        name: str = "",
    ) -> Self:
        """Go from a node to the target that `router` returns: a key of `targets`, or a name."""
        if not isinstance(targets, Mapping):
            targets = {self._name(target): target for target in targets}
        chosen: Mapping[Any, Any] = targets  # pyright: ignore[reportUnknownVariableType]
        named = {key: self._name(target) for key, target in chosen.items()}
        self.blueprint.add_routes(self._name(source), router, named, name)
        return self

    def add_fork(
        self,
        source: str | Callable[..., Any],
        branches: Sequence[str | Callable[..., Any]],
        *,
        join: str | Callable[..., Any],
        merge: Mapping[str, Rule | RuleName] = NO_RULES,
    ) -> Self:
        """Go on from a node in several branches side by side, each to `join` or to END.

        Each has a state of its own. At the join their changes are put together, in the order in
        which the branches stand here. A field that two of them changed needs a rule in `merge`:
        "append", "union", "total", "first", "last", or a function of the value before the fork
        and a list of theirs.
        """
        rules = {field: rule_of(field, rule) for field, rule in merge.items()}
        names = [self._name(branch) for branch in branches]
        self.blueprint.add_fork(self._name(source), names, self._name(join), rules)
        return self

    def set_entry_point(self, node: str | Callable[..., Any]) -> Self:
        """Begin at this node: the same as `add_edge(START, node)`."""
        return self.add_edge(START, node)

    def set_exit_point(self, node: str | Callable[..., Any]) -> Self:
        """End at this node, whatever edges it has."""
        self.blueprint.add_exit(self._name(node))
        return self

    # --- using

    def validate(self) -> list[str]:
        """Return every problem that can be seen without a run, as a sentence each."""
        return problems(self.blueprint)

    def freeze(self) -> Self:
        """Take in nothing more. Raises `InvalidGraph` if no run could walk the graph."""
        if not self.blueprint.is_frozen:
            for inner in self._inner:
                inner.freeze()
            if found := self.validate():
                raise InvalidGraph(graph=self.name, problems=tuple(found))
            self.blueprint.is_frozen = True
            names = exposed_fields(self.blueprint.shape)
            warn_of(names, f"State of graph {self.name!r}", line=LISTED)
        return self

    def bind(self, state: S) -> Bound[S]:
        """Return this graph with the state to begin with, for `client.start`."""
        self.freeze()
        return self.workflow.bind(state)

    # --- nodes

    def _entry(self) -> str:
        return self.blueprint.targets_of(START)[0]

    def _name(self, node: str | Callable[..., Any]) -> str:
        return self.blueprint.name_of(node) if callable(node) else node

    def _made(self, name: str, given: Any, body: bool, options: Mapping[str, Any]) -> Node:
        if isinstance(given, StateGraph):
            inner: StateGraph[Any] = given  # pyright: ignore[reportUnknownVariableType]
            walked = self._walked(name, inner, options)
            return Node(name, "graph", walked, inner.bind, inner=inner.blueprint)
        if isinstance(given, Step | Workflow):
            called = cast("Callable[[Any], Awaitable[Any]]", given)
            kind: NodeKind = "step" if isinstance(given, Step) else "run"
            return Node(name, kind, self._read(name, called), called)
        if not callable(given):
            raise BadDefinition(
                what=f"Graph {self.name!r}: node {name!r} is {given!r:.60}, and no function",
                hint="Give a function of the state, a step, a workflow or a graph.",
            )
        function = cast("Callable[..., Any]", given)
        if not body:
            step = self._step(name, function, options)
            return Node(name, "step", call_of(self.blueprint.shape, step), function)
        if not is_async(function):
            raise BadDefinition(
                what=f"{described(function)} is no `async def`, and so no body of a node",
                hint="Write `async def`, or leave out body=True: then it is a step.",
            )
        limited = limit(name, function, options)
        return Node(name, "body", self._read(name, limited), function, function)

    def _inlined(self, name: str, given: Any, options: Mapping[str, Any]) -> Node:
        if type(given) is not Workflow or options.keys() - {"timeout"}:
            raise BadDefinition(
                what=f"Graph {self.name!r}: node {name!r} cannot be inline as it is",
                hint="Give a workflow that is a function, and no option but timeout. Graphs are "
                "inline by themselves.",
            )
        workflow: Workflow[..., Any] = given  # pyright: ignore[reportUnknownVariableType]
        call = self._read(name, limit(name, workflow.function, options))
        return Node(name, "body", call, workflow, workflow.function)

    def _step(self, name: str, given: Callable[..., Any], options: Mapping[str, Any]) -> AnyStep:
        """Register a node's function as a step that gives only what it changed."""
        if options.get("isolate") is not None:
            raise BadDefinition(
                what=f"Graph {self.name!r}: node {name!r} cannot be isolated: no process finds it",
                hint='Make it a step, @app.step(isolate="process"), and that step the node.',
            )
        function = function_of(self.blueprint.shape, name, given)
        return self._app.step(name=f"{self.name}.{name}", **options)(function)

    def _read(self, name: str, given: Callable[[Any], Awaitable[Any]]) -> Any:
        """Return a call that gives only what was changed by something of the body."""
        shape = self.blueprint.shape

        async def call(state: Any, _past: bytes) -> Delta:
            copied = shape.copied(state)
            result = await given(copied)
            return shape.crossed(kept(shape, shape.values(state), result, name, state))

        return call

    def _walked(self, name: str, inner: StateGraph[Any], options: Mapping[str, Any]) -> Any:
        if inner.blueprint.shape.cls is not self.blueprint.shape.cls:
            raise BadDefinition(
                what=f"Graph {self.name!r}: node {name!r} is a graph of another state",
                hint="Give both the same state=, or make the inner one a workflow of its own.",
            )

        async def walk(state: Any) -> Any:
            return await walk_of(inner.blueprint).run(state)

        self._inner.append(inner)
        return self._read(name, limit(name, walk, options))


class GraphWorkflow(Workflow[[S], S]):
    """The workflow of a graph. Its code is that of the walk, and of what chooses its way."""

    def __init__(self, graph: StateGraph[S], **settings: Any) -> None:
        async def body(state: Any) -> Any:
            return await walk_of(graph.freeze().blueprint).begin(state)

        async def body_with_secrets(state: Any, secrets: Any = ()) -> Any:
            return await walk_of(graph.freeze().blueprint).begin(state, secrets)

        cls = graph.blueprint.shape.cls
        made: Any = body_with_secrets if cls is State else body
        made.__name__ = made.__qualname__ = graph.name
        made.__annotations__ = {"state": cls, "secrets": tuple[str, ...], "return": cls}
        self.graph = graph
        super().__init__(made, name=graph.name, **settings)

    def bind(self, state: S) -> Bound[S]:
        """Return the workflow with the state to begin with, and the secrets of that."""
        if not isinstance(state, State):
            return super().bind(state)
        if self.graph.config.strict:
            refuse_exposed(state, f"State of graph {self.name!r}")
        given = {name: each for name, each in state.secrets.items() if each is not None}
        return Bound(self, self.signature.encode((state, (*state.secrets,)), {}), given or None)

    @property
    def sources(self) -> tuple[Callable[..., Any], ...]:
        """The functions that a run of it depends on: those that choose, and bodies of nodes."""
        found = self.graph.blueprint.sources()
        return tuple(each for each in found if hasattr(each, "__code__"))

    @property
    def nodes(self) -> tuple[Callable[..., Any], ...]:
        """The functions of its nodes."""
        found = (node.function for node in self.graph.blueprint.nodes.values())
        return tuple(each.function if isinstance(each, Step) else each for each in found)

    @functools.cached_property
    def shape(self) -> bytes:
        """A few bytes that change when the code of it does, or the graph."""
        drawn = "".join(_drawn(self.graph.blueprint))
        return digest(super().shape + drawn.encode())


def new_graph_with_deps(
    config: GraphConfig,
    observer: Observer[ExecutionEvent] | None = None,
    store: str | Store | CheckpointStore | None = None,
) -> StateGraph[State]:
    """Return a graph with an app of its own, with these instead of what the config names.

    `observer` is told what its runs do, as `ExecutionEvent`s; `store` is a URL as for
    `app.open`, or an open-able store, in which `execute` keeps them; or a `CheckpointStore`, which
    gets their checkpoints.
    """
    app: Any = _private_app(checked_config(config))
    if observer is not None:
        app.observe_graphs(observer)
        config = replace(config, observer=NOBODY)
    return StateGraph(config, app=app, store=store)


def _private_app(config: GraphConfig) -> Any:
    """Return the app of a graph that belongs to none."""
    from holdfast.app import App

    return App(config.name)


def shape_of_graph(graph: StateGraph[Any]) -> bytes:
    """Return a few bytes that change when nodes or edges do."""
    return digest("".join(_drawn(graph.blueprint)).encode())


def _drawn(blueprint: Blueprint) -> Iterator[str]:
    """Yield the picture of a graph, and of each inside it."""
    yield mermaid(blueprint)
    for node in blueprint.nodes.values():
        if node.inner is not None:
            yield from _drawn(node.inner)
