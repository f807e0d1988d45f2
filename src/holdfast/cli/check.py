"""`holdfast check`: is there anything in the workflows that could not be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli import options
from holdfast.cli.documents import say_json
from holdfast.cli.statuses import CYAN, GREEN, RED
from holdfast.cli.terminal import STDOUT, clean, fields
from holdfast.cli.words import count

if TYPE_CHECKING:
    from holdfast.app import App, Definition
    from holdfast.fronts.function.lint import Finding


@click.command("check")
@click.argument("app", envvar=options.APP, type=options.AppName(), metavar="APP")
@click.option("--against", metavar="URL", help="Replay the open runs of this store instead.")
@click.option("--workflow", "workflows", multiple=True, metavar="NAME",
              help="With --against: only runs of this workflow; may be given again.")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), metavar="N",
              help="With --against: the newest N runs.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Exit 1 if anything is found.")
@options.as_json
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - the options of a command, each by its name
    ctx: click.Context, app: str, against: str | None, workflows: tuple[str, ...],
    limit: int | None, strict: bool, as_json: bool,
) -> None:  # fmt: skip
    """Look through an app for what could not be replayed. APP is module:app or path/file.py.

    Exit 1 if a definition cannot be used, or with --strict if anything is found.

    With --against every open run of that store is replayed on the app's code: no step runs,
    nothing is written, no schema is migrated. Exit 1 if a run would not go on; with --strict also
    if there are runs of workflows that the app does not have.
    """
    from holdfast.cli.loading import load_app
    from holdfast.fronts.function.lint import findings

    loaded = load_app(app)
    if against is not None:
        from holdfast.cli.against import check_against

        ctx.exit(check_against(loaded, against, workflows, limit, strict=strict, as_json=as_json))
    if workflows or limit is not None:
        raise click.UsageError(
            "--workflow and --limit choose runs: name their store, --against URL."
        )
    errors = _errors(loaded)
    found = [one for workflow in loaded.workflows.values() for one in findings(workflow)]
    if as_json:
        say_json({"errors": errors, "findings": [one._asdict() for one in found]})
    elif STDOUT.is_person:
        _say(loaded, errors, found)
    else:
        for error in errors:
            STDOUT.say(fields("error", error))
        for one in found:
            STDOUT.say(fields("finding", one.workflow, one.rule, f"{one.file}:{one.line}",
                              one.function, one.what, one.why, one.instead))  # fmt: skip
    ctx.exit(1 if errors or (strict and found) else 0)


def _errors(app: App) -> list[str]:
    """Return why definitions cannot be used: annotations that cannot be stored, and the like."""
    from holdfast.errors import HoldfastError

    errors: list[str] = []
    definitions: list[Definition] = [*app.versions, *app.steps.values()]
    for definition in definitions:
        try:
            _ = definition.signature
        except HoldfastError as error:
            errors.append(str(error))
    return errors


def _say(app: App, errors: list[str], found: list[Finding]) -> None:
    for error in errors:
        STDOUT.say(f"{STDOUT.style('✗', **RED)} {clean(error)}")
    for one in found:
        STDOUT.say(f"{STDOUT.style(f'{one.file}:{one.line}', **CYAN)}  {clean(one.what)} in "
                   f"{one.function}, workflow {clean(one.workflow)}")  # fmt: skip
        STDOUT.say(f"    {one.why}. Write {one.instead}.")
        STDOUT.say(STDOUT.dim(f"    if it must be so: # holdfast: allow({one.rule})"))
    if not errors and not found:
        told = f"{count(len(app.workflows), 'workflow')}, nothing found"
        STDOUT.say(f"{STDOUT.style('✓', **GREEN)} {app.name}: {told}")
