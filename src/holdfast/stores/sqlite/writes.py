"""Each guarded write as statements. Bind, run, map: the rules are in the kernel."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from sqlite3 import Connection
from typing import Any, NamedTuple

from holdfast.model.jobs import JobClaim
from holdfast.model.labels import NO_LABELS, Labels, rows_of
from holdfast.model.makers import maker
from holdfast.model.run import SUSPECT, Message, Run
from holdfast.model.schedules import scheduled_by
from holdfast.model.secrets import Sealed
from holdfast.model.status import ASIDE, CLOSED, RunStatus
from holdfast.model.writes import (
    Advance,
    Annotate,
    Claim,
    Create,
    Define,
    Depart,
    Forget,
    Free,
    Import,
    Move,
    Outcome,
    Prune,
    Put,
    Reap,
    Renew,
    Report,
    Reschedule,
    Retire,
    Rewind,
    SetQueue,
    Write,
)
from holdfast.stores import kinship
from holdfast.stores.sqlite import caching, forks, jobs, limits, said, scheduling, waiting
from holdfast.stores.sqlite.kindred import Kindred
from holdfast.stores.sqlite.lanes import Lanes
from holdfast.stores.sqlite.rows import add_bases, event_row, whole_row
from holdfast.stores.sqlite.statements import queries

SQL = queries()
CLOSED_JSON = json.dumps(sorted(CLOSED))
ASIDE_JSON = json.dumps(sorted(ASIDE))
NO_REWIND = Rewind()
_new_run, _new_outcome = maker(Run), maker(Outcome)
OF_A_RUN = (
    SQL.delete_events, SQL.delete_bases, SQL.delete_inbox, SQL.delete_tags, SQL.delete_progress,
    SQL.delete_lines, SQL.delete_waits, SQL.delete_jobs, SQL.delete_ticket, SQL.delete_link,
    SQL.forget_fork,
    SQL.delete_run,
)  # fmt: skip


def apply(connection: Connection, write: Write, now: int) -> Outcome:
    """Carry out one write inside the open transaction, or change nothing and say so."""
    return _APPLY[type(write)](connection, write, now)


def read_run(connection: Connection, ns: str, run: str) -> Run | None:
    """Return a run's row."""
    row = connection.execute(SQL.run, (ns, run)).fetchone()
    return None if row is None else Run._make(row)


def _create(connection: Connection, write: Create, now: int) -> Outcome:
    status: RunStatus = "running" if write.owner else "pending"
    wake_at = None if write.owner else write.wake_at
    if wake_at is not None and write.deadline is not None:
        wake_at = min(wake_at, write.deadline)
    is_refused, wake_at, ticket = limits.joins(connection, write, wake_at)
    if is_refused:
        return Outcome(False, read_run(connection, write.ns, write.id))
    if connection.execute(SQL.create_run, created_row(write, status, wake_at)).rowcount != 1:
        return Outcome(False, read_run(connection, write.ns, write.id))
    connection.execute(SQL.add_event, event_row(write.ns, write.id, write.event))
    if ticket is not None:
        limits.add_ticket(connection, ticket, now)
    _add_beside(connection, write, now)
    return created(write, status, wake_at)


def created_row(write: Create, status: RunStatus, wake_at: int | None) -> tuple[object, ...]:
    """Return what a start binds to insert its run."""
    event = write.event
    return (
        write.ns, write.id, write.workflow, write.version, status, event.epoch, write.owner,
        wake_at, write.input_digest, event.at, event.at, write.deadline, write.queue,
        write.priority,
    )  # fmt: skip


def created(write: Create, status: RunStatus, wake_at: int | None) -> Outcome:
    """Return the outcome of a start that was carried out."""
    event = write.event
    run = _new_run((
        write.ns, write.id, write.workflow, write.version, status, "", 1, event.epoch, 1,
        write.owner, wake_at, int(write.message is not None), 0, 0, 0, write.input_digest,
        event.at, event.at, None, write.deadline, write.queue, write.priority,
    ))  # fmt: skip
    return _new_outcome((True, run, 0, 0, 0, "", ()))


def _add_beside(connection: Connection, write: Create, now: int) -> None:
    """Add what a start brings beside its row and its first event."""
    if write.labels is not NO_LABELS:
        _add_labels(connection, write.ns, write.id, write.labels)
    if write.defines is not None:
        _define(connection, write.defines, now)
    if write.message is not None:
        connection.execute(SQL.first_message, (write.ns, write.id))
        _add_messages(connection, write.ns, write.id, (write.message,))
    if write.secrets:
        _add_secrets(connection, write.ns, write.id, write.secrets)


def _add_secrets(connection: Connection, ns: str, run: str, secrets: tuple[Sealed, ...]) -> None:
    rows = [{"ns": ns, "run": run, **each._asdict()} for each in secrets]
    connection.executemany(SQL.put_secret, rows)


def _add_labels(connection: Connection, ns: str, run: str, labels: Labels) -> None:
    connection.executemany(SQL.add_tag, [(ns, run, *label) for label in rows_of(labels)])


def _import(connection: Connection, write: Import, now: int) -> Outcome:
    run, events, inbox, labels, _ = write.export
    row = run._asdict()
    if write.origin is not None and not forks.may_fork(connection, run, write.origin):
        return Outcome(False, read_run(connection, run.ns, run.id))
    if connection.execute(SQL.import_run, row).rowcount != 1:
        return Outcome(False, read_run(connection, run.ns, run.id))
    connection.executemany(SQL.import_event, [whole_row(run.ns, run.id, e) for e in events])
    add_bases(connection, run.ns, run.id, events)
    if write.origin is not None and write.origin.at:
        forks.add(connection, run, write.origin)
    _add_messages(connection, run.ns, run.id, inbox)
    _add_labels(connection, run.ns, run.id, labels)
    if write.export.ticket is not None:
        limits.add_ticket(connection, write.export.ticket, now)
    return Outcome(True, run)


def _add_messages(connection: Connection, ns: str, run: str, inbox: tuple[Message, ...]) -> None:
    connection.executemany(SQL.import_message, [(ns, run, *message) for message in inbox])


def _advance(connection: Connection, write: Advance, now: int) -> Outcome:
    ns, run = write.ns, write.run
    family = Kindred(connection, now, apply) if write.sends else None
    if family and (taken := kinship.taken(family, write.sends)):
        return Outcome(False, read_run(connection, ns, run), taken=taken)
    if not _settle(connection, write, now):
        return Outcome(False, read_run(connection, ns, run))
    _add_events(connection, write)
    if write.continues:
        connection.execute(SQL.continue_run, (ns, run))
        add_bases(connection, ns, run, write.events)
    if write.supersedes:
        _supersede(connection, ns, run, write.supersedes, write.superseded_by)
    if write.annotations is not None:
        said.add(connection, ns, run, write.annotations)
    if write.replies:
        rows = [(told.state, told.payload, ns, run, told.message) for told in write.replies]
        connection.executemany(SQL.reply_to_message, rows)
    if write.waits is not None:
        waiting.change(connection, ns, run, write.waits, write.at)
    inbox_seq, cancel = connection.execute(SQL.inbox_of_run, (ns, run)).fetchone()
    heard = kinship.carry_out(family, write.sends) if family else ()
    return Outcome(True, None, inbox_seq, cancel, heard=heard)


def _add_events(connection: Connection, write: Advance) -> None:
    rows = [event_row(write.ns, write.run, event) for event in write.events]
    connection.executemany(SQL.add_event, rows)


def _settle(connection: Connection, write: Advance, now: int) -> int:
    is_held = write.status == "running"
    return connection.execute(
        SQL.settle_run,
        {
            "count": len(write.events),
            "status": write.status,
            "reason": "" if is_held else write.reason,
            "wake_at": None if is_held else write.wake_at,
            "inbox_read": write.inbox_read,
            "takes_cancel": write.takes_cancel,
            "progresses": write.progresses,
            "at": write.at,
            "closed_at": write.at if write.status in CLOSED else None,
            "ns": write.ns,
            "run": write.run,
            "owner": write.owner,
            "epoch": write.epoch,
            "seq": write.seq,
            "inbox_seq": write.inbox_seq,
            "not_before": write.not_before,
            "now": now,
        },
    ).rowcount


def _put(connection: Connection, write: Put, now: int) -> Outcome:
    ns, run, message = write.ns, write.run, write.message
    if write.answers is not None and not waiting.is_open(connection, ns, run, write.answers):
        return _not_put(connection, write)
    if write.ends is not None and not jobs.is_held(connection, ns, run, write.ends):
        return _not_put(connection, write)
    row = connection.execute(
        SQL.put_in_run,
        {"ns": ns, "run": run, "message": message.id, "cancels": write.cancels, "now": now,
         "unless": write.unless, "closed": CLOSED_JSON, "aside": ASIDE_JSON},
    ).fetchone()  # fmt: skip
    if row is None:
        return _not_put(connection, write)
    changed = Run._make(row)
    connection.execute(
        SQL.add_message,
        (ns, run, message.id, changed.inbox_seq, message.kind, message.name, message.payload,
         message.at),
    )  # fmt: skip
    if write.answers is not None:
        waiting.settle(connection, ns, run, write.answers, now)
    heard = () if write.ends is None else jobs.end(connection, ns, run, write.ends)
    if write.secrets:
        _add_secrets(connection, ns, run, write.secrets)
    return Outcome(True, changed, heard=heard)


def _not_put(connection: Connection, write: Put) -> Outcome:
    ns, run = write.ns, write.run
    known = connection.execute(SQL.is_message, (ns, run, write.message.id)).fetchone()[0]
    return Outcome(False, read_run(connection, ns, run), total=known)


def _move(connection: Connection, write: Move, now: int) -> Outcome:
    ns, run, event = write.ns, write.run, write.event
    rewind = write.rewind or NO_REWIND
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
            "deadline": write.deadline,
            "strikes": write.strikes,
            "returned": len(rewind.messages),
            "forgets_cancel": rewind.forgets_cancel,
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
    if rewind.messages:
        _return(connection, changed, rewind.messages)
    family = Kindred(connection, now, apply)
    heard = [*kinship.carry_out(family, write.sends)]
    if write.status in CLOSED or write.rewind is not None:
        connection.execute(SQL.delete_progress, (ns, run))
    if write.ends_waits:
        waiting.end_all(connection, ns, run, write.ends_waits, event.at)
    if write.status in CLOSED:
        departs = Depart(ns, run, changed.generation, numbered, schedule=scheduled_by(run))
        heard += kinship.depart(family, departs)
        heard += limits.free(connection, Free(ns, run))
    return Outcome(True, changed, heard=tuple(heard))


def _return(connection: Connection, run: Run, ids: tuple[str, ...]) -> None:
    """Make messages unread again. The row's mark stands before them already."""
    here = {"ns": run.ns, "run": run.id}
    read = run.inbox_read + len(ids)
    connection.execute(SQL.return_messages, {**here, "read": read, "ids": json.dumps(ids)})
    connection.execute(SQL.number_messages, here)


def _supersede(connection: Connection, ns: str, run: str, seqs: tuple[int, ...], by: int) -> None:
    values = {"by": by, "ns": ns, "run": run, "seqs": json.dumps(seqs)}
    if connection.execute(SQL.supersede_events, values).rowcount != len(seqs):
        # Some of them are not its own: a fork may not change what it shares.
        forks.detach(connection, ns, run)
        connection.execute(SQL.supersede_events, values)


def renew(connection: Connection, write: Renew, now: int) -> Outcome:
    known = connection.execute(SQL.is_worker, (write.worker,)).fetchone()[0]
    # By the clock of whoever is furthest ahead, or that process would take us for frozen.
    ahead = connection.execute(SQL.mark_clock, (now,)).fetchone()[0]
    connection.execute(
        SQL.renew_worker,
        {"worker": write.worker, "lease_until": ahead + write.lease, "now": now,
         "address": write.address, "info": write.info},
    )  # fmt: skip
    return Outcome(True, total=1 - known)


def renew_for(connection: Connection, claim: Claim | JobClaim, now: int) -> None:
    """Extend the lease of a claimer. What it says of itself is for its renewals to change."""
    known = connection.execute(SQL.is_worker, (claim.worker,)).fetchone()[0]
    renew(connection, Renew(claim.worker, claim.lease, info="" if known else claim.info), now)


def _reap(connection: Connection, write: Reap, now: int) -> Outcome:
    known = connection.execute(SQL.is_worker, (write.worker,)).fetchone()[0]
    gone = connection.execute(
        SQL.delete_dead_worker,
        {"worker": write.worker, "known_dead": write.known_dead, "now": now},
    ).rowcount
    if known and not gone:
        return Outcome(False)
    reason = f"worker {write.worker} is gone"
    freed = connection.execute(
        SQL.release_runs_of, {"worker": write.worker, "now": now, "reason": reason}
    ).rowcount
    return Outcome(True, total=freed + jobs.release(connection, write.worker, now))


def _retire(connection: Connection, write: Retire, now: int) -> Outcome:
    held = connection.execute(SQL.is_owner, {"worker": write.worker}).fetchone()[0]
    connection.execute(SQL.retire_worker, {"worker": write.worker})
    return Outcome(not held)


def _prune(connection: Connection, write: Prune, now: int) -> Outcome:
    key = f"pruned {write.ns}"
    last = connection.execute(SQL.meta, (key,)).fetchone()
    if now - (last[0] if last else 0) < write.every:
        return Outcome(False)
    old = connection.execute(SQL.prunable_runs, (write.ns, write.before, write.limit)).fetchall()
    for (run,) in old:
        forks.detach_all(connection, write.ns, run)
        for statement in OF_A_RUN:
            connection.execute(statement, (write.ns, run))
    if old:
        connection.execute(SQL.mark_pruned, (key, now))
    return Outcome(True, total=len(old))


def _define(connection: Connection, write: Define, now: int) -> Outcome:
    connection.execute(SQL.define_workflow, {**write._asdict(), "now": now})
    return Outcome(True)


def _reschedule(connection: Connection, write: Reschedule, now: int) -> Outcome:
    return scheduling.reschedule(connection, write, now, apply)


_APPLY: Mapping[type[Any], Callable[[Connection, Any, int], Outcome]] = {
    Create: _create,
    Import: _import,
    Advance: _advance,
    Put: _put,
    Move: _move,
    Annotate: said.annotate,
    Report: jobs.report,
    Renew: renew,
    Reap: _reap,
    Retire: _retire,
    Prune: _prune,
    Define: _define,
    SetQueue: limits.set_queue,
    Reschedule: _reschedule,
    Forget: caching.forget,
}


class Taken(NamedTuple):
    """What a claim took, and what it left out because it crashed too many workers."""

    runs: tuple[Run, ...] = ()
    convicts: tuple[Run, ...] = ()
    ticketed: frozenset[str] = frozenset()


def take(connection: Connection, claim: Claim, now: int) -> Taken:
    """Claim due runs, and extend the claimer's lease unless it is new, in the open transaction."""
    lanes = Lanes(connection, claim, now)
    if lanes.lines is not None:
        lanes.lines.line_up()
        lanes = Lanes(connection, claim, now)
    chosen, convicts = _choose(lanes, claim)
    if not chosen:
        return Taken((), convicts)
    runs = hold(connection, claim, chosen, now)
    ticketed = lanes.lines.taken(chosen) if lanes.lines is not None else frozenset[str]()
    return Taken(runs, convicts, ticketed)


def hold(connection: Connection, claim: Claim, chosen: Sequence[Run], now: int) -> tuple[Run, ...]:
    """Give runs that nobody holds to the claimer, whose lease is new then; return them so."""
    lease = {"worker": claim.worker, "lease": claim.lease, "now": now}
    if not connection.execute(SQL.is_lease_new, lease).fetchone()[0]:
        renew_for(connection, claim, now)
    connection.executemany(SQL.claim_runs, [(claim.worker, now, run.ns, run.id) for run in chosen])
    # As they are written: nobody else can write in between, and RETURNING would cost more.
    return tuple(
        run._replace(
            status="running", reason="", owner=claim.worker, epoch=run.epoch + 1, wake_at=None,
            updated_at=now,
        )
        for run in chosen
    )  # fmt: skip


def _choose(lanes: Lanes, claim: Claim) -> tuple[list[Run], tuple[Run, ...]]:
    """Return the first `limit` due runs, of which at most `suspects` crashed a worker twice."""
    chosen: list[Run] = []
    convicts: list[Run] = []
    lines = lanes.lines
    due = lanes.due() if lines is None else lanes.due_and_next(lines, chosen)
    suspects = 0
    # Read one by one: a crowd of suspects at the head must not use up the limit.
    for run in due:
        if run.strikes >= SUSPECT and not (lines and run.id in lines.begun):
            if run.strikes >= claim.strikes:
                convicts.append(run)
                continue
            if suspects >= claim.suspects:
                continue
            suspects += 1
        chosen.append(run)
        if lines is not None:
            lines.takes(run)
        if len(chosen) >= claim.limit:
            break
    due.close()
    return chosen, tuple(convicts)
