"""`holdfast runs list`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import click

from holdfast.cli import choosing, completing
from holdfast.cli.documents import RUN_FIELDS, run_document, say_json, say_json_line
from holdfast.cli.door import Door
from holdfast.cli.door import found as door_found
from holdfast.cli.drawing import told
from holdfast.cli.options import app_to_type, with_door
from holdfast.cli.proposing import typed
from holdfast.cli.statuses import CYAN, DASH, DIM, status_cell
from holdfast.cli.terminal import STDERR, STDOUT, Cell, Column, clean, fields, table
from holdfast.cli.words import ago, ahead, count, iso, span
from holdfast.errors import InvalidName
from holdfast.model.labels import NO_LABELS, Labels
from holdfast.model.run import Run
from holdfast.model.status import RunStatus

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine

COLUMNS = (
    Column("status"),
    Column("workflow", cut=True),
    Column("run"),
    Column("started", drop=3),
    Column("duration", right=True, drop=2),
    Column("events", right=True, drop=1),
    Column("tags", drop=5, cut=True),
    Column("waiting for", drop=4, cut=True),
)


class Asked(NamedTuple):
    """Which page of which runs."""

    filter: str
    statuses: tuple[RunStatus, ...]
    workflow: str
    since: str | None
    limit: int
    before: str | None


class Found(NamedTuple):
    """One page, and what is said of its runs."""

    runs: list[Run]
    labels: Mapping[str, Labels]
    more: bool
    now: int


@click.command("list", cls=choosing.JsonCommand)
@click.argument("words", nargs=-1, metavar="[FILTER]...", shell_complete=completing.filters)
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(get_args(RunStatus)),
    metavar="STATUS", help="Only runs of this status; may be given several times.",
)  # fmt: skip
@click.option("--workflow", default="", metavar="NAME", help="Only runs of this workflow.",
              shell_complete=completing.workflows)  # fmt: skip
@click.option("--since", metavar="TIME", help="Only runs started since: 30m, 1h, 7d, 2026-01-31.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True)
@click.option("--before", metavar="RUN", help="The page before this run: older ones.",
              shell_complete=completing.runs)  # fmt: skip
@choosing.option
@click.option("--jsonl", is_flag=True, help="Print one JSON object a line.")
@with_door
def command(
    door: Door, words: tuple[str, ...], chosen: str | None, jsonl: bool, **limits: Any
) -> None:
    """List runs, newest first.

    FILTER is what they must be: status:failed,blocked workflow:checkout queue:gpu tag:vip
    customer=42 'amount>10' since:1h id:ord- reason:timeout or any word; -tag:vip for what they
    must not be.
    """
    names = choosing.fields_of(chosen, RUN_FIELDS)
    asked = Asked(" ".join(words), **limits)
    found = door.enter(lambda engine: _page(engine, asked))
    if chosen or jsonl:
        documents = [
            choosing.only(run_document(run, found.labels.get(run.id, NO_LABELS)), names)
            for run in found.runs
        ]
        if jsonl:
            for document in documents:
                say_json_line(document)
        else:
            say_json(documents)
    elif STDOUT.is_person:
        _say_table(found, words, asked)
        return
    else:
        for run in found.runs:
            STDOUT.say(_line(run))
    if found.more:
        STDERR.say(f"more: {shlex.join(['--before', found.runs[-1].id])}")


async def _page(engine: LocalEngine, asked: Asked) -> Found:
    from holdfast.model.filters import parse, quoted
    from holdfast.model.writes import Filter, Page

    if not asked.workflow.isprintable():
        raise InvalidName(field="--workflow", value=asked.workflow, problem="cannot be stored")
    now = engine.store.now()
    terms = parse(asked.filter, now)
    if asked.since:
        terms += parse(f"since:{quoted(asked.since)}", now)
    wanted = Filter(engine.ns, statuses=asked.statuses, workflow=asked.workflow, terms=terms)
    page = Page(asked.limit + 1)
    if asked.before is not None:
        last = (await engine.load(await door_found(engine, asked.before), 1 << 62)).run
        page = page._replace(before_at=last.created_at, before_id=last.id)
    runs = await engine.find(wanted, page)
    shown = runs[: asked.limit]
    labels = await engine.labels([run.id for run in shown])
    return Found(shown, labels, len(runs) > asked.limit, now)


def _say_table(found: Found, words: tuple[str, ...], asked: Asked) -> None:
    runs, now = found.runs, found.now
    if not runs:
        hint = "No runs are like that." if words else "No runs."
        STDOUT.say(STDOUT.dim(f"{hint} Start one: holdfast run WORKFLOW --app {app_to_type()}"))
        return
    rows = [_cells(run, found.labels.get(run.id, NO_LABELS), now) for run in runs]
    needed = [
        place
        for place, column in enumerate(COLUMNS)
        if column.title not in ("tags", "waiting for") or any(row[place].text for row in rows)
    ]
    columns = [COLUMNS[place] for place in needed]
    for line in table(columns, [[row[place] for place in needed] for row in rows]):
        STDOUT.say(line)
    parts = [count(len(runs), "run")]
    if found.more:
        parts.append(f"more: {_older(words, asked, runs[-1].id)}")
    parts.append(f"open: {typed('runs show', runs[0].id)}")
    STDOUT.say(STDOUT.dim(" · ".join(parts)))


def _older(words: tuple[str, ...], asked: Asked, last: str) -> str:
    """Return the command that lists the next page of the same runs."""
    options = [part for status in asked.statuses for part in ("--status", status)]
    options += ["--workflow", asked.workflow] if asked.workflow else []
    options += ["--since", asked.since] if asked.since else []
    return typed("runs list", *words, options=(*options, "--before", last))


def _cells(run: Run, labels: Labels, now: int) -> list[Cell]:
    return [
        status_cell(run.status),
        Cell(clean(run.workflow)),
        Cell(run.id, CYAN),
        Cell(ago(run.created_at, now)),
        Cell(DASH if run.status == "pending" else span((run.closed_at or now) - run.created_at)),
        Cell(f"{run.seq:,}"),
        Cell(told(labels)),
        Cell(_waits_for(run, now), DIM),
    ]


def _waits_for(run: Run, now: int) -> str:
    """Say in a few words what an open run waits for."""
    parts = [clean(run.reason)] if run.reason else []
    if run.status == "waiting" and run.due_at is not None:
        parts.append(f"due {ahead(run.due_at, now)}")
    return " · ".join(parts)


def _line(run: Run) -> str:
    return fields(
        run.status, run.workflow, run.id, iso(run.created_at), iso(run.closed_at), run.seq,
        run.reason,
    )  # fmt: skip
