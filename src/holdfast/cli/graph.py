"""`holdfast graph`: a graph of an app as a picture, with the way of a run on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from holdfast.cli import completing, options
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door, found
from holdfast.cli.strict_json import parse
from holdfast.cli.telling import Refused
from holdfast.cli.terminal import STDOUT
from holdfast.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.app import App
    from holdfast.engines.local import LocalEngine
    from holdfast.factories import FactoryWorkflow
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
@click.option("--params", metavar="JSON", default="{}",
              help="Of a factory without --run: draw the graph for these parameters.")  # fmt: skip
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
    door: Door, name: str, app: str, run: str | None, params: str, form: Form,
    theme: Literal["auto", "light", "dark"], out: Path | None,
) -> None:  # fmt: skip
    """Draw a graph of an app. With --run, show what a run visited, and where it is.

    NAME is that of a graph or of a factory, which draws one for the parameters of a run.

    RUN is an id, a unique prefix of one, @last or @failed.
    """
    from holdfast.cli.loading import load_app

    given = _named(load_app(app), name)
    events = _way_of(door, run, name) if run else None
    graph = _drawn(given, events, params)
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
    graph = _drawn(_named(load_app(app), loaded.run.workflow), loaded.events, "{}")
    if as_json:
        say_json(_document(graph, loaded.events))
    else:
        STDOUT.say(graph.text(loaded.events).rstrip("\n"))


def _named(app: App, name: str) -> StateGraph[Any] | FactoryWorkflow:
    known: dict[str, StateGraph[Any] | FactoryWorkflow] = {each.name: each for each in app.graphs}
    known |= {info.name: app.factories.get(info.name) for info in app.factories.list()}
    if name in known:
        return known[name]
    near = nearest(name, known)
    meant = f" Did you mean {near!r}?" if near else ""
    listed = ", ".join(sorted(known)) or "none"
    raise Refused(f"No graph {name!r} in this app.{meant} There are: {listed}.")


def _way_of(door: Door, run: str, name: str) -> Sequence[Event]:
    loaded = _loaded(door, run)
    if loaded.run.workflow != name:
        raise Refused(
            f"Run {loaded.run.id} is of {loaded.run.workflow!r}, not of {name!r}. "
            f"Name the graph it walks, or another run."
        )
    return loaded.events


def _drawn(
    given: StateGraph[Any] | FactoryWorkflow, events: Sequence[Event] | None, params: str
) -> StateGraph[Any]:
    """Return the graph to draw: of a factory that of the run, or for these parameters."""
    from holdfast.factories import FactoryWorkflow

    if not isinstance(given, FactoryWorkflow):
        return given
    if events is not None:
        return given.graph_of(events[0])
    read = _params(params)
    try:
        return given.drawn(read)[0]
    except Exception as error:
        raise Refused(
            f"Factory {given.name!r} draws nothing for {params}: {type(error).__name__}: {error}. "
            f"Give the parameters it needs with --params, or a run of it with --run."
        ) from error


def _params(text: str) -> dict[str, Any]:
    try:
        read = parse(text, where="--params")
    except json.JSONDecodeError:
        read = None
    if not isinstance(read, dict):
        raise Refused(f"--params {text!r:.60} is no JSON object. Write '{{\"paper\": 7}}'.")
    return cast("dict[str, Any]", read)


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
