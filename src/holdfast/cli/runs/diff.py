"""`holdfast runs diff`: two runs key by key, or two states of one run of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import completing, options
from holdfast.cli.documents import compact, say_json, value_of
from holdfast.cli.door import Door, found
from holdfast.cli.options import as_json, with_door
from holdfast.cli.statuses import CYAN, DIM, GREEN, RED, YELLOW
from holdfast.cli.terminal import STDOUT, Cell, Column, clean, fields, table
from holdfast.cli.words import span
from holdfast.errors import RunNotFound

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine
    from holdfast.model.diffing import Diff, Item, Side

COLUMNS = (
    Column(""),
    Column("key"),
    Column("what"),
    Column("a", cut=True),
    Column("b", cut=True),
)
LOOKS = {
    "same": ("=", DIM),
    "differs": ("≠", YELLOW),
    "only in a": ("-", RED),
    "only in b": ("+", GREEN),
}


@click.command("diff")
@click.argument("a", metavar="RUN", shell_complete=completing.runs)
@click.argument("b", metavar="[OTHER]", required=False, shell_complete=completing.runs)
@click.option(
    "--at",
    metavar="PLACE",
    help="Of a graph: the state after NODE or NODE:ITERATION, or at an event.",
)
@click.option("--vs", metavar="PLACE",
              help="With --at: the state to compare that with, else the last.")  # fmt: skip
@click.option("--app", envvar=options.APP, type=options.AppName(), metavar="APP",
              help="With --at: the app (or HOLDFAST_APP).")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Also what is the same.")
@as_json
@with_door
def command(  # noqa: PLR0913, PLR0917 - the options of a command, each by its name
    door: Door, a: str, b: str | None, at: str | None, vs: str | None, app: str | None,
    everything: bool, as_json: bool,
) -> None:  # fmt: skip
    """Compare two runs key by key: which steps are the same, which gave something else.

    RUN@1 is a run as it was at the end of its first generation, before it was reopened. With --at
    and --vs, compare two states of one run of a graph, field by field.
    """
    if at is not None and b is None:
        from holdfast.cli.runs.state import show_difference

        show_difference(door, a, app, (at, vs), everything=everything, as_json=as_json)
    elif b is not None and at is None and vs is None:
        _compare(door, a, b, everything=everything, as_json=as_json)
    else:
        raise click.UsageError("Compare RUN with OTHER, or RUN --at PLACE with --vs PLACE.")


def _compare(door: Door, a: str, b: str, *, everything: bool, as_json: bool) -> None:
    async def read(engine: LocalEngine) -> tuple[str, str, Diff]:
        from holdfast.engines.local.travel import diff

        left, right = await _named(engine, a), await _named(engine, b)
        return left, right, await diff(engine, left, right)

    left, right, compared = door.enter(read)
    items = [item for item in compared.items if everything or item.verdict != "same"]
    if as_json:
        say_json(_document(left, right, compared))
    elif STDOUT.is_person:
        _say(left, right, compared, items)
    else:
        for item in items:
            differs = ",".join(item.differs)
            STDOUT.say(fields(item.verdict, item.key, differs, _told(item.a), _told(item.b)))


async def _named(engine: LocalEngine, text: str) -> str:
    """Return the id of the run that a person meant, with its generation if one was named."""
    from holdfast.model.diffing import generation_in

    try:
        return await found(engine, text)
    except RunNotFound:
        run, generation = generation_in(text)
        if generation is None:
            raise
        return f"{await found(engine, run)}@{generation}"


def _document(left: str, right: str, diff: Diff) -> dict[str, Any]:
    first = diff.first
    return {
        "a": left,
        "b": right,
        "same": diff.is_same,
        "first": None if first is None else first.key,
        "items": [
            {"key": item.key, "verdict": item.verdict, "differs": list(item.differs),
             "a": _side(item.a), "b": _side(item.b)}
            for item in diff.items
        ],
    }  # fmt: skip


def _side(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "kind": side.kind, "seq": side.seq, "value": value_of(side.payload),
        "attempts": side.attempts, "took_us": side.took,
    }  # fmt: skip


def _say(left: str, right: str, diff: Diff, items: list[Item]) -> None:
    a, b = (STDOUT.style(clean(name), **CYAN) for name in (left, right))
    STDOUT.say(f"a  {a}")
    STDOUT.say(f"b  {b}")
    first = diff.first
    if first is None:
        STDOUT.say(f"They are the same, by {len(diff.items)} keys.")
    else:
        STDOUT.say(f"They part at {clean(first.key)}: {_part(first)}.")
    if items:
        STDOUT.say()
        for line in table(COLUMNS, [_cells(item) for item in items]):
            STDOUT.say(line)


def _part(item: Item) -> str:
    return item.verdict if item.verdict != "differs" else f"another {', '.join(item.differs)}"


def _cells(item: Item) -> list[Cell]:
    icon, style = LOOKS[item.verdict]
    what = ", ".join(item.differs) if item.verdict in ("differs", "same") else item.verdict
    return [
        Cell(icon, style), Cell(clean(item.key), style), Cell(what, DIM),
        Cell(_told(item.a)), Cell(_told(item.b)),
    ]  # fmt: skip


def _told(side: Side | None) -> str:
    """Say what one history holds, and how it came to it if that took several attempts."""
    if side is None:
        return ""
    value = clean(compact(side.payload)) if side.payload is not None else ""
    failed = "" if "failed" not in side.kind else "failed "
    tries = f" ({side.attempts} attempts)" if side.attempts > 1 else ""
    took = f" in {span(side.took)}" if side.took is not None else ""
    return f"{failed}{value}{tries}{took}"
