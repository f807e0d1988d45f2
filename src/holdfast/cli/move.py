"""`holdfast move`: everything from one store to another."""

from __future__ import annotations

import shlex
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import options
from holdfast.cli.documents import say_json
from holdfast.cli.door import must_exist, store_at
from holdfast.cli.statuses import GREEN
from holdfast.cli.telling import Refused
from holdfast.cli.terminal import STDERR, STDOUT, fields
from holdfast.cli.words import count

if TYPE_CHECKING:
    from holdfast.hosts.mover import Moved, Sight
    from holdfast.model.dump import Dump
    from holdfast.model.moving import Standing
    from holdfast.ports.moving import Side

EVENTS = 500_000
"""Up to so many events are examined as the doctor does it, who has all of them in memory."""


@click.command("move")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="[TARGET]", required=False)
@click.option("--dry-run", is_flag=True, help="Only say what would be moved.")
@click.option("--undo", is_flag=True, help="Take an unfinished move back; SOURCE is used again.")
@click.option(
    "--blobs",
    metavar="URL",
    help="Where TARGET has its large payloads; by default where a store there has them.",
)
@options.as_json
def command(
    source: str, target: str | None, dry_run: bool, undo: bool, blobs: str | None, as_json: bool
) -> None:
    """Move everything from SOURCE into TARGET, which must be empty or not there yet.

    Both are URLs, such as sqlite:///shop.db and postgresql://user@host/shop. Stop all workers
    first. SOURCE takes no more writes from then on, and says where its runs went. If the move is
    stopped, type the same again: it goes on where it was.
    """
    import asyncio

    if undo:
        asyncio.run(_undo(source, target, as_json))
        return
    if target is None:
        raise Refused("Name the store to move into, such as postgresql://user@host/shop.")
    if dry_run:
        asyncio.run(_preview(source, target, as_json))
        return
    asyncio.run(_move(source, target, blobs, as_json))


async def _move(source: str, target: str, blobs: str | None, as_json: bool) -> None:
    from uuid import uuid4

    from holdfast.hosts.mover import Mover
    from holdfast.stores.sealed.carrying import carrier

    began = monotonic()
    async with _opened(source, must=True) as here, _opened(target, blobs=blobs) as there:
        carries = await carrier(here, there)
        carry = None if carries is None else carries.carry
        with _drawn() as tell:
            examine = await _examiner(here)
            mover = Mover(here, there, id=uuid4().hex, examine=examine, carry=carry, tell=tell)
            moved = await mover.move()
    _say(moved, monotonic() - began, is_examined=examine is not None, as_json=as_json)


def _say(moved: Moved, seconds: float, *, is_examined: bool, as_json: bool) -> None:
    total = sum(moved.rows.values())
    if as_json:
        say_json({
            "move": moved.id, "source": moved.source, "target": moved.target, "rows": moved.rows,
            "seconds": round(seconds, 3), "examined": is_examined,
        })  # fmt: skip
        return
    if not STDOUT.is_person:
        for name, rows in moved.rows.items():
            STDOUT.say(fields(name, rows))
        return
    events, runs = moved.rows.get("events", 0), moved.rows.get("runs", 0)
    STDOUT.say(
        f"{STDOUT.style('✓', **GREEN)} {count(runs, 'run')} with {count(events, 'event')} moved to "
        f"{moved.target}"
    )
    told = f"{total:,} rows in {seconds:.1f} s, read back and compared"
    if not is_examined:
        told += "; too many for the doctor's look on the way"
    STDOUT.say(STDOUT.dim(f"  {told}"))
    STDOUT.next_commands([
        (shlex.join(["holdfast", "doctor", "--store", moved.target]), "look at it"),
        ("holdfast worker APP --store URL", "go on there"),
    ])  # fmt: skip


async def _undo(source: str, target: str | None, as_json: bool) -> None:
    from holdfast.hosts.mover import take_back

    async with _opened(source, must=True) as here:
        if target is None:
            move, there = await take_back(here, None), None
        else:
            async with _opened(target, must=True) as there:
                move = await take_back(here, there)
        place = here.place
    if as_json:
        say_json({"move": move.id, "source": place, "emptied": there.place if there else None})
        return
    STDOUT.say(f"{place} takes writes again")
    if there is None and move.role == "source":
        STDOUT.say(
            STDOUT.dim(f"  {move.place} still holds what was copied: name it too, or drop it")
        )


async def _preview(source: str, target: str, as_json: bool) -> None:
    """Say what a move would find, changing nothing but an older schema."""
    from holdfast.model.moving import TABLES

    async with _opened(source, must=True) as here:
        standing = await here.standing()
        rows = {table.name: await here.count(table) for table in TABLES}
        place = here.place
    there = await _look(target)
    document = _previewed(place, target, standing, there, rows)
    if as_json:
        say_json(document)
        return
    for name, value in rows.items():
        if value or not STDOUT.is_person:
            told = f"{value:>12,}  {name}" if STDOUT.is_person else fields(name, value)
            STDOUT.say(told)
    for problem in document["problems"]:
        STDOUT.say(problem if STDOUT.is_person else fields("problem", problem))


async def _look(target: str) -> Standing | None:
    """Return how the target stands, or None if there is no store yet."""
    from holdfast.errors import StoreUnavailable

    store = store_at(target)
    try:
        facts = await store.facts()
    except StoreUnavailable:
        return None
    if facts["schema"] != facts["schema_of_release"]:
        return None
    async with _opened(target) as there:
        return await there.standing()


def _previewed(
    place: str, target: str, here: Standing, there: Standing | None, rows: dict[str, int]
) -> dict[str, Any]:
    from holdfast.compose import masked

    problems = [f"a worker is there: {worker.id}" for worker in here.live]
    if here.move is not None and here.move.role == "source":
        problems.append(f"it is {here.move.state} to {here.move.place}")
    if there is not None and not there.is_empty:
        problems.append("the target is not empty")
    return {"source": place, "target": masked(target), "rows": rows, "problems": problems}


@asynccontextmanager
async def _opened(
    url: str, *, must: bool = False, blobs: str | None = None
) -> AsyncGenerator[Side]:
    store = store_at(url, blobs=blobs)
    if must:
        await must_exist(store, url)
    side = store.side()
    await side.open()
    try:
        yield side
    finally:
        await side.close()


async def _examiner(source: Side) -> Callable[[Dump], Sequence[str]] | None:
    from holdfast.model.moving import TABLES
    from holdfast.testing.invariants import check

    events = next(table for table in TABLES if table.name == "events")
    if await source.count(events) > EVENTS:
        return None
    return lambda dump: [str(violation) for violation in check(dump)]


@contextmanager
def _drawn() -> Generator[Callable[[Sight], None]]:
    """Draw how far it has come, if a person looks."""
    if not STDERR.is_person:
        yield lambda sight: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    began = monotonic()
    with Live(console=Console(stderr=True), transient=True, refresh_per_second=8) as live:

        def tell(sight: Sight) -> None:
            seconds = monotonic() - began
            live.update(
                Text(f"  {sight.stage} {sight.table}  {sight.rows:,} rows  {seconds:.0f} s")
            )

        yield tell
