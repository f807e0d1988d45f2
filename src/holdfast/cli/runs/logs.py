"""`holdfast runs logs`."""

from __future__ import annotations

import logging
from typing import Any

import click

from holdfast.cli import options
from holdfast.cli.documents import fields_of, say_json_line
from holdfast.cli.door import Door, handle
from holdfast.cli.statuses import BLUE, DIM, RED, YELLOW, Style
from holdfast.cli.terminal import STDOUT, clean, fields, padded
from holdfast.cli.words import clock, iso
from holdfast.model.annotations import LogLine


@click.command("logs")
@options.run_id
@click.option("--step", default="", metavar="STEP", help="Only this step: a key or a name.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only this attempt.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run has ended.")
@click.option("--json", "as_json", is_flag=True, help="Print each line as JSON.")
@options.with_door
def command(
    door: Door, run: str, step: str, attempt: int | None, *, follow: bool, as_json: bool
) -> None:
    """Print what the steps and the body of a run have logged."""

    async def read(engine: Any) -> None:
        found = await handle(engine, run)
        async for line in found.logs(step=step, attempt=attempt or 0, follow=follow):
            if as_json:
                say_json_line(line_document(line))
            elif STDOUT.is_person:
                say_line(line)
            else:
                STDOUT.say(fields(*line_document(line).values()))

    door.enter(read)


def line_document(line: LogLine) -> dict[str, Any]:
    """Return a line of a log by the names of the API."""
    return {
        "at": iso(line.at),
        "level": logging.getLevelName(line.level),
        "step": line.key,
        "attempt": line.attempt,
        "logger": line.logger,
        "message": line.message,
        "fields": fields_of(line.fields) or None,
        "generation": line.generation,
    }


def say_line(line: LogLine) -> None:
    """Print a line for a person: when, how bad, who, what; a traceback below it."""
    level = logging.getLevelName(line.level).lower()
    who = clean(line.key) + (f" attempt {line.attempt}" if line.attempt > 1 else "")
    extra = " ".join(f"{key}={value}" for key, value in fields_of(line.fields).items())
    first, *rest = line.message.splitlines() or [""]
    told = [STDOUT.dim(clock(line.at)), STDOUT.style(f"{level:<8}", **_style(line.level))]
    told += [STDOUT.style(padded(who or "body", 12), **DIM), clean(first)]
    STDOUT.say("  ".join(told) + (STDOUT.dim(f"  {clean(extra)}") if extra else ""))
    for more in rest:
        STDOUT.say(STDOUT.dim(f"    {clean(more)}"))


def _style(level: int) -> Style:
    if level >= logging.ERROR:
        return RED
    return YELLOW if level >= logging.WARNING else BLUE
