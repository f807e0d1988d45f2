"""`holdfast graph`: a graph of an app as a picture, with the way of a run on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from holdfast.cli import completing, options
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door, found
from holdfast.cli.telling import Refused
from holdfast.cli.terminal import STDOUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.app import App
    from holdfast.engines.local import LocalEngine
    from holdfast.graphs import StateGraph
    from holdfast.model.events import Event
    from holdfast.model.run import Loaded

Form = Literal["text", "svg", "mermaid", "json"]


@click.command("graph")
@click.argument("name", metavar="NAME", shell_complete=completing.workflows)
@click.option("--app", envvar=options.APP, required=True, type=options.AppName(), metavar="APP",
              help="The app (or HOLDFAST_APP).")  # fmt: skip
@click.option("--run", metavar="RUN", shell_complete=completing.runs,
              help="Draw the way of this run on it.")  # fmt: skip
@click.option("--text", "form", flag_value="text", default="text", help="As text (the default).")
@click.option("--svg", "form", flag_value="svg", help="As SVG.")
@click.option("--mermaid", "form", flag_value="mermaid", help="As a Mermaid flowchart.")
@click.option("--json", "form", flag_value="json", help="Print JSON and nothing else.")
@click.option("--theme", type=click.Choice(["auto", "light", "dark"]), default="auto",
              show_default=True, help="With --svg: for which pages.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write it there.")  # fmt: skip
@options.with_door
def command(  # noqa: PLR0913, PLR0917 - the options of a command, each by its name
    door: Door, name: str, app: str, run: str | None, form: Form,
    theme: Literal["auto", "light", "dark"], out: Path | None,
) -> None:  # fmt: skip
    """Draw a graph of an app. With --run, show what a run visited, and where it is.

    RUN is an id, a unique prefix of one, @last or @failed.
    """
    from holdfast.cli.loading import load_app

    graph = _named(load_app(app), name)
    events = _way_of(door, run, graph) if run else None
    if form == "json":
        say_json(_document(graph, events))
        return
    if form == "text":
        drawn = graph.text(events)
    else:
        drawn = graph.svg(events, theme=theme) if form == "svg" else graph.mermaid(events)
    if out is None:
        STDOUT.say(drawn.rstrip("\n"))
    else:
        out.write_text(drawn, encoding="utf-8")


def show_way(door: Door, run: str, app: str | None, *, as_json: bool) -> None:
    """Print the graph of a run, with its way on it."""
    from holdfast.cli.loading import load_app

    if app is None:
        raise Refused(f"A picture needs the code of its graph. {options.AppName.HOW}")
    loaded = _loaded(door, run)
    graph = _named(load_app(app), loaded.run.workflow)
    if as_json:
        say_json(_document(graph, loaded.events))
    else:
        STDOUT.say(graph.text(loaded.events).rstrip("\n"))


def _named(app: App, name: str) -> StateGraph[Any]:
    for graph in app.graphs:
        if graph.name == name:
            return graph
    listed = ", ".join(sorted(graph.name for graph in app.graphs)) or "none"
    raise Refused(f"No graph {name!r} in this app. There are: {listed}.")


def _way_of(door: Door, run: str, graph: StateGraph[Any]) -> Sequence[Event]:
    loaded = _loaded(door, run)
    if loaded.run.workflow != graph.name:
        raise Refused(
            f"Run {loaded.run.id} is of {loaded.run.workflow!r}, not of {graph.name!r}. "
            f"Name the graph it walks, or another run."
        )
    return loaded.events


def _loaded(door: Door, run: str) -> Loaded:
    async def read(engine: LocalEngine) -> Loaded:
        return await engine.load(await found(engine, run))

    return door.enter(read)


def _document(graph: StateGraph[Any], events: Sequence[Event] | None) -> dict[str, Any]:
    from dataclasses import asdict

    from holdfast.fronts.graph.scene import scene_of
    from holdfast.fronts.graph.trail import trail_of

    trail = None if events is None else trail_of(graph.blueprint, events)
    return {**asdict(scene_of(graph.blueprint, trail)), "problems": graph.validate()}
