"""Reads of everything, for the invariants' check and for those who ask where a run is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.model.annotations import Progress
from holdfast.model.cache import CachedResult
from holdfast.model.definitions import Definition
from holdfast.model.dump import Dump, RunKey
from holdfast.model.events import Event
from holdfast.model.family import Link
from holdfast.model.jobs import Job
from holdfast.model.limits import Ticket, queue_of
from holdfast.model.run import Message, Run
from holdfast.model.schedules import scheduled_of
from holdfast.model.secrets import Sealed
from holdfast.model.waits import wait_of
from holdfast.stores.postgres import forks
from holdfast.stores.postgres.connection import Ask
from holdfast.stores.postgres.reader import labelled, log_line
from holdfast.stores.postgres.statements import queries
from holdfast.stores.postgres.target import Row

SQL = queries()


async def dump(ask: Ask, now: int) -> Dump:
    """Return all rows, inside a transaction that sees one moment."""
    runs = tuple(map(Run._make, await ask(SQL.dump_runs)))
    none: dict[RunKey, tuple[Any, ...]] = {(run.ns, run.id): () for run in runs}
    events: dict[RunKey, tuple[Any, ...]] = {
        **none, **_by_run(await ask(SQL.dump_events), Event._make)
    }  # fmt: skip
    for ns, run in await ask(SQL.dump_forks):
        events[ns, run] = tuple(await forks.merged(ask, ns, run, events[ns, run], 0))
    tags = [((row[0], row[1]), *row[2:]) for row in await ask(SQL.dump_tags)]
    return Dump(
        now, runs,
        events,
        {**none, **_by_run(await ask(SQL.dump_inbox), Message._make)},
        dict(await ask(SQL.dump_workers)),
        labels=labelled(tags),
        progress=_by_run(await ask(SQL.dump_progress), Progress._make),
        logs=_by_run(await ask(SQL.dump_lines), log_line),
        definitions=tuple(map(Definition._make, await ask(SQL.dump_definitions))),
        children={(ns, run): Link(*link) for ns, run, *link in await ask(SQL.dump_children)},
        waits=tuple(map(wait_of, await ask(SQL.dump_waits))),
        queues=tuple(map(queue_of, await ask(SQL.dump_queues))),
        tickets=tuple(map(Ticket._make, await ask(SQL.dump_tickets))),
        jobs=tuple(map(Job._make, await ask(SQL.dump_jobs))),
        schedules=tuple(map(scheduled_of, await ask(SQL.dump_schedules))),
        secrets=_by_run(await ask(SQL.dump_secrets), Sealed._make),
        cache=tuple(map(CachedResult._make, await ask(SQL.dump_cache))),
    )  # fmt: skip


def _by_run(
    rows: Sequence[Row], made: Callable[[Sequence[Any]], Any]
) -> Mapping[RunKey, tuple[Any, ...]]:
    found: dict[RunKey, list[Any]] = {}
    for row in rows:
        found.setdefault((row[0], row[1]), []).append(made(row[2:]))
    return {key: tuple(kept) for key, kept in found.items()}
