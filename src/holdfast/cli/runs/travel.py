"""Time travel: `holdfast runs rerun`, `fork`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from holdfast.cli import completing, options
from holdfast.cli.door import Door, found
from holdfast.cli.proposing import typed
from holdfast.cli.runs.verbs import do
from holdfast.cli.strict_json import parse
from holdfast.cli.terminal import STDERR, STDOUT, clean
from holdfast.errors import InvalidValue

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine
    from holdfast.model.run import Run

LISTED = 5
"""How many keys are named of those that run again."""


@click.command("rerun")
@options.run_id
@click.option("--from", "key", metavar="KEY", shell_complete=completing.keys,
              help="The step to go back to, such as charge#2; else the start.")  # fmt: skip
@click.option("--keep-keys", is_flag=True, help="Let its steps keep their idempotency keys.")
@click.option("--id", "id", metavar="ID", help="Makes a repeat harmless: one rerun for each id.")
@options.reason
@options.with_door
def rerun(
    door: Door, run: str, key: str | None, keep_keys: bool, id: str | None, reason: str
) -> None:
    """Take a run back to one of its steps, or to its start; it goes on anew from there.

    Works on open and closed runs. What was asked for later no longer counts; nothing is deleted.
    """

    async def act(target: Any) -> str:
        gone = await target.rerun(key, keep_keys=keep_keys, reason=reason, id=id)
        more = "" if len(gone) <= LISTED else f" and {len(gone) - LISTED} more"
        told = f" without {clean(', '.join(gone[:LISTED]))}{more}" if gone else ""
        return f"goes on from {clean(key) if key else 'its start'}{told}"

    do(door, run, act)


@click.command("fork")
@options.run_id
@click.option("--at", "at", metavar="POINT", shell_complete=completing.keys,
              help="The last event to share: its number, or the key of a step.")  # fmt: skip
@click.option("--id", "id", metavar="ID", help="The id of the fork, its idempotency key.")
@click.option("--set", "results", multiple=True, metavar="KEY=JSON",
              help="What a step gave, in the fork's history; may be repeated.")  # fmt: skip
@click.option("--input", "input", metavar="JSON", help="Parameters to change; begins at the start.")
@options.reason
@options.with_door
def fork(door: Door, run: str, at: str | None, id: str | None, **edits: Any) -> None:
    """Start a run that shares another's history up to a point, and goes its own way from there.

    The other run is untouched. Without --at the fork leaves it at the last result that is set, or
    at its end.
    """
    point = int(at) if at is not None and at.isdecimal() else at
    edited, input, reason = _results(edits["results"]), edits["input"], edits["reason"]

    async def work(engine: LocalEngine) -> tuple[str, Run]:
        from holdfast.engines.local.travel import Edits
        from holdfast.engines.local.travel import fork as share
        from holdfast.model.checks import checked_id, checked_reason
        from holdfast.talking import new_id

        origin, told = await found(engine, run), checked_reason(reason, "fork")
        chosen = new_id(engine.store.now()) if id is None else checked_id(id)
        given = None if input is None else await _input(engine, origin, input)
        row = await share(engine, origin, chosen, point, Edits(edited, given), told)
        return origin, row

    origin, row = door.enter(work)
    outcome = f"shares {row.seq - 1} of the events of {clean(origin)}" if input is None else (
        f"begins as {clean(origin)} did, with another input"
    )  # fmt: skip
    if STDOUT.is_person:
        look = STDOUT.style(row.id, fg="cyan")
        STDOUT.say(f"{STDOUT.style('✓', fg='green')} {look}  {outcome}")
        STDOUT.next_commands([(typed("runs watch", row.id), "")])
    else:
        STDERR.say(f"{row.id} {outcome}")
        STDOUT.say(row.id)


def _results(given: Sequence[str]) -> dict[str, bytes]:
    """Return what `--set` says, by key. Raises `InvalidValue`."""
    found: dict[str, bytes] = {}
    for each in given:
        key, equals, text = each.partition("=")
        if not equals or not key:
            hint = "Write --set 'charge#2=4900'."
            problem = f"{each!r:.60} has no key and value"
            raise InvalidValue(where="fork", path="--set", problem=problem, hint=hint)
        found[key] = _encoded(_parsed(text, f"result of {key}", "--set"))
    return found


async def _input(engine: LocalEngine, origin: str, text: str) -> bytes:
    """Return the run's input with some parameters changed. Raises `InvalidValue`."""
    changes = _parsed(text, "fork", "--input")
    first = (await engine.load(origin)).events[0]
    known: dict[str, Any] = json.loads(first.payload or b"{}")
    hint = f"Give an object of parameters to change, of: {', '.join(known) or 'none'}."
    if not isinstance(changes, dict):
        problem = f"{text!r:.60} is no JSON object"
        raise InvalidValue(where="fork", path="--input", problem=problem, hint=hint)
    changed = cast("dict[str, Any]", changes)
    unknown = sorted(changed.keys() - known.keys())
    if unknown:
        problem = f"{unknown[0]!r:.60} is no parameter that the run was started with"
        raise InvalidValue(where="fork", path="--input", problem=problem, hint=hint)
    return _encoded({**known, **changed})


def _parsed(text: str, where: str, path: str) -> Any:
    try:
        return parse(text, where=where)
    except json.JSONDecodeError as error:
        raise InvalidValue(
            where=where, path=path, problem=f"{text!r:.60} is no JSON ({error})",
            hint="Quote a text: '\"yes\"'.",
        ) from error  # fmt: skip


def _encoded(value: object) -> bytes:
    from holdfast.machine.values import Schema

    return Schema[Any](object).cross(value, where="value")[0]
