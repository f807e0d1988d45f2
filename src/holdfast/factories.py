"""Workflows by name: factories that draw a graph for the parameters of a run.

A factory is called for each run, on every host that comes to hold it, and must draw the same graph
for the same parameters. The shape of what it drew and the state it gave are recorded once: another
shape later blocks the run, and the state is that of the record.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from holdfast.errors import BadDefinition, UnknownWorkflow
from holdfast.fronts.function.workflow import Bound, Workflow
from holdfast.fronts.graph.exposing import refuse_exposed, warn_of_exposed
from holdfast.fronts.graph.settings import MEMORY, NOBODY, GraphConfig
from holdfast.fronts.graph.shapes import Shape
from holdfast.fronts.graph.state import State
from holdfast.fronts.graph.tracing import walk_of
from holdfast.graphs import StateGraph, shape_of_graph
from holdfast.machine.decisions import decisions_of, told
from holdfast.machine.machine import Machine, current
from holdfast.model.secrets import Secret
from holdfast.runtimes import Runtime

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.fronts.graph.blueprint import Blueprint
    from holdfast.model.events import Event

RECORD = "factory"
BESIDE = "executor.execute(name, params, token=...)"


class WorkflowFactory(Protocol):
    """A function that draws a graph, with the app's runtime and the parameters of a run."""

    def __call__(
        self, graph: StateGraph[State], runtime: Any, params: Mapping[str, Any], /
    ) -> State:
        """Draw it; return the state to begin with."""
        ...


class WorkflowInfo(NamedTuple):
    """A workflow that can be executed by its name."""

    name: str
    description: str


class FactoryWorkflow(Workflow[[dict[str, Any]], State]):
    """The workflow of a factory. Its code is the factory's, and its input the parameters."""

    def __init__(
        self, app: App, name: str, factory: WorkflowFactory, description: str, config: GraphConfig
    ) -> None:
        async def body(params: dict[str, Any], secrets: tuple[str, ...] = ()) -> State:
            graph, state = self._recorded(params)
            walked: State = await walk_of(graph.blueprint).begin(state, secrets)
            return walked

        body.__name__ = body.__qualname__ = name
        self._app, self.factory, self.config = app, factory, config
        inside = dataclasses.replace(config.checkpoint, store=MEMORY)
        # The app's own observers are told, and its stores fed.
        self._drawn_as = dataclasses.replace(config, observer=NOBODY, checkpoint=inside)
        self.info = WorkflowInfo(name, description)
        super().__init__(cast("Any", body), name=name)

    @property
    def sources(self) -> tuple[Callable[..., Any], ...]:
        """The functions that a run of it depends on."""
        return (self.factory,)

    def bind_with(self, params: Mapping[str, Any], secrets: Mapping[str, Secret]) -> Bound[State]:
        """Return the workflow with the parameters of a run, and the secrets of its state."""
        warn_of_exposed(params, f"Parameters of {self.name!r}", line=BESIDE)
        given = self.signature.encode((dict(params), (*secrets,)), {})
        return Bound(cast("Workflow[..., State]", self), given, secrets or None)

    def drawn(self, params: Mapping[str, Any]) -> tuple[StateGraph[State], State]:
        """Return the graph for these parameters, and the state to begin with."""
        # Of an app of its own: other parameters may give its nodes other functions.
        graph = StateGraph(self._drawn_as)
        state: object = self.factory(graph, self._app.runtime or Runtime(), dict(params))
        if not isinstance(state, State):
            raise BadDefinition(
                what=f"Factory {self.name!r} returned {type(state).__name__}, and no state",
                hint="Return the hf.State with which the run begins: hf.State(params).",
            )
        if state.secrets:
            raise BadDefinition(
                what=f"Factory {self.name!r} set the secret {next(iter(state.secrets))!r:.60}",
                hint="Give it to the run: executor.execute(name, params, token=...).",
            )
        if self.config.strict:
            refuse_exposed(state, f"State of factory {self.name!r}")
        return graph.freeze(), state

    def graph_of(self, started: Event) -> StateGraph[State]:
        """Return the graph of a run, by the event of its start."""
        args, _ = self.signature.decode(started.payload or b"{}")
        return self.drawn(args[0])[0]

    def blueprint_of(self, started: Event) -> Blueprint:
        """Return how the graph of a run is walked, by the event of its start."""
        return self.graph_of(started).blueprint

    def _recorded(self, params: dict[str, Any]) -> tuple[StateGraph[State], State]:
        machine = current()
        if machine is None:
            return self.drawn(params)
        record = _record_in(machine)
        try:
            graph, state = self.drawn(params)
        except Exception as error:
            if record is None:
                raise
            raised = f"raises {type(error).__name__}: {error}"
            machine.violation = machine.mismatch(f"a graph of factory {self.name}", raised)
            raise machine.violation from error
        state = State().updated(state if record is None else record["state"])
        said = {"shape": shape_of_graph(graph).hex(), "state": dict(state)}
        decisions_of(machine).say(RECORD, told(said))
        return graph, state


class Factories:
    """The factories of an app. Any thread may use it."""

    def __init__(self, app: App) -> None:
        self._app, self._lock = app, RLock()
        self._known: dict[str, FactoryWorkflow] = {}

    def register(
        self,
        name: str,
        factory: WorkflowFactory,
        description: str = "",
        *,
        config: GraphConfig | None = None,
        replace: bool = False,
    ) -> FactoryWorkflow:
        """Take a factory in under a name. Raises `BadDefinition` if the name is taken.

        With `replace` it takes the place of another factory.
        """
        if not callable(factory):
            raise BadDefinition(
                what=f"Factory {name!r:.60} is {factory!r:.60}, and no function",
                hint="Give a function of a graph, a runtime and the parameters.",
            )
        config = config or GraphConfig(name, NOBODY)
        made = FactoryWorkflow(self._app, name, factory, description, config)
        with self._lock:
            if not (replace and name in self._known):
                self._app.refuse_duplicate(made)
            self._app.versions.add(made)
            self._known[name] = made
        self._app.observe_by_name(config.observer, name)
        self._app.keep_checkpoints(name, Shape(State), config.checkpoint)
        return made

    def get(self, name: str) -> FactoryWorkflow:
        """Return the workflow of a factory. Raises `WorkflowNotFound`, which names near ones."""
        with self._lock:
            found = self._known.get(name)
            known = tuple(sorted(self._known))
        if found is None:
            raise UnknownWorkflow(name=str(name), known=known)
        return found

    def list(self) -> list[WorkflowInfo]:
        """Return what there is, sorted by name."""
        with self._lock:
            return sorted(each.info for each in self._known.values())


def _record_in(machine: Machine) -> dict[str, Any] | None:
    """Return what an earlier turn of the run has recorded of its graph."""
    key = f"{RECORD}#1"
    for event in machine.past or ():
        if event.kind == "note.decided" and event.key == key:
            found: dict[str, Any] = json.loads(event.payload or b"{}")
            return found
    return None
