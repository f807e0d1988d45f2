"""`holdfast runs list`."""

from __future__ import annotations

from typing import Any, get_args

import click

from holdfast.cli.documents import RUN_FIELDS, run_document, say_json
from holdfast.cli.door import Door
from holdfast.cli.options import with_door
from holdfast.cli.statuses import CYAN, DASH, DIM, status_cell
from holdfast.cli.terminal import STDERR, STDOUT, Cell, Column, clean, fields, table
from holdfast.cli.words import ago, ahead, count, iso, span
from holdfast.errors import InvalidName
from holdfast.model.run import Run
from holdfast.model.status import RunStatus

COLUMNS = (
    Column("status"),
    Column("workflow", cut=True),
    Column("run"),
    Column("started", drop=3),
    Column("duration", right=True, drop=2),
    Column("events", right=True, drop=1),
    Column("waiting for", drop=4, cut=True),
)
ALL = "*"


@click.command("list")
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(get_args(RunStatus)),
    metavar="STATUS", help="Only runs of this status; may be given several times.",
)  # fmt: skip
@click.option("--workflow", default="", metavar="NAME", help="Only runs of this workflow.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True)
@click.option("--after", metavar="CURSOR", help="The next page; each page says its cursor.")
@click.option(
    "--json", "chosen", is_flag=False, flag_value=ALL, metavar="[FIELDS]",
    help="Print a JSON array; --json=id,status for chosen fields.",
)  # fmt: skip
@click.option("--jsonl", is_flag=True, help="Print one JSON object a line.")
@with_door
def command(door: Door, limit: int, chosen: str | None, jsonl: bool, **filters: Any) -> None:
    """List runs, newest first."""
    names = _chosen(chosen)
    runs, now = door.enter(lambda engine: _page(engine, limit + 1, **filters))
    more, runs = len(runs) > limit, runs[:limit]
    following = f"{runs[-1].created_at}:{runs[-1].id}" if more else None
    if chosen or jsonl:
        documents = [_only(run_document(run), names) for run in runs]
        for document in documents if jsonl else (documents,):
            say_json(document)
    elif STDOUT.is_person:
        _say_table(runs, now, following)
        return
    else:
        for run in runs:
            STDOUT.say(_line(run))
    if following:
        STDERR.say(f"more: --after {following}")


async def _page(
    engine: Any, limit: int, *, statuses: tuple[RunStatus, ...], workflow: str, after: str | None
) -> tuple[list[Run], int]:
    from holdfast.model.writes import Filter, Page

    at, _, id = (after or "").partition(":")
    is_cursor = at.isascii() and at.isdigit() and len(at) <= 18 and id.isprintable()
    if after is not None and not (is_cursor and id):
        problem = "is not a cursor that a list printed"
        raise InvalidName(field="--after", value=after, problem=problem)
    if not workflow.isprintable():
        raise InvalidName(field="--workflow", value=workflow, problem="cannot be stored")
    page = Page(limit, int(at) if after else None, id)
    found = await engine.find(Filter(engine.ns, statuses=statuses, workflow=workflow), page)
    return found, engine.store.now()


def _chosen(text: str | None) -> tuple[str, ...]:
    if text in (None, ALL):
        return RUN_FIELDS
    names = tuple(name.strip() for name in str(text).split(","))
    unknown = [name for name in names if name not in RUN_FIELDS]
    if unknown:
        known = ", ".join(RUN_FIELDS)
        raise click.BadParameter(
            f"no field {unknown[0]!r}; there are: {known}", param_hint="--json"
        )
    return names


def _only(document: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: document[name] for name in names}


def _say_table(runs: list[Run], now: int, following: str | None) -> None:
    if not runs:
        STDOUT.say(STDOUT.dim("No runs. Start one: holdfast run WORKFLOW --app APP"))
        return
    has_waits = any(_waits_for(run, now) for run in runs)
    columns = COLUMNS if has_waits else COLUMNS[:-1]
    for line in table(columns, [_cells(run, now)[: len(columns)] for run in runs]):
        STDOUT.say(line)
    parts = [count(len(runs), "run")]
    if following:
        parts.append(f"more: holdfast runs list --after {following}")
    parts.append(f"open: holdfast runs show {runs[0].id}")
    STDOUT.say(STDOUT.dim(" · ".join(parts)))


def _cells(run: Run, now: int) -> list[Cell]:
    return [
        status_cell(run.status),
        Cell(clean(run.workflow)),
        Cell(run.id, CYAN),
        Cell(ago(run.created_at, now)),
        Cell(DASH if run.status == "pending" else span((run.closed_at or now) - run.created_at)),
        Cell(f"{run.seq:,}"),
        Cell(_waits_for(run, now), DIM),
    ]


def _waits_for(run: Run, now: int) -> str:
    """Say in a few words what an open run waits for."""
    parts = [clean(run.reason)] if run.reason else []
    if run.status == "waiting" and run.wake_at is not None:
        parts.append(f"due {ahead(run.wake_at, now)}")
    return " · ".join(parts)


def _line(run: Run) -> str:
    return fields(
        run.status, run.workflow, run.id, iso(run.created_at), iso(run.closed_at), run.seq,
        run.reason,
    )  # fmt: skip
