"""`holdfast db`: migrate, inspect, back up and prune the database, and its blobs."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from holdfast.cli import options, rekeying
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door, must_exist, opened, store_at
from holdfast.cli.proposing import typed_of_store
from holdfast.cli.telling import Refused, Unreachable, must_be_asked
from holdfast.cli.terminal import STDOUT, fields
from holdfast.cli.words import SECOND, count, length

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine
    from holdfast.ports.inspection import InspectedStore
    from holdfast.stores.sealed import SealedStore
    from holdfast.stores.sealed.collecting import Collected


@click.group("db")
def command() -> None:
    """Migrate, inspect, back up and prune the database."""


command.add_command(rekeying.command)


@command.command("migrate")
@options.with_url
def migrate(url: str) -> None:
    """Make the database, or bring it to this release's schema."""
    import asyncio

    before, facts = asyncio.run(_migrated(store_at(url)))
    after = facts["schema"]
    moved = f"from version {before} to {after}" if before != after else f"is at version {after}"
    STDOUT.say(f"{facts.get('file') or facts['database']}  schema {moved}")


async def _migrated(store: InspectedStore) -> tuple[int, dict[str, Any]]:
    """Bring the schema to this release's; return the version it had, and what there is now."""
    from holdfast.errors import StoreUnavailable

    try:
        before = (await store.facts())["schema"]
    except StoreUnavailable:  # there is nothing yet, or nobody answers: then opening says so
        before = 0
    await store.open()
    await store.close()
    return before, await store.facts()


@command.command("status")
@options.with_url
@options.as_json
def status(url: str, as_json: bool) -> None:
    """Show the database, its schema version and its settings, changing nothing."""
    import asyncio

    facts = asyncio.run(_facts(url))
    if as_json:
        say_json(facts)
        return
    for name, value in facts.items():
        told = f"{value:,}" if isinstance(value, int) and name.endswith("bytes") else str(value)
        if STDOUT.is_person:
            STDOUT.say(f"{STDOUT.dim(f'{name:<18}')}  {told}")
        else:
            STDOUT.say(fields(name, value))
    if facts["schema"] < facts["schema_of_release"] and STDOUT.is_person:
        STDOUT.say()
        STDOUT.next_commands([(typed_of_store("db migrate"), "to this release's schema")])


@command.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@options.with_url
def backup(file: Path, url: str) -> None:
    """Copy the database into FILE, whole and consistent, while workers go on."""
    import asyncio
    import sqlite3

    from holdfast.stores.sqlite.connection import connect

    store = store_at(url)
    path: Path | None = getattr(store, "path", None)
    if path is None:
        raise Refused("PostgreSQL has its own way: pg_dump --schema=holdfast, or the server's own.")
    asyncio.run(must_exist(store, url))
    if file.exists():
        raise Refused(f"{str(file)!r} exists already. Name another file.")
    with closing(connect(path, writes=False)) as source:
        try:
            # Into a file that nobody reads yet; under its own name only when it is whole.
            draft = file.with_name(f".{file.name}.part")
            # Like the database itself: for its owner's eyes only.
            os.close(os.open(draft, os.O_CREAT | os.O_WRONLY, 0o600))
            with closing(sqlite3.connect(draft)) as target:
                source.backup(target)
            draft.rename(file)
        except (sqlite3.Error, OSError) as error:
            raise Unreachable(f"No backup was made: {error}. Choose another place.") from error
    STDOUT.say(f"{file}  {file.stat().st_size:,} bytes")


@command.command("prune")
@click.option(
    "--older-than", required=True, metavar="AGE", help="Such as 2w, 30d, 12h, 90m or 45s."
)
@click.option("--dry-run", is_flag=True, help="Only say how many runs would go.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@options.with_door
def prune(door: Door, older_than: str, dry_run: bool, yes: bool) -> None:
    """Forget runs that closed longer ago than AGE, with their histories. Open runs stay."""
    import asyncio

    age = length(older_than, field="--older-than")

    async def count_or_prune(forget: bool) -> int:
        from holdfast.app import App
        from holdfast.client import Client

        async with opened(door) as engine:
            if forget:
                client = Client(App("cli", namespace=door.namespace), engine)
                return await client.prune(older_than=age / SECOND)
            return await _prunable(engine, engine.store.now() - age)

    if dry_run or not yes:
        found = count(asyncio.run(count_or_prune(forget=False)), "run")
        if dry_run:
            STDOUT.say(f"{found} would be forgotten")
            return
        must_be_asked(f"forget {found}")
        click.confirm(f"Forget {found} that closed more than {older_than} ago?", abort=True)
    STDOUT.say(f"{count(asyncio.run(count_or_prune(forget=True)), 'run')} forgotten")


@command.command("gc")
@click.option(
    "--grace",
    default="1d",
    show_default=True,
    metavar="AGE",
    help="Keep what was put this short ago: the commit that names it may be on its way.",
)
@click.option("--dry-run", is_flag=True, help="Only say how many blobs would go.")
@options.with_url
@options.as_json
def gc(url: str, grace: str, dry_run: bool, as_json: bool) -> None:
    """Delete blobs that no run names any more."""
    import asyncio

    collected = asyncio.run(_collected(url, length(grace, field="--grace"), dry_run))
    if as_json:
        say_json(collected._asdict())
        return
    done = "would be deleted" if dry_run else "deleted"
    told = f"{count(collected.collected, 'blob')} of {collected.blobs:,} {done}"
    STDOUT.say(f"{told}, {collected.freed:,} bytes")


async def _collected(url: str, grace: int, only_looks: bool) -> Collected:
    async with opened(Door(url)) as engine:
        store = cast("SealedStore", engine.store)
        return await store.collect(grace=grace, only_looks=only_looks)


@command.command("prune-witness")
@click.argument("app")
@click.option(
    "--older-than", required=True, metavar="AGE", help="Such as 2w, 30d, 12h, 90m or 45s."
)
@options.with_door
def prune_witness(door: Door, app: str, older_than: str) -> None:
    """Forget steps that took effect longer ago than AGE in databases of your own.

    APP names them by its transactions. What runs that are still open did stays.
    """
    import asyncio

    from holdfast.cli.loading import load_app

    age, loaded = length(older_than, field="--older-than"), load_app(app)

    async def forget() -> int:
        from holdfast.client import Client

        found: list[Any] = [getattr(step, "on", None) for step in loaded.steps.values()]
        witnesses = {id(each): each for each in found if hasattr(each, "forget")}.values()
        async with opened(door) as engine:
            client = Client(loaded, engine)
            pruned = [
                await client.prune_witness(each, older_than=age / SECOND) for each in witnesses
            ]
            return sum(pruned)

    STDOUT.say(f"{count(asyncio.run(forget()), 'step')} forgotten")


async def _prunable(engine: LocalEngine, before: int) -> int:
    """Count closed runs that are old enough, page by page."""
    from holdfast.model.status import CLOSED
    from holdfast.model.writes import Filter, Page

    wanted, page, total = Filter(engine.ns, statuses=tuple(sorted(CLOSED))), Page(1_000), 0
    while runs := await engine.find(wanted, page):
        total += sum(run.closed_at is not None and run.closed_at < before for run in runs)
        page = page._replace(before_at=runs[-1].created_at, before_id=runs[-1].id)
    return total


async def _facts(url: str) -> dict[str, Any]:
    store = store_at(url)
    await must_exist(store, url)
    return await store.facts()
