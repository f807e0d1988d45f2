"""`holdfast runs secret`: give a run a secret that it lacks, never as an argument."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from holdfast.cli import options
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door, handle
from holdfast.cli.telling import Refused
from holdfast.cli.terminal import STDOUT


@click.command("secret")
@options.run_id
@click.argument("name")
@click.option(
    "--from-env", "variable", metavar="VARIABLE", help="Take it from this variable, not from stdin."
)
@options.as_json
@options.with_door
def command(door: Door, run: str, name: str, variable: str | None, as_json: bool) -> None:
    """Give a run the secret NAME, so that the steps that wait for it go on.

    It is read from stdin, or asked for, and stored encrypted with the keys in HOLDFAST_KEYS. It is
    no argument: those can be seen in the list of processes.
    """
    from holdfast.compose import keys_of
    from holdfast.model.secrets import Secret

    secret = Secret(_given(name, variable))

    async def act(engine: Any) -> str:
        engine.vault.keys = keys_of()
        target = await handle(engine, run)
        await target.supply_secret(name, secret)
        return target.id

    id = door.enter(act)
    if as_json:
        say_json({"id": id, "secret": name})
    else:
        STDOUT.say(f"secret {name} is given to run {id}")


def _given(name: str, variable: str | None) -> str:
    if variable is not None:
        text = os.environ.get(variable, "")
    elif sys.stdin.isatty():
        text = str(click.prompt(name, hide_input=True, err=True))
    else:
        text = sys.stdin.read().removesuffix("\n")
    if not text:
        place = f"The variable {variable}" if variable is not None else "stdin"
        raise Refused(f"{place} holds no secret. Write it there.")
    return text
