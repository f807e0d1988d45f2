"""What runs of graphs did, in the words of graphs: a stream that anybody may take up anywhere."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from holdfast.engines.local import LocalEngine
from holdfast.errors import BadDefinition, UnknownWorkflow
from holdfast.factories import FactoryWorkflow
from holdfast.fronts.graph.view import View, place_of
from holdfast.graphs import GraphWorkflow
from holdfast.machine.machine import Body
from holdfast.model.events import BEGINNINGS, Event
from holdfast.model.executed import ExecutionEvent
from holdfast.model.run import Run

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.client import Client


async def graph_events(
    client: Client, run: str, *, after: int | str = 0, snapshots: bool = True
) -> AsyncGenerator[ExecutionEvent, None]:
    """Yield what a run of a graph did, and does, until it is closed: each only when it is stored.

    All of it follows from the run's history, so every reader gets the same, whenever and wherever.
    A reader that was cut off gives the `id` of the last event it has as `after`, or a `seq`, for
    all that later events of the history led to. Without `snapshots` the events leave out the state.
    Raises `RunNotFound`, `BadDefinition` if the run is of no graph, and what would block the run.
    """
    place, engine = place_of(after), client.engine
    row = await client.get(run).describe()
    history: list[Event] = []
    first = (await engine.load(run)).events[0]
    with view_of(client.app, row, first, snapshots=snapshots) as view:
        async with aclosing(engine.growth(run, 0)) as growth:
            async for loaded in growth:
                history = await _grown(engine, run, history, loaded.events, loaded.run.seq)
                for event in view.read(history):
                    if event.place > place:
                        yield event


def view_of(app: App, row: Run, first: Event, *, snapshots: bool = True) -> View:
    """Return a view of a run of a graph, which began with `first`.

    Raises `UnknownWorkflow` or `BadDefinition`.
    """
    workflow = walked_by(app, row)
    if isinstance(workflow, FactoryWorkflow):
        graph = workflow.blueprint_of(first)
    else:
        graph = workflow.graph.freeze().blueprint
    body: Body = workflow.function
    return View(graph, body, workflow.signature, ns=row.ns, run=row.id, snapshots=snapshots)


def walked_by(app: App, row: Run) -> FactoryWorkflow | GraphWorkflow[Any]:
    """Return the workflow of a run of a graph. Raises `UnknownWorkflow` or `BadDefinition`."""
    workflow = app.versions.of_run(row.workflow, row.version)
    if workflow is None:
        raise UnknownWorkflow(name=row.workflow, known=tuple(sorted(app.workflows)))
    if isinstance(workflow, FactoryWorkflow | GraphWorkflow):
        found: FactoryWorkflow | GraphWorkflow[Any] = workflow
        return found
    raise BadDefinition(
        what=f"Run {row.id!r} is of {row.workflow!r}, which is no graph",
        hint="Read its events by run.events(), or name a run of an app.graph(...).",
    )


async def _grown(
    engine: LocalEngine, run: str, known: list[Event], new: tuple[Event, ...], seq: int
) -> list[Event]:
    """Return the whole history: what is known with the new events, or all of it read again."""
    is_simple = len(known) + len(new) == seq
    if is_simple and not any(event.kind in BEGINNINGS for event in new):
        known.extend(new)
        return known
    # Something no longer counts, and what it was told of stays told.
    return [*(await engine.export(run)).events]
