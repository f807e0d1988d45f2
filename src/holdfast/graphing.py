"""The graphs of an app: `app.graph`. What it gives is in `graphs.py`, loaded when it is used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from holdfast.errors import BadDefinition
from holdfast.fronts.function.versions import Versions
from holdfast.fronts.function.workflow import Workflow
from holdfast.fronts.graph.settings import MAX_ITERATIONS, MEMORY, NOBODY, is_place
from holdfast.model.durations import Duration
from holdfast.model.queues import DEFAULT_PRIORITY, DEFAULT_QUEUE

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.checkpoint_stores import CheckpointStore
    from holdfast.factories import Factories
    from holdfast.fronts.graph.settings import CheckpointConfig
    from holdfast.fronts.graph.shapes import Shape
    from holdfast.fronts.graph.state import State
    from holdfast.graphs import Registers, StateGraph
    from holdfast.model.executed import ExecutionEvent
    from holdfast.ports.observer import Observer
    from holdfast.ports.store import Store
    from holdfast.runtimes import Runtime

G = TypeVar("G")


class Graphs(ABC):
    """What an app knows of graphs. `App` is one."""

    versions: Versions

    def __init__(self) -> None:
        self._graphs: list[StateGraph[Any]] = []
        self._factories: Factories | None = None
        self._named_observers: dict[str, Observer[ExecutionEvent]] = {}
        self._checkpoint_stores: dict[str, CheckpointStore] = {}
        self.runtime: Runtime | None = None
        """What its factories build with. Set it before the app is opened."""

    @property
    def factories(self) -> Factories:
        """The workflows that are drawn anew for each run, by name."""
        if self._factories is None:
            # Imported late: most apps have none.
            from holdfast.factories import Factories

            self._factories = Factories(cast("App", self))
        return self._factories

    def refuse_duplicate(self, made: Workflow[..., Any]) -> None:
        """Refuse a workflow whose name is taken. Raises `BadDefinition`."""
        self._refuse_duplicate(made)

    @abstractmethod
    def _refuse_duplicate(self, made: Workflow[..., Any]) -> None: ...

    @abstractmethod
    def observe(self, *observers: Observer) -> None: ...

    def observe_graphs(
        self, *observers: Observer[ExecutionEvent], workflow: str | None = None
    ) -> None:
        """Have them told what runs of graphs do, or those of one workflow, each by itself.

        Before the app is opened. They are told after the commit, as observers are.
        """
        # Imported late: most apps have none.
        from holdfast.graph_observing import GraphTeller
        from holdfast.sinks.observers import checked

        app = cast("App", self)
        self.observe(*(GraphTeller(app, checked(each), workflow) for each in observers))

    def register_observer(self, name: str, observer: Observer[ExecutionEvent]) -> None:
        """Give an observer a name, by which graphs may ask for it: `app.graph(..., observer=name)`.

        It takes the place of another of that name. "noop" is nobody; "slog" is a logger of the
        standard library, unless there is another of that name.
        """
        from holdfast.sinks.observers import checked

        self._named_observers[name] = checked(observer)

    def observe_by_name(self, name: str, workflow: str) -> None:
        """Have the observer of that name told of a workflow. Raises `BadDefinition`."""
        if name == NOBODY:
            return
        found = self._named_observers.get(name)
        if found is None and name == "slog":
            from holdfast.sinks.observers import LoggingObserver

            found = LoggingObserver()
        if found is None:
            known = ", ".join(sorted({NOBODY, "slog", *self._named_observers}))
            raise BadDefinition(
                what=f"Graph {workflow!r}: observer={name!r:.60} names no observer",
                hint=f"Known are {known}. Write app.register_observer(name, observer) before the "
                "graph, or give the observer itself: hf.new_graph_with_deps(config, it).",
            )
        self.observe_graphs(found, workflow=workflow)

    def register_checkpoint_store(self, name: str, store: CheckpointStore) -> None:
        """Give a store of checkpoints a name: `hf.CheckpointConfig(interval=1, store=name)`.

        It takes the place of another of that name. Raises `BadDefinition`.
        """
        from holdfast.checkpoint_stores import METHODS, is_checkpoint_store

        if is_place(name) or not is_checkpoint_store(store):
            problem = "is taken" if is_place(name) else f"got {store!r:.60}, which keeps none"
            raise BadDefinition(
                what=f"Store of checkpoints {name!r:.60} {problem}",
                hint=f"Give another name, and an object with {', '.join(METHODS)}.",
            )
        self._checkpoint_stores[name] = store

    def keep_checkpoints(
        self,
        workflow: str,
        shape: Shape,
        config: CheckpointConfig,
        store: str | Store | CheckpointStore | None = None,
    ) -> str | Store:
        """Feed the store of checkpoints that a graph names; return where its runs are kept.

        Raises `BadDefinition`.
        """
        from holdfast.checkpoint_stores import CheckpointFeed, is_checkpoint_store

        given = config.store if store is None else store
        if isinstance(given, str) and not is_place(given):
            given = self._checkpoint_store(given, workflow)
        elif not is_checkpoint_store(given):
            return cast("str | Store", given)
        if config.interval:
            feed = CheckpointFeed(cast("CheckpointStore", given), workflow, shape, config.preserve)
            self.observe_graphs(feed, workflow=workflow)
        return config.store if is_place(config.store) else MEMORY

    def _checkpoint_store(self, name: str, workflow: str) -> CheckpointStore:
        if name in self._checkpoint_stores:
            return self._checkpoint_stores[name]
        known = ", ".join(sorted({MEMORY, *self._checkpoint_stores}))
        raise BadDefinition(
            what=f"Graph {workflow!r}: unknown checkpoint store: {name!r:.60}",
            hint=f"Known are {known}. Write app.register_checkpoint_store(name, store) before the "
            "graph, give the store itself to hf.new_graph_with_deps, or write a URL.",
        )

    @property
    def graphs(self) -> Sequence[StateGraph[Any]]:
        """The graphs among the workflows."""
        return tuple(self._graphs)

    @overload
    def graph(
        self,
        name: str,
        *,
        version: str = "",
        max_iterations: int = MAX_ITERATIONS,
        checkpoint: CheckpointConfig | None = None,
        observer: str = NOBODY,
        strict: bool = False,
        timeout: Duration | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = DEFAULT_PRIORITY,
    ) -> StateGraph[State]: ...
    @overload
    def graph(
        self,
        name: str,
        *,
        state: type[G],
        version: str = "",
        max_iterations: int = MAX_ITERATIONS,
        checkpoint: CheckpointConfig | None = None,
        observer: str = NOBODY,
        strict: bool = False,
        timeout: Duration | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = DEFAULT_PRIORITY,
    ) -> StateGraph[G]: ...
    def graph(  # noqa: PLR0913 - each by its name
        self,
        name: str,
        *,
        state: type[Any] | None = None,
        version: str = "",
        max_iterations: int = MAX_ITERATIONS,
        checkpoint: CheckpointConfig | None = None,
        observer: str = NOBODY,
        strict: bool = False,
        timeout: Duration | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = DEFAULT_PRIORITY,
    ) -> StateGraph[Any]:
        """Register a workflow that is a graph: `graph = app.graph("classify", state=Doc)`.

        Its nodes and edges are added to what this returns, before the app is opened. `state` is a
        frozen dataclass, a pydantic model, a TypedDict, or `hf.State`. A run that visits more than
        `max_iterations` nodes fails. `checkpoint` says where `graph.execute` keeps
        runs. In a `strict` graph a field that sounds like a secret is an error, else a warning. The
        `observer` is the name of one of graphs. The rest is as for `app.workflow`.
        """
        # Imported late: most apps have none.
        from holdfast.fronts.graph.settings import CheckpointConfig, GraphConfig
        from holdfast.fronts.graph.state import State
        from holdfast.graphs import StateGraph

        config = GraphConfig(
            name, observer, max_iterations, checkpoint or CheckpointConfig(), strict=strict
        )
        return StateGraph(
            config, app=cast("Registers", self), state=state or State, version=version,
            timeout=timeout, queue=queue, priority=priority,
        )  # fmt: skip

    def adopt(self, graph: StateGraph[Any]) -> None:
        """Take a graph in among the workflows; `app.graph` does. Raises `BadDefinition`."""
        self._refuse_duplicate(graph.workflow)
        self.versions.add(graph.workflow)
        self._graphs.append(graph)
        self.observe_by_name(graph.config.observer, graph.name)
