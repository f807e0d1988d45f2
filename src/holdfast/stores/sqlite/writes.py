"""Each guarded write as statements. Bind, run, map: the rules are in the kernel."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from sqlite3 import Connection
from typing import Any

from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.model.status import CLOSED, RunStatus
from holdfast.model.writes import (
    Advance,
    Claim,
    Create,
    Define,
    Move,
    Outcome,
    Prune,
    Put,
    Reap,
    Renew,
    Retire,
    Write,
)
from holdfast.stores.sqlite.statements import queries

SQL = queries()
CLOSED_JSON = json.dumps(sorted(CLOSED))


def apply(connection: Connection, write: Write, now: int) -> Outcome:
    """Carry out one write inside the open transaction, or change nothing and say so."""
    return _APPLY[type(write)](connection, write, now)


def read_run(connection: Connection, ns: str, run: str) -> Run | None:
    """Return a run's row."""
    row = connection.execute(SQL.run, (ns, run)).fetchone()
    return None if row is None else Run._make(row)


def event_row(ns: str, run: str, event: Event) -> tuple[object, ...]:
    """Return an event in the order of the table's columns."""
    kind, at, key, payload, asked_seq, digest, took, seq, epoch, generation, codec, _ = event
    return (ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload)


def _create(connection: Connection, write: Create, now: int) -> Outcome:
    event = write.event
    status: RunStatus = "running" if write.owner else "pending"
    wake_at = None if write.owner else write.wake_at
    added = connection.execute(
        SQL.create_run,
        (write.ns, write.id, write.workflow, write.version, status, event.epoch, write.owner,
         wake_at, write.input_digest, event.at, event.at),
    ).rowcount  # fmt: skip
    if added != 1:
        return Outcome(False, read_run(connection, write.ns, write.id))
    connection.execute(SQL.add_event, event_row(write.ns, write.id, event))
    if write.defines is not None:
        _define(connection, write.defines, now)
    run = Run(
        write.ns, write.id, write.workflow, write.version, status, "", 1, event.epoch, 1,
        write.owner, wake_at, 0, 0, 0, 0, write.input_digest, event.at, event.at, None,
    )  # fmt: skip
    return Outcome(True, run)


def _advance(connection: Connection, write: Advance, now: int) -> Outcome:
    ns, run = write.ns, write.run
    if settles(write):
        changed = _settle(connection, write, now)
    elif write.known_inbox is not None and _go_on_without_mail(connection, write):
        _add_events(connection, write)
        return Outcome(True, None, write.known_inbox)
    else:
        changed = _go_on(connection, write)
    if not changed:
        return Outcome(False, read_run(connection, ns, run))
    _add_events(connection, write)
    if write.supersedes:
        _supersede(connection, ns, run, write.supersedes, write.superseded_by)
    inbox_seq, cancel = connection.execute(SQL.inbox_of_run, (ns, run)).fetchone()
    return Outcome(True, None, inbox_seq, cancel)


def _add_events(connection: Connection, write: Advance) -> None:
    ns, run, events = write.ns, write.run, write.events
    if len(events) == 1:
        connection.execute(SQL.add_event, event_row(ns, run, events[0]))
    elif events:
        connection.executemany(SQL.add_event, [event_row(ns, run, event) for event in events])


def settles(write: Advance) -> bool:
    """Tell whether more is changed or guarded than the history: status, inbox, fired timers."""
    return (
        write.status != "running"
        or not write.events
        or write.inbox_read is not None
        or write.inbox_seq is not None
        or write.not_before > 0
        or write.takes_cancel
        or write.supersedes != ()
    )


def _go_on(connection: Connection, write: Advance) -> int:
    return connection.execute(
        SQL.advance_run,
        (len(write.events), write.at, write.ns, write.run, write.epoch, write.seq),
    ).rowcount


def _go_on_without_mail(connection: Connection, write: Advance) -> int:
    return connection.execute(
        SQL.advance_run_without_mail,
        (len(write.events), write.at, write.ns, write.run, write.epoch, write.seq,
         write.known_inbox),
    ).rowcount  # fmt: skip


def _settle(connection: Connection, write: Advance, now: int) -> int:
    is_held = write.status == "running"
    return connection.execute(
        SQL.settle_run,
        {
            "count": len(write.events),
            "status": write.status,
            "reason": "" if is_held else write.reason,
            "owner": write.owner,
            "wake_at": None if is_held else write.wake_at,
            "inbox_read": write.inbox_read,
            "takes_cancel": write.takes_cancel,
            "at": write.at,
            "closed_at": write.at if write.status in CLOSED else None,
            "ns": write.ns,
            "run": write.run,
            "epoch": write.epoch,
            "seq": write.seq,
            "inbox_seq": write.inbox_seq,
            "not_before": write.not_before,
            "now": now,
        },
    ).rowcount


def _put(connection: Connection, write: Put, now: int) -> Outcome:
    ns, run, message = write.ns, write.run, write.message
    row = connection.execute(
        SQL.put_in_run,
        {"ns": ns, "run": run, "message": message.id, "cancels": write.cancels, "now": now,
         "unless": write.unless, "closed": CLOSED_JSON},
    ).fetchone()  # fmt: skip
    if row is None:
        known = connection.execute(SQL.is_message, (ns, run, message.id)).fetchone()[0]
        return Outcome(False, read_run(connection, ns, run), total=known)
    changed = Run._make(row)
    connection.execute(
        SQL.add_message,
        (ns, run, message.id, changed.inbox_seq, message.kind, message.name, message.payload,
         message.at),
    )  # fmt: skip
    return Outcome(True, changed)


def _move(connection: Connection, write: Move, now: int) -> Outcome:
    ns, run, event = write.ns, write.run, write.event
    row = connection.execute(
        SQL.move_run,
        {
            "ns": ns,
            "run": run,
            "status": write.status,
            "reason": write.reason,
            "reopens": write.reopens,
            "wake_at": write.wake_at,
            "at": event.at,
            "closed_at": event.at if write.status in CLOSED else None,
            "origins": json.dumps(sorted(write.origins)),
            "seq": write.seq,
        },
    ).fetchone()
    if row is None:
        return Outcome(False, read_run(connection, ns, run))
    changed = Run._make(row)
    last = connection.execute(SQL.last_event_at, (ns, run)).fetchone()[0]
    numbered = event._replace(
        seq=changed.seq,
        epoch=changed.epoch,
        generation=changed.generation,
        at=max(event.at, last),
    )
    connection.execute(SQL.add_event, event_row(ns, run, numbered))
    if write.supersedes:
        _supersede(connection, ns, run, write.supersedes, changed.seq)
    return Outcome(True, changed)


def _supersede(connection: Connection, ns: str, run: str, seqs: tuple[int, ...], by: int) -> None:
    connection.execute(
        SQL.supersede_events, {"by": by, "ns": ns, "run": run, "seqs": json.dumps(seqs)}
    )


def _renew(connection: Connection, write: Renew, now: int) -> Outcome:
    known = connection.execute(SQL.is_worker, (write.worker,)).fetchone()[0]
    connection.execute(
        SQL.renew_worker,
        {"worker": write.worker, "lease_until": now + write.lease, "now": now,
         "address": write.address, "info": write.info},
    )  # fmt: skip
    connection.execute(SQL.mark_clock, (now,))
    return Outcome(True, total=1 - known)


def _reap(connection: Connection, write: Reap, now: int) -> Outcome:
    known = connection.execute(SQL.is_worker, (write.worker,)).fetchone()[0]
    gone = connection.execute(
        SQL.delete_dead_worker,
        {"worker": write.worker, "known_dead": write.known_dead, "now": now},
    ).rowcount
    if known and not gone:
        return Outcome(False)
    freed = connection.execute(SQL.release_runs_of, {"worker": write.worker, "now": now}).rowcount
    return Outcome(True, total=freed)


def _retire(connection: Connection, write: Retire, now: int) -> Outcome:
    held = connection.execute(SQL.is_owner, (write.worker,)).fetchone()[0]
    connection.execute(SQL.retire_worker, {"worker": write.worker})
    return Outcome(not held)


def _prune(connection: Connection, write: Prune, now: int) -> Outcome:
    old = connection.execute(SQL.prunable_runs, (write.ns, write.before, write.limit)).fetchall()
    for (run,) in old:
        for statement in (SQL.delete_events, SQL.delete_inbox, SQL.delete_run):
            connection.execute(statement, (write.ns, run))
    return Outcome(True, total=len(old))


def _define(connection: Connection, write: Define, now: int) -> Outcome:
    connection.execute(SQL.define_workflow, {**write._asdict(), "now": now})
    return Outcome(True)


_APPLY: Mapping[type[Any], Callable[[Connection, Any, int], Outcome]] = {
    Create: _create,
    Advance: _advance,
    Put: _put,
    Move: _move,
    Renew: _renew,
    Reap: _reap,
    Retire: _retire,
    Prune: _prune,
    Define: _define,
}


def take(connection: Connection, claim: Claim, now: int) -> tuple[Run, ...]:
    """Claim due runs and extend the claimer's lease, inside the open transaction."""
    ids = _choose(connection, claim, now)
    if not ids:
        return ()
    _renew(connection, Renew(claim.worker, claim.lease, info=claim.info), now)
    rows = connection.execute(
        SQL.claim_runs, {"ns": claim.ns, "worker": claim.worker, "now": now, "ids": json.dumps(ids)}
    ).fetchall()
    order = {run: place for place, run in enumerate(ids)}
    return tuple(sorted(map(Run._make, rows), key=lambda run: order[run.id]))


def _choose(connection: Connection, claim: Claim, now: int) -> list[str]:
    """Return the first `limit` due runs, of which at most `suspects` crashed a worker twice."""
    due = connection.execute(
        SQL.claimable_runs,
        {"ns": claim.ns, "now": now, "workflows": json.dumps(claim.workflows),
         "suspects": claim.suspects, "limit": -1},
    )  # fmt: skip
    ids: list[str] = []
    suspects = 0
    # Read one by one: a crowd of suspects at the head must not use up the limit.
    for run, strikes in due:
        if strikes >= 2:
            if suspects >= claim.suspects:
                continue
            suspects += 1
        ids.append(run)
        if len(ids) >= claim.limit:
            break
    due.close()
    return ids
