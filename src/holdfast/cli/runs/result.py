"""`holdfast runs result`."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli import options
from holdfast.cli.documents import say_json, value_of
from holdfast.cli.door import Door, found
from holdfast.cli.proposing import typed
from holdfast.cli.telling import Refused
from holdfast.cli.waiting import closing
from holdfast.model.events import Event


@click.command("result")
@options.run_id
@click.option("--wait", "waits", is_flag=True, help="Wait until the run has ended.")
@options.with_door
def command(door: Door, run: str, waits: bool) -> None:
    """Print what a run returned, as JSON. Exit 1 if it failed."""

    async def read(engine: Any) -> tuple[str, Event]:
        id = await found(engine, run)
        if not waits:
            row = (await engine.load(id, 1 << 62)).run
            if row.closed_at is None:
                raise Refused(
                    f"Run {id!r} is {row.status} and has no result yet. Wait for it with --wait; "
                    f"`{typed('runs why', id)}` says what it waits for."
                )
        return id, await closing(engine, id)

    say_result(*door.enter(read))


def say_result(run: str, event: Event) -> None:
    """Print the value the run ended with. Raises `RunFailed` if there is none."""
    if event.kind != "run.completed":
        raise _failure(run, event)
    say_json(value_of(event.payload))


def _failure(run: str, event: Event) -> Exception:
    from holdfast.client import FAILURES
    from holdfast.errors import RunFailed
    from holdfast.model.failures import decode_failure

    failure = decode_failure(event.payload)
    made = FAILURES.get(event.kind, RunFailed)
    return made(run=run, type=failure.type, message=failure.message, details=failure.details)
