"""Reads, on the connection that the store chooses, never in the way of writes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from holdfast.model.events import Event, since_start
from holdfast.model.exports import Export
from holdfast.model.labels import NO_LABELS, Labels, labels_of
from holdfast.model.limits import Ticket
from holdfast.model.makers import maker
from holdfast.model.run import END_ONLY, SINCE_START, Loaded, Message, Posted, Run
from holdfast.model.secrets import Sealed
from holdfast.model.travel import is_partial
from holdfast.model.writes import Claim, Filter, Page
from holdfast.stores import collecting
from holdfast.stores.sqlite import forks, limits, said, scheduling
from holdfast.stores.sqlite.filtering import statement_of
from holdfast.stores.sqlite.lanes import Lanes
from holdfast.stores.sqlite.statements import queries

SQL = queries()

_new_event = maker(Event)


class Peek(NamedTuple):
    """What a look at the queue found, without taking anything."""

    claimable: bool
    next_wake_at: int | None
    mail: tuple[str, ...]
    held: frozenset[str]
    others: tuple[tuple[str, int], ...]
    unregistered: tuple[str, ...]
    unserved: tuple[str, ...]
    schedule_at: int | None = None
    overdue: tuple[Ticket, ...] = ()


def peek(connection: sqlite3.Connection, claim: Claim, now: int) -> Peek:
    """Look for claimable runs, mail, other workers, and what keeps this worker waiting."""
    lanes = Lanes(connection, claim, now)
    held = connection.execute(SQL.held_runs, (claim.worker, claim.ns)).fetchall()
    return Peek(
        claimable=lanes.is_any_claimable(),
        next_wake_at=lanes.next_wake_at(),
        mail=tuple(run for run, has_mail in held if has_mail),
        held=frozenset(run for run, _ in held),
        others=others(connection, claim.worker),
        unregistered=lanes.unregistered(),
        unserved=lanes.unserved(),
        overdue=() if lanes.lines is None else lanes.lines.overdue(),
        schedule_at=scheduling.next_at(connection, claim) if claim.schedules else None,
    )


def others(connection: sqlite3.Connection, worker: str) -> tuple[tuple[str, int], ...]:
    """Return the other workers, and when the lease of each is over.

    Also the owners without a row, whose lease never began or was reaped before they took a run.
    """
    leases: dict[str, int] = dict(connection.execute(SQL.other_workers, (worker,)))
    owner = ""
    while (owner := connection.execute(SQL.next_owner, (owner,)).fetchone()[0]) is not None:
        if owner != worker:
            leases.setdefault(owner, 0)
    return tuple(sorted(leases.items()))


def holders(connection: sqlite3.Connection, workers: Sequence[str]) -> list[str]:
    """Return those of `workers` that hold a run; who takes jobs looks for those that hold jobs."""
    found = ((w, connection.execute(SQL.holds_runs, {"worker": w}).fetchone()[0]) for w in workers)
    return [worker for worker, holds in found if holds]


def first_event(connection: sqlite3.Connection, run: Run) -> Event:
    """Return the event a run was started with."""
    return Event._make(connection.execute(SQL.living_events, (run.ns, run.id, 0)).fetchone())


def load(connection: sqlite3.Connection, ns: str, run: str, after: int) -> Loaded | None:
    """Return the run, its living events, unread messages and heartbeats, as of one moment."""
    if after == END_ONLY:
        return _end(connection, ns, run)
    connection.execute("BEGIN")
    try:
        # All its events show how long a run is, so its row may lag.
        statement = SQL.stored_run if after <= 0 else SQL.run
        row = connection.execute(statement, (ns, run)).fetchone()
        if row is None:
            return None
        found, asked = Run._make(row), after
        if after == SINCE_START:
            after = _before_start(connection, found)
        living: tuple[Event, ...] = ()
        if found.seq > after:
            with collecting.paused() if found.seq - after > collecting.MANY else nullcontext():
                # Row by row: all of them at once would be as many objects again.
                rows = connection.execute(SQL.living_events, (ns, run, after))
                living = tuple(map(_new_event, rows))
            found = _as_long_as(found, living)
        mail: Sequence[tuple[Any, ...]] = ()
        if found.has_mail:
            mail = connection.execute(SQL.unread_messages, (ns, run, found.inbox_read)).fetchall()
        if found.inbox_read and asked <= 0 and found.closed_at is None:
            place = (ns, run, found.inbox_read)
            mail = [*connection.execute(SQL.undecided_updates, place), *mail]
        beats = said.progress(connection, ns, run) if found.closed_at is None else ()
        if found.seq > after and is_partial(living, asked):
            living = _shared_too(connection, found, living, asked)
    finally:
        connection.execute("COMMIT")
    letters = tuple(Message(*letter) for letter in mail)
    return Loaded(found, living, letters, beats)


def _end(connection: sqlite3.Connection, ns: str, run: str) -> Loaded | None:
    connection.execute("BEGIN")
    try:
        row = connection.execute(SQL.run, (ns, run)).fetchone()
        if row is None:
            return None
        found = Run._make(row)
        if found.closed_at is None:
            return Loaded(found, (), ())
        ended = connection.execute(SQL.last_living_event, (ns, run)).fetchone()
    finally:
        connection.execute("COMMIT")
    return Loaded(found, (_new_event(ended),), ())


def _as_long_as(run: Run, events: tuple[Event, ...]) -> Run:
    """Return a row that may lag as it is after the last of its run's events, which is living."""
    if not events or events[-1].seq <= run.seq:
        return run
    last = events[-1]
    return run._replace(seq=last.seq, updated_at=max(run.updated_at, last.at))


def _shared_too(
    connection: sqlite3.Connection, run: Run, own: tuple[Event, ...], after: int
) -> tuple[Event, ...]:
    """Return living events with those that a fork shares, from `after` or `SINCE_START` on."""
    merged = forks.merged(connection, run.ns, run.id, own, max(after, 0))
    living = [event for event in merged if event.superseded_by is None]
    return tuple(since_start(living) if after == SINCE_START else living)


def message(connection: sqlite3.Connection, ns: str, run: str, id: str) -> Posted | None:
    """Return a message and the row of its run, as of one moment."""
    connection.execute("BEGIN")
    try:
        row = connection.execute(SQL.run, (ns, run)).fetchone()
        if row is None:
            return None
        told = connection.execute(SQL.message, (ns, run, id)).fetchone()
    finally:
        connection.execute("COMMIT")
    return Posted(Run._make(row), None if told is None else Message._make(told))


def secrets(connection: sqlite3.Connection, ns: str, run: str) -> tuple[Sealed, ...]:
    """Return what a run was given for its steps, encrypted."""
    rows = connection.execute(SQL.secrets_of_run, {"ns": ns, "run": run})
    return tuple(map(Sealed._make, rows))


def _before_start(connection: sqlite3.Connection, run: Run) -> int:
    """Return the number after which what is replayed of a run begins."""
    if run.generation == 1:
        return 0
    base = connection.execute(SQL.last_base, (run.ns, run.id)).fetchone()
    return 0 if base is None else base[0] - 1


def find(connection: sqlite3.Connection, filter: Filter, page: Page) -> list[Run]:
    """Return runs, newest first."""
    rows = connection.execute(*statement_of(filter, page)).fetchall()
    return list(map(Run._make, rows))[: page.limit]


def labels(connection: sqlite3.Connection, ns: str, runs: Sequence[str]) -> dict[str, Labels]:
    """Return the tags and attributes of those runs that have some."""
    rows: dict[str, list[Any]] = {}
    for run, *row in connection.execute(SQL.tags_of_runs, (ns, json.dumps(runs))):
        rows.setdefault(run, []).append(row)
    return {run: labels_of(found) for run, found in rows.items()}


def export(connection: sqlite3.Connection, ns: str, run: str) -> Export | None:
    """Return everything of a run, as of one moment."""
    connection.execute("BEGIN")
    try:
        row = connection.execute(SQL.run, (ns, run)).fetchone()
        if row is None:
            return None
        found = list(map(_new_event, connection.execute(SQL.all_events, (ns, run))))
        if found and found[0].seq > 1:
            found = forks.merged(connection, ns, run, found, 0)
        inbox = connection.execute(SQL.all_messages, (ns, run)).fetchall()
        kept = labels(connection, ns, (run,)).get(run, NO_LABELS)
        ticket = limits.ticket(connection, ns, run)
    finally:
        connection.execute("COMMIT")
    messages = tuple(map(Message._make, inbox))
    key = "" if ticket is None else ticket.key
    return Export(Run._make(row), tuple(found), messages, kept, key)
