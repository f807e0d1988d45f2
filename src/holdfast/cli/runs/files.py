"""`holdfast runs export` and `import`: a run as a file, to be looked at elsewhere."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING

import click

from holdfast.cli import options
from holdfast.cli.documents import json_text
from holdfast.cli.door import Door, found, opened
from holdfast.cli.proposing import typed
from holdfast.cli.telling import Failed, Refused
from holdfast.cli.terminal import STDERR, STDOUT
from holdfast.cli.words import count

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.engines.local import LocalEngine
    from holdfast.model.exports import Export
    from holdfast.model.run import Run


@click.command("export")
@options.run_id
@options.with_door
def export_run(door: Door, run: str) -> None:
    """Print everything of a run as JSON: its row, every event, its messages, its tags.

    Payloads are in it as they are stored. `holdfast runs import` reads it.
    """
    from holdfast.model.exports import document_of

    async def read(engine: LocalEngine) -> Export:
        return await engine.export(await found(engine, run))

    STDOUT.say(json_text(document_of(door.enter(read)), indent=1))


@click.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--as", "id", metavar="ID", help="The copy's id, if its own is taken.")
@click.option("--check", is_flag=True, help="Only replay it on the app's code; store nothing.")
@click.option(
    "--app", "app_name", envvar="HOLDFAST_APP", metavar="APP",
    help="For --check: module:app or path/file.py (or HOLDFAST_APP).",
)  # fmt: skip
@options.with_door
def import_run(
    door: Door, file: IO[str], id: str | None, check: bool, app_name: str | None
) -> None:
    """Take over a run that `holdfast runs export` wrote (- is stdin).

    Nothing of it happens by itself: a run that was open arrives paused, with the reason
    "imported"; `runs resume` lets it go on here. With --check no step runs and nothing is stored:
    exit 1 if the app's code does not lead where the history does.
    """
    export = _read(file)
    if check:
        if not app_name:
            raise click.UsageError("--check replays on your code: name it with --app APP.")
        from holdfast.cli.loading import load_app

        STDOUT.say(_replayed(load_app(app_name), export))
        return
    row = _taken(door, export, id)
    if STDOUT.is_person:
        look = STDOUT.style(row.id, fg="cyan")
        STDOUT.say(f"{STDOUT.style('✓', fg='green')} {look}  is {row.status}, {_events(export)}")
        STDOUT.next_commands([(typed("runs show", row.id), "every event")])
    else:
        STDERR.say(f"{row.id} is {row.status}, {_events(export)}")
        STDOUT.say(row.id)


def _read(file: IO[str]) -> Export:
    from holdfast.errors import InvalidExport
    from holdfast.model.dump import Dump
    from holdfast.model.exports import export_of
    from holdfast.testing.invariants import check

    try:
        document: object = json.load(file)
    except (ValueError, RecursionError) as error:
        raise InvalidExport(where=file.name, problem=f"it is no JSON ({error})") from error
    export = export_of(document)
    run, key = export.run, (export.run.ns, export.run.id)
    newest = max((event.at for event in export.events), default=0)
    broken = check(Dump(newest, (run,), {key: export.events}, {key: export.inbox}))
    if broken or not export.events:
        problem = broken[0].text if broken else "it has no event"
        raise InvalidExport(where=f"run {run.id}", problem=problem)
    return export


def _taken(door: Door, export: Export, id: str | None) -> Run:
    import asyncio

    from holdfast.errors import RunConflict
    from holdfast.model.checks import checked_id
    from holdfast.model.commands import ImportRun

    chosen = checked_id(export.run.id if id is None else id)

    async def take() -> Run:
        async with opened(door, creates=True) as engine:
            now = engine.store.now()
            row: Run = await engine.do(ImportRun(engine.ns, chosen, export, now))
            return row

    try:
        return asyncio.run(take())
    except RunConflict as error:
        raise Refused(
            f"Run {chosen!r} is here already. Give the copy another id: --as ID."
        ) from error


def _events(export: Export) -> str:
    return count(len(export.events), "event")


def _replayed(app: App, export: Export) -> str:
    """Feed the history to the code, without any effect, and say where that led."""
    from holdfast.errors import HoldfastError, UnknownWorkflow
    from holdfast.testing import replay

    run = export.run
    workflow = app.versions.of_run(run.workflow, run.version)
    if workflow is None:
        raise UnknownWorkflow(name=run.workflow, known=app.versions.claims())
    try:
        where = replay(workflow, export)
    except HoldfastError as error:
        raise Failed(str(error), code=error.code) from error
    return f"{run.id}: {_events(export)} replay on this code; it {where}"
