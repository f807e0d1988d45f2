"""The verbs that steer a run: signal, cancel, terminate, retry, pause, resume."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import click

from holdfast.cli import options
from holdfast.cli.door import Door, handle
from holdfast.cli.strict_json import parse
from holdfast.cli.terminal import STDERR, STDOUT
from holdfast.errors import InvalidValue

Act = Callable[[Any], Awaitable[str]]


@click.command("signal")
@options.run_id
@click.argument("name")
@click.option("-d", "--data", default="null", metavar="JSON", help="What the signal carries.")
@click.option("--id", "id", metavar="ID", help="Makes a repeat harmless: one signal for each id.")
@options.with_door
def signal(door: Door, run: str, name: str, data: str, id: str | None) -> None:
    """Send the signal NAME to a run; return once it is stored."""
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

    do(door, run, act)


@click.command("cancel")
@options.run_id
@options.reason
@options.with_door
def cancel(door: Door, run: str, reason: str) -> None:
    """Ask a run to stop; its body may clean up."""

    async def act(target: Any) -> str:
        is_first = await target.cancel(reason)
        return "is asked to stop" if is_first else "was asked to stop already"

    do(door, run, act)


@click.command("terminate")
@options.run_id
@options.reason
@options.with_door
def terminate(door: Door, run: str, reason: str) -> None:
    """End a run now; nothing of its body runs any more, no clean-up either."""

    async def act(target: Any) -> str:
        await target.terminate(reason)
        return "is terminated"

    do(door, run, act)


@click.command("retry")
@options.run_id
@options.reason
@options.with_door
def retry(door: Door, run: str, reason: str) -> None:
    """Let a failed, blocked or quarantined run try again; what it has recorded is kept."""

    async def act(target: Any) -> str:
        await target.retry(reason)
        return "tries again"

    do(door, run, act)


@click.command("pause")
@options.run_id
@options.reason
@options.with_door
def pause(door: Door, run: str, reason: str) -> None:
    """Have a run start no more steps; those that run finish and are recorded."""

    async def act(target: Any) -> str:
        await target.pause(reason)
        return "is asked to pause"

    do(door, run, act)


@click.command("resume")
@options.run_id
@options.with_door
def resume(door: Door, run: str) -> None:
    """Let a paused run go on."""

    async def act(target: Any) -> str:
        await target.resume()
        return "goes on"

    do(door, run, act)


def do(door: Door, run: str, act: Act) -> None:
    """Do it, say so on stderr, and print the run's id for whoever pipes it on."""

    async def work(engine: Any) -> tuple[str, str]:
        target = await handle(engine, run)
        return target.id, await act(target)

    id, outcome = door.enter(work)
    if STDOUT.is_person:
        STDOUT.say(f"{STDOUT.style('✓', fg='green')} {STDOUT.style(id, fg='cyan')}  {outcome}")
        STDOUT.next_commands([(f"holdfast runs watch {id}", "")])
    else:
        STDERR.say(f"{id} {outcome}")
        STDOUT.say(id)
