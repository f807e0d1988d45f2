"""`holdfast steps`: give the outcome of a step that completes later, by its token."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from holdfast.cli import options
from holdfast.cli.door import Door
from holdfast.cli.strict_json import parse
from holdfast.cli.terminal import STDERR, STDOUT
from holdfast.errors import InvalidValue

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine

by_whom = click.option("--by", default="", metavar="NAME", help="Who completes it.")


@click.group()
def command() -> None:
    """Complete a step from outside, or let it fail.

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


def _do(door: Door, token: str, outcome: bytes, by: str, told: str) -> None:
    from holdfast.engines.local.answering import complete as settle
    from holdfast.model.waits import token_of

    named = token_of(token)

    async def act(engine: LocalEngine) -> bool:
        return await settle(engine, token, outcome, by)

    is_new = door.enter(act)
    STDERR.say(f"{named.key} of {named.run} {told if is_new else 'was settled so already'}")
    STDOUT.say(named.run)
