"""The verbs that talk to a run and print what it says: query, update."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import options
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door, found, handle, opened
from holdfast.cli.options import APP, AppName
from holdfast.cli.proposing import typed
from holdfast.cli.strict_json import parse
from holdfast.cli.terminal import STDERR
from holdfast.errors import InvalidValue

if TYPE_CHECKING:
    from holdfast.talking import Wait

NUMBERS = {"ignore_unknown_options": True}
"""Lets -1 through: it is JSON, not an option."""
PATIENCE = 3.0
"""Seconds after which a person is told that an update is not done."""


@click.command("query", context_settings=NUMBERS)
@options.run_id
@click.argument("name")
@click.argument("argument", default="null", metavar="[JSON]")
@click.option(
    "--app", "app_name", envvar=APP, required=True, type=AppName(), metavar="APP",
    help="module:app or path/file.py (or HOLDFAST_APP).",
)  # fmt: skip
@options.with_url
def query(url: str, run: str, name: str, argument: str, app_name: str) -> None:
    """Ask a run the query NAME, and print the answer as JSON.

    Its history is replayed here, without effects, so the code is needed; a worker is not.
    """
    import asyncio

    from holdfast.cli.loading import load_app

    value = value_of(argument, where=f"query {name}")
    app = load_app(app_name)

    async def ask() -> Any:
        from holdfast.client import RunHandle

        async with opened(Door(url, app.namespace)) as engine:
            target: RunHandle[Any] = RunHandle(engine, await found(engine, run), app=app)
            return await target.query(name, value)

    say_json(asyncio.run(ask()))


@click.command("update", context_settings=NUMBERS)
@options.run_id
@click.argument("name")
@click.argument("argument", default="null", metavar="[JSON]")
@click.option("--id", "id", metavar="ID", help="Makes a repeat harmless: one update for each id.")
@click.option("--accepted", "accepts", is_flag=True, help="Do not wait for the result.")
@options.with_door
def update(door: Door, run: str, name: str, argument: str, id: str | None, accepts: bool) -> None:
    """Have a run carry out the update NAME, and print the result as JSON.

    With --accepted, its id is printed as soon as the run has accepted it. Exit 1 if the run
    refuses it, or its handler fails.
    """
    value = value_of(argument, where=f"update {name}")

    async def act(engine: Any) -> Any:
        target = await handle(engine, run)
        wait: Wait = "accepted" if accepts else "completed"
        why = typed("runs why", target.id)
        with _patience(f"update {name} is not done yet; `{why}` says more"):
            said = await target.update(name, value, id=id, wait=wait)
        return said.id if accepts else said

    said = door.enter(act)
    if accepts:
        STDERR.say(f"update {name} is accepted")
    say_json(said)


@contextmanager
def _patience(told: str) -> Generator[None]:
    """Say what is waited for, if that takes a while: nobody may take the update at all."""
    import asyncio

    call = asyncio.get_running_loop().call_later(PATIENCE, STDERR.say, told)
    try:
        yield
    finally:
        call.cancel()


def value_of(text: str, *, where: str) -> Any:
    """Return the value a person typed as JSON. Raises `InvalidValue`."""
    try:
        return parse(text, where=where)
    except json.JSONDecodeError as error:
        raise InvalidValue(
            where=where, path="JSON", problem=f"{text!r:.60} is no JSON ({error})",
            hint="Quote a text: '\"yes\"'.",
        ) from error  # fmt: skip
