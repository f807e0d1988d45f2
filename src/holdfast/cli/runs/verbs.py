"""The verbs that steer a run, or all runs that a filter finds: signal, cancel, retry and so on."""

from __future__ import annotations

import json
from typing import Any

import click

from holdfast.cli import options
from holdfast.cli.door import Door, handle
from holdfast.cli.proposing import typed
from holdfast.cli.runs import bulk
from holdfast.cli.runs.bulk import Act, Many
from holdfast.cli.strict_json import parse
from holdfast.cli.terminal import STDERR, STDOUT
from holdfast.errors import InvalidValue


@click.command("signal")
@bulk.with_many
@click.argument("name", required=False)
@click.option("-d", "--data", default="null", metavar="JSON", help="What the signal carries.")
@click.option("--id", "id", metavar="ID", help="Makes a repeat harmless: one signal for each id.")
@options.with_door
def signal(door: Door, run: str | None, many: Many, name: str | None, **sent: Any) -> None:
    """Send the signal NAME to a run; return once it is stored."""
    if many.filter is not None and name is None:
        run, name = None, run  # only one word is left, if a filter names the runs
    if name is None:
        raise click.UsageError("Missing argument 'NAME'.")
    data, id = sent["data"], sent["id"]
    try:
        value = parse(data, where=f"signal {name}")
    except json.JSONDecodeError as error:
        raise InvalidValue(
            where=f"signal {name}", path="-d", problem=f"{data!r:.60} is no JSON ({error})",
            hint="Quote a text: -d '\"yes\"'.",
        ) from error  # fmt: skip

    async def act(target: Any) -> str:
        is_new = await target.signal(name, value, id=id)
        return f"signal {name} is stored" if is_new else f"signal {name} was there already"

    do_many(door, "signal", run, act, many)


@click.command("cancel")
@bulk.with_many
@options.reason
@options.with_door
def cancel(door: Door, run: str | None, many: Many, reason: str) -> None:
    """Ask a run to stop; its body may clean up."""

    async def act(target: Any) -> str:
        is_first = await target.cancel(reason)
        return "is asked to stop" if is_first else "was asked to stop already"

    do_many(door, "cancel", run, act, many)


@click.command("terminate")
@bulk.with_many
@options.reason
@options.with_door
def terminate(door: Door, run: str | None, many: Many, reason: str) -> None:
    """End a run now; nothing of its body runs any more, no clean-up either."""

    async def act(target: Any) -> str:
        await target.terminate(reason)
        return "is terminated"

    do_many(door, "terminate", run, act, many)


@click.command("retry")
@bulk.with_many
@options.reason
@options.with_door
def retry(door: Door, run: str | None, many: Many, reason: str) -> None:
    """Let a failed, blocked or quarantined run try again; what it has recorded is kept."""

    async def act(target: Any) -> str:
        await target.retry(reason)
        return "tries again"

    do_many(door, "retry", run, act, many)


@click.command("pause")
@bulk.with_many
@options.reason
@options.with_door
def pause(door: Door, run: str | None, many: Many, reason: str) -> None:
    """Have a run start no more steps; those that run finish and are recorded."""

    async def act(target: Any) -> str:
        await target.pause(reason)
        return "is asked to pause"

    do_many(door, "pause", run, act, many)


@click.command("resume")
@bulk.with_many
@options.with_door
def resume(door: Door, run: str | None, many: Many) -> None:
    """Let a paused run go on."""

    async def act(target: Any) -> str:
        await target.resume()
        return "goes on"

    do_many(door, "resume", run, act, many)


def do_many(door: Door, verb: str, run: str | None, act: Act, many: Many) -> None:
    """Do it for one run, or for all that a filter finds."""
    if many.filter is not None:
        if run is not None:
            raise click.UsageError("Name a run, or give a --filter, not both.")
        bulk.carry_out(door, verb, act, many)
    elif run is None:
        raise click.UsageError("Name a run, or give a --filter such as 'status:failed since:1h'.")
    elif many != Many():
        raise click.UsageError("--dry-run, --yes, --limit and --json go with --filter.")
    else:
        do(door, run, act)


def do(door: Door, run: str, act: Act) -> None:
    """Do it, say so on stderr, and print the run's id for whoever pipes it on."""

    async def work(engine: Any) -> tuple[str, str]:
        target = await handle(engine, run)
        return target.id, await act(target)

    id, outcome = door.enter(work)
    if STDOUT.is_person:
        STDOUT.say(f"{STDOUT.style('✓', fg='green')} {STDOUT.style(id, fg='cyan')}  {outcome}")
        STDOUT.next_commands([(typed("runs watch", id), "")])
    else:
        STDERR.say(f"{id} {outcome}")
        STDOUT.say(id)
