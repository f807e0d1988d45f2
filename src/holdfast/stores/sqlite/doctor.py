"""Reads of everything, for the invariants' check and for those who ask where a run is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from holdfast.model.annotations import LogLine, Progress
from holdfast.model.cache import CachedResult
from holdfast.model.definitions import Definition
from holdfast.model.dump import Dump, RunKey
from holdfast.model.events import Event
from holdfast.model.family import Link
from holdfast.model.jobs import Job
from holdfast.model.labels import labels_of
from holdfast.model.limits import Ticket, queue_of
from holdfast.model.run import Message, Run
from holdfast.model.schedules import scheduled_of
from holdfast.model.secrets import Sealed
from holdfast.model.status import CLOSED
from holdfast.model.waits import wait_of
from holdfast.stores.sqlite import forks
from holdfast.stores.sqlite.statements import queries

SQL = queries()
CLOSED_JSON = json.dumps(sorted(CLOSED))


def dump(connection: sqlite3.Connection, now: int) -> Dump:
    """Return all rows, as of one moment."""
    connection.execute("BEGIN")
    try:
        runs = tuple(map(Run._make, connection.execute(SQL.dump_runs)))
        events: dict[RunKey, list[Event]] = {(run.ns, run.id): [] for run in runs}
        inbox: dict[RunKey, list[Message]] = {(run.ns, run.id): [] for run in runs}
        for ns, run, *row in connection.execute(SQL.dump_events):
            events.setdefault((ns, run), []).append(Event._make(row))
        for ns, run in connection.execute(SQL.dump_forks).fetchall():
            events[ns, run] = forks.merged(connection, ns, run, events[ns, run], 0)
        for ns, run, *row in connection.execute(SQL.dump_inbox):
            inbox.setdefault((ns, run), []).append(Message._make(row))
        tags: dict[RunKey, list[Any]] = {}
        for ns, run, *row in connection.execute(SQL.dump_tags):
            tags.setdefault((ns, run), []).append(row)
        beats: dict[RunKey, list[Progress]] = {}
        for ns, run, *row in connection.execute(SQL.dump_progress):
            beats.setdefault((ns, run), []).append(Progress._make(row))
        lines: dict[RunKey, list[LogLine]] = {}
        for ns, run, *row in connection.execute(SQL.dump_lines):
            lines.setdefault((ns, run), []).append(LogLine._make(row))
        defined = tuple(map(Definition._make, connection.execute(SQL.dump_definitions)))
        links = connection.execute(SQL.dump_children).fetchall()
        waits = tuple(map(wait_of, connection.execute(SQL.dump_waits)))
        queues = tuple(map(queue_of, connection.execute(SQL.dump_queues)))
        tickets = tuple(map(Ticket._make, connection.execute(SQL.dump_tickets)))
        jobs = tuple(map(Job._make, connection.execute(SQL.dump_jobs)))
        schedules = tuple(map(scheduled_of, connection.execute(SQL.dump_schedules)))
        kept: dict[RunKey, list[Sealed]] = {}
        for ns, run, *row in connection.execute(SQL.dump_secrets):
            kept.setdefault((ns, run), []).append(Sealed._make(row))
        cache = tuple(map(CachedResult._make, connection.execute(SQL.dump_cache)))
        workers = dict(connection.execute(SQL.dump_workers).fetchall())
    finally:
        connection.execute("COMMIT")
    return Dump(
        now, runs, _frozen(events), _frozen(inbox), workers,
        labels={key: labels_of(rows) for key, rows in tags.items()},
        progress=_frozen(beats), logs=_frozen(lines), definitions=defined, waits=waits,
        queues=queues, tickets=tickets, jobs=jobs, schedules=schedules,
        children={(ns, run): Link(*link) for ns, run, *link in links},
        secrets=_frozen(kept), cache=cache,
    )  # fmt: skip


def buckets(connection: sqlite3.Connection, now: int) -> dict[RunKey, tuple[str, ...]]:
    """Return the buckets of every run; a run with none, or with two, is lost."""
    rows = connection.execute(SQL.buckets, {"now": now, "closed": CLOSED_JSON})
    return {(ns, run): tuple(names.split()) for ns, run, names in rows}


def _frozen(rows: Mapping[RunKey, list[Any]]) -> dict[RunKey, tuple[Any, ...]]:
    return {key: tuple(found) for key, found in rows.items()}
