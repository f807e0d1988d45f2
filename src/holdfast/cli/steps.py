"""`holdfast steps`: complete a step from outside; see and forget what is kept of steps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import options
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door
from holdfast.cli.statuses import CYAN, DIM
from holdfast.cli.strict_json import parse
from holdfast.cli.terminal import STDERR, STDOUT, Cell, Column, clean, fields, table
from holdfast.cli.words import count, iso, moment
from holdfast.errors import InvalidValue

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine
    from holdfast.model.cache import CachedStep

COLUMNS = (
    Column("step"), Column("version"), Column("results", right=True),
    Column("expired", right=True), Column("bytes", right=True), Column("newest"),
)  # fmt: skip

by_whom = click.option("--by", default="", metavar="NAME", help="Who completes it.")


@click.group()
def command() -> None:
    """Complete a step from outside, or let it fail; see and forget cached results.

    TOKEN is what hf.completion_token() gave in the step; `holdfast runs why RUN` shows it, too.
    """


@command.command("complete")
@click.argument("token")
@click.argument("value", metavar="JSON", default="null")
@by_whom
@options.with_door
def complete(door: Door, token: str, value: str, by: str) -> None:
    """Give the result of a step that completes later."""
    try:
        parsed = parse(value, where="result")
    except json.JSONDecodeError as error:
        raise InvalidValue(
            where="result", path="JSON", problem=f"{value!r:.60} is no JSON ({error})",
            hint="Quote a text: '\"done\"'.",
        ) from error  # fmt: skip
    _do(door, token, json.dumps(parsed, ensure_ascii=False).encode(), by, "is complete")


@command.command("fail")
@click.argument("token")
@click.argument("type")
@click.argument("message", default="")
@click.option("--no-retry", is_flag=True, help="Do not try again, whatever the step says.")
@by_whom
@options.with_door
def fail(door: Door, token: str, type: str, message: str, no_retry: bool, by: str) -> None:
    """Let an attempt of a step fail with an error named TYPE."""
    from holdfast.model.checks import checked_reason
    from holdfast.model.waits import failed
    from holdfast.talking import checked_type

    told = failed(checked_type(type), checked_reason(message, "fail"), retry=not no_retry)
    _do(door, token, told, by, "has failed")


@command.command("cached")
@click.argument("step", default="")
@options.as_json
@options.with_door
def cached(door: Door, step: str, as_json: bool) -> None:
    """List the steps of which results are kept for later calls, or one of them."""
    kept = door.enter(lambda engine: _kept(engine, step, ""))
    if as_json:
        say_json({"steps": [_document(each) for each in kept]})
    elif not STDOUT.is_person:
        for each in kept:
            STDOUT.say(fields(*_document(each).values()))
    elif not kept:
        STDOUT.say(STDOUT.dim("No results are kept. A step keeps them with cache=hf.Cache(...)."))
    else:
        for line in table(COLUMNS, [_row(each) for each in kept]):
            STDOUT.say(line)


@command.command("forget")
@click.argument("step")
@click.option("--key", default="", metavar="KEY", help="Only what is kept under this key.")
@click.option("--dry-run", is_flag=True, help="Say how many results there are; forget none.")
@options.as_json
@options.with_door
def forget(door: Door, step: str, key: str, dry_run: bool, as_json: bool) -> None:
    """Forget the cached results of a step, so that its next calls run."""

    async def act(engine: LocalEngine) -> int:
        from holdfast.caching import StepCache

        if dry_run:
            return sum(each.results for each in await _kept(engine, step, key))
        return await StepCache(engine).forget(step, key=key)

    results = door.enter(act)
    if as_json:
        say_json({"step": step, "key": key, "results": results, "forgotten": not dry_run})
        return
    told = "would be" if dry_run else "was" if results == 1 else "were"
    STDERR.say(f"{count(results, 'result')} of {clean(step)} {told} forgotten")
    STDOUT.say(str(results))


async def _kept(engine: LocalEngine, step: str, key: str) -> tuple[CachedStep, ...]:
    from holdfast.caching import StepCache

    return await StepCache(engine).list(step, key=key)


def _document(kept: CachedStep) -> dict[str, Any]:
    return {
        "step": kept.step, "version": kept.version, "results": kept.results,
        "expired": kept.expired, "bytes": kept.bytes, "first_at": iso(kept.first_at),
        "last_at": iso(kept.last_at),
    }  # fmt: skip


def _row(kept: CachedStep) -> list[Cell]:
    return [
        Cell(kept.step, CYAN), Cell(kept.version or "-", DIM), Cell(f"{kept.results:,}"),
        Cell(f"{kept.expired:,}", DIM), Cell(f"{kept.bytes:,}", DIM), Cell(moment(kept.last_at)),
    ]  # fmt: skip


def _do(door: Door, token: str, outcome: bytes, by: str, told: str) -> None:
    from holdfast.engines.local.answering import complete as settle
    from holdfast.model.waits import token_of

    named = token_of(token)

    async def act(engine: LocalEngine) -> bool:
        return await settle(engine, token, outcome, by)

    is_new = door.enter(act)
    STDERR.say(f"{named.key} of {named.run} {told if is_new else 'was settled so already'}")
    STDOUT.say(named.run)
