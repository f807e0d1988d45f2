"""`holdfast workers`: who works on a store, since when, on what, with how much in hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli import options
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door, store_in
from holdfast.cli.statuses import CYAN, DIM, GREEN, RED, YELLOW
from holdfast.cli.terminal import STDOUT, Cell, Column, clean, fields, table
from holdfast.cli.words import ago, ahead, iso

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine
    from holdfast.model.workers import WorkerRow

COLUMNS = (
    Column("worker"), Column("state"), Column("lease"), Column("runs", right=True),
    Column("jobs", right=True), Column("app"), Column("release"), Column("where"),
    Column("queues", cut=True), Column("workflows", cut=True),
)  # fmt: skip
KNOWN = ("app", "version", "host", "pid", "workflows", "queues", "stuck_threads")
"""What a worker says of itself."""


class Seen(NamedTuple):
    """The workers of a store, and the time there."""

    workers: list[WorkerRow]
    now: int


@click.command("workers")
@options.as_json
@options.with_door
def command(door: Door, as_json: bool) -> None:
    """List the workers of a store: alive or gone, their leases, releases and runs in hand."""
    seen = door.enter(_look)
    if as_json:
        say_json({"workers": [_document(worker, seen) for worker in seen.workers]})
    elif not STDOUT.is_person:
        for worker in seen.workers:
            STDOUT.say(fields(*_document(worker, seen).values()))
    elif not seen.workers:
        STDOUT.say(STDOUT.dim("No worker is listening. Start one: holdfast worker APP"))
    else:
        for line in table(COLUMNS, [_row(worker, seen) for worker in seen.workers]):
            STDOUT.say(line)


async def _look(engine: LocalEngine) -> Seen:
    store = store_in(engine)
    return Seen(await store.workers(), store.now())


def state_of(worker: WorkerRow, now: int) -> str:
    """Say in one word how a worker is: it listens, it has a lease, or neither."""
    if worker.is_listening:
        return "alive"
    return "silent" if (worker.lease_until or 0) > now else "gone"


def lease_of(worker: WorkerRow, now: int) -> str:
    """Say when a worker's lease ends; one that holds nothing needs none."""
    if worker.lease_until is None:
        return "none needed"
    if worker.lease_until > now:
        return f"ends {ahead(worker.lease_until, now)}"
    return f"ended {ago(worker.lease_until, now)}"


def said_by(worker: WorkerRow) -> dict[str, Any]:
    """Return what a worker says of itself; one that holds nothing may have said nothing yet."""
    try:
        said: Any = json.loads(worker.info or "{}")
    except ValueError:
        said = {}
    return {name: said.get(name) for name in KNOWN}


def _document(worker: WorkerRow, seen: Seen) -> dict[str, Any]:
    return {
        "id": worker.id,
        "state": state_of(worker, seen.now),
        "lease_until": iso(worker.lease_until),
        "started_at": iso(worker.started_at),
        "runs": worker.runs,
        "jobs": worker.jobs,
        **said_by(worker),
    }


def _queues(said: Mapping[str, Any]) -> str:
    """Name the queues that a worker serves; one that has told nothing of itself names none."""
    if said["queues"] is None:
        return "all" if said["app"] else ""
    return ", ".join(map(clean, said["queues"]))


def _row(worker: WorkerRow, seen: Seen) -> list[Cell]:
    state, said = state_of(worker, seen.now), said_by(worker)
    look = {"alive": Cell("✓ alive", GREEN), "gone": Cell("✗ gone", RED)}
    if said["stuck_threads"]:
        look["alive"] = Cell(f"! {said['stuck_threads']} threads stuck", YELLOW)
    where = f"{said['host']}:{said['pid']}" if said["host"] else ""
    return [
        Cell(worker.id, CYAN),
        look.get(state, Cell("… silent", DIM)),
        Cell(lease_of(worker, seen.now)),
        Cell(str(worker.runs)),
        Cell(str(worker.jobs)),
        Cell(said["app"] or ""),
        Cell(said["version"] or ""),
        Cell(where),
        Cell(_queues(said)),
        Cell(", ".join(said["workflows"] or ())),
    ]
