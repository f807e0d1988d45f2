"""How each guarded write changes the tables: check the guard first, then change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.model.annotations import Annotations
from holdfast.model.cache import CachedResult
from holdfast.model.definitions import Definition
from holdfast.model.events import Event
from holdfast.model.family import Kin, Link
from holdfast.model.run import CANCEL_DELIVERED, CANCEL_REQUESTED, NOT_CANCELLED, Run
from holdfast.model.schedules import scheduled_by
from holdfast.model.status import ASIDE, CLOSED
from holdfast.model.travel import shared
from holdfast.model.waits import Answer, Waits
from holdfast.model.writes import (
    Advance,
    Annotate,
    Create,
    Define,
    Depart,
    Forget,
    Free,
    Import,
    Move,
    Notice,
    Origin,
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
from holdfast.stores.memory import caching, jobs, limits
from holdfast.stores.memory.tables import RunKey, Tables, every
from holdfast.stores.notices import notices_of

NOTHING = Annotations()


def apply(tables: Tables, write: Write, now: int) -> Outcome:
    """Carry out one write, or leave everything as it is and say so."""
    return _APPLY[type(write)](tables, write, now)


def _create(tables: Tables, write: Create, now: int) -> Outcome:
    key = (write.ns, write.id)
    if key in tables.runs:
        return Outcome(False, tables.runs[key])
    if not limits.may_be_born(tables, write):
        return Outcome(False)
    owned = write.owner is not None
    run = Run(
        ns=write.ns, id=write.id, workflow=write.workflow, version=write.version,
        status="running" if owned else "pending", reason="", generation=1, epoch=int(owned),
        seq=1, owner=write.owner, wake_at=None if owned else _first_wake(write),
        inbox_seq=int(write.message is not None),
        inbox_read=0, cancel=0, strikes=0, input_digest=write.input_digest,
        created_at=write.event.at, updated_at=write.event.at, closed_at=None,
        deadline=write.deadline, queue=write.queue, priority=write.priority,
    )  # fmt: skip
    tables.put_run(run)
    tables.add_event(key, write.event)
    tables.put_labels(key, write.labels)
    if write.defines is not None:
        _define(tables, write.defines, now)
    if write.message is not None:
        tables.put_message(key, write.message)
    tables.put_secrets(key, write.secrets)
    return Outcome(True, run if owned else limits.line_up_new(tables, write, run, now))


def _import(tables: Tables, write: Import, now: int) -> Outcome:
    run, events, inbox, labels, _ = write.export
    key = (run.ns, run.id)
    if key in tables.runs:
        return Outcome(False, tables.runs[key])
    if write.origin is not None:
        origin = tables.runs.get((run.ns, write.origin.run))
        if origin is None or origin.created_at != write.origin.created_at:
            return Outcome(False)
        events = _with_shared(tables, run.ns, write.origin, events)
    tables.put_run(run)
    for event in events:
        tables.add_event(key, event)
    for message in inbox:
        tables.put_message(key, message)
    tables.put_labels(key, labels)
    if write.export.ticket is not None:
        limits.add_ticket(tables, write.export.ticket, now)
    return Outcome(True, run)


def _with_shared(
    tables: Tables, ns: str, origin: Origin, own: Sequence[Event]
) -> tuple[Event, ...]:
    """Copy what a fork shares; the other stores refer to it."""
    found = shared(tables.events[ns, origin.run], origin.at, origin.length)
    merged = {event.seq: event for event in (*found, *own)}
    return tuple(merged[seq] for seq in sorted(merged))


def _first_wake(write: Create) -> int:
    return write.wake_at if write.deadline is None else min(write.wake_at, write.deadline)


def _advance(tables: Tables, write: Advance, now: int) -> Outcome:
    key = (write.ns, write.run)
    run = tables.runs.get(key)
    if run is None or not _may_advance(run, write, now):
        return Outcome(False, run)
    family = Kindred(tables, now) if write.sends else None
    if family and (taken := kinship.taken(family, write.sends)):
        return Outcome(False, run, taken=taken)
    is_held = write.status == "running"
    changed = run._replace(
        status=write.status,
        reason="" if is_held else write.reason,
        seq=run.seq + len(write.events),
        generation=run.generation + int(write.continues),
        owner=run.owner if is_held else None,
        wake_at=None if is_held else write.wake_at,
        inbox_read=run.inbox_read if write.inbox_read is None else write.inbox_read,
        cancel=CANCEL_DELIVERED if write.takes_cancel else run.cancel,
        strikes=0 if write.progresses else run.strikes,
        updated_at=write.at,
        closed_at=write.at if write.status in CLOSED else None,
    )
    tables.put_run(changed)
    for event in write.events:
        tables.add_event(key, event)
    for seq in write.supersedes:
        tables.supersede(key, seq, write.superseded_by)
    if write.annotations is not None:
        _add(tables, key, write.annotations)
    for told in write.replies:
        message = tables.inbox[key][told.message]
        tables.put_message(key, message._replace(state=told.state, reply=told.payload))
    if write.waits is not None:
        _wait(tables, key, write.waits, write.at)
    heard = kinship.carry_out(family, write.sends) if family else ()
    return Outcome(True, None, changed.inbox_seq, changed.cancel, heard=heard)


def _may_advance(run: Run, write: Advance, now: int) -> bool:
    return (
        run.status == "running"
        and (run.owner, run.epoch) == (write.owner, write.epoch)
        and run.seq == write.seq
        and (run.cancel != CANCEL_REQUESTED or write.takes_cancel)
        and (write.inbox_seq is None or run.inbox_seq == write.inbox_seq)
        and now >= write.not_before
    )


class Kindred:
    """The tables as `kinship` asks them."""

    def __init__(self, tables: Tables, now: int) -> None:
        self._tables, self._now = tables, now

    def run(self, ns: str, id: str) -> Run | None:
        """Return a run's row."""
        return self._tables.runs.get((ns, id))

    def link(self, ns: str, run: str) -> Link | None:
        """Return what ties a run to its parent."""
        return self._tables.children.get((ns, run))

    def children(self, ns: str, parent: str) -> list[Kin]:
        """Return the open children of a run."""
        links = sorted(self._tables.children.items())
        of_parent = [
            Kin(run, link) for (at, run), link in links if (at, link.parent) == (ns, parent)
        ]
        runs = self._tables.runs
        return [kin for kin in of_parent if runs[ns, kin.run].status not in CLOSED]

    def tie(self, ns: str, run: str, link: Link) -> None:
        """Keep a link."""
        self._tables.put_link((ns, run), link)

    def closing(self, ns: str, run: str) -> Event:
        """Return the event that closed a run: the last that counts."""
        events = self._tables.events[ns, run]
        return next(event for event in reversed(events) if event.superseded_by is None)

    def rouse(self, ns: str, schedule: str) -> bool:
        """Have a schedule looked at whose slots may wait for a run that closes."""
        row = self._tables.schedules.get((ns, schedule))
        if row is None or row.buffered < 0:
            return False
        is_due = row.buffered > 0 and not row.paused
        changed = row._replace(revision=row.revision + 1)
        self._tables.put_schedule(
            (ns, schedule), changed._replace(next_at=self._now) if is_due else changed
        )
        return is_due

    def apply(self, write: Write) -> Outcome:
        """Carry out one write."""
        return apply(self._tables, write, self._now)

    def free(self, write: Free) -> list[Notice]:
        """Give back what a run has at its queue."""
        return limits.free(self._tables, write)

    def remember(self, kept: CachedResult) -> None:
        """Keep a result for later calls."""
        self._tables.put_cached(kept)


def _put(tables: Tables, write: Put, now: int) -> Outcome:
    key = (write.ns, write.run)
    run = tables.runs.get(key)
    if run is None:
        return Outcome(False)
    if write.message.id in tables.inbox[key]:
        return Outcome(False, run, total=1)
    if run.status in CLOSED or run.status == write.unless or (write.cancels and run.cancel):
        return Outcome(False, run)
    frees = write.ends is not None and jobs.is_managed(tables, key, write.ends)
    if not _settled(tables, key, write, now):
        return Outcome(False, run)
    place = run.inbox_seq + 1
    changed = run._replace(
        inbox_seq=place,
        cancel=CANCEL_REQUESTED if write.cancels else run.cancel,
        wake_at=now if run.status == "waiting" else run.wake_at,
    )
    if write.cancels:
        changed = changed._replace(strikes=0)
        if run.status in ASIDE:
            changed = changed._replace(status="waiting", wake_at=now)
        elif run.status == "pending":
            changed = changed._replace(wake_at=min(run.wake_at or now, now))
    tables.put_run(changed)
    tables.put_message(key, write.message._replace(n=place))
    tables.put_secrets(key, write.secrets)
    return Outcome(True, changed, heard=(Notice(write.ns, "", "ready"),) if frees else ())


def _settled(tables: Tables, key: RunKey, write: Put, now: int) -> bool:
    """Keep what a message answers, and end the job it is of; False if either is not to be."""
    job = write.ends
    if job is not None and not jobs.is_held(tables, key, job):
        return False
    if write.answers is not None and not _answered(tables, key, write.answers, now):
        return False
    if job is not None:
        tables.drop_jobs(key, job.key)
        _add(tables, key, job.annotations or NOTHING)
    return True


def _move(tables: Tables, write: Move, now: int) -> Outcome:
    key = (write.ns, write.run)
    run = tables.runs.get(key)
    if run is None or run.status not in write.origins or run.strikes < write.strikes:
        return Outcome(False, run)
    if write.seq is not None and run.seq != write.seq:
        return Outcome(False, run)
    changed = run._replace(
        status=write.status,
        reason=write.reason,
        seq=run.seq + 1,
        epoch=run.epoch + 1,
        generation=run.generation + int(write.reopens),
        owner=None,
        wake_at=write.wake_at,
        strikes=0,
        updated_at=write.event.at,
        closed_at=write.event.at if write.status in CLOSED else None,
        deadline=write.deadline if write.reopens else run.deadline,
    )
    tables.put_run(changed)
    event = write.event._replace(
        seq=changed.seq, epoch=changed.epoch, generation=changed.generation,
        at=max(write.event.at, tables.events[key][-1].at),
    )  # fmt: skip
    tables.add_event(key, event)
    for seq in write.supersedes:
        tables.supersede(key, seq, changed.seq)
    if write.rewind is not None:
        changed = _rewind(tables, changed, write.rewind)
    heard = [*kinship.carry_out(Kindred(tables, now), write.sends)]
    if write.status in CLOSED or write.rewind is not None:
        tables.drop_progress(key)
    if write.ends_waits:
        overs = tuple((each, write.ends_waits) for each in tables.waits.get(key, {}))
        _wait(tables, key, Waits(overs=overs), write.event.at)
        tables.drop_jobs(key, *tables.jobs.get(key, {}))
    if write.status in CLOSED:
        schedule = scheduled_by(write.run)
        departs = Depart(write.ns, write.run, changed.generation, event, schedule=schedule)
        heard += kinship.depart(Kindred(tables, now), departs)
        heard += limits.free(tables, Free(write.ns, write.run))
    return Outcome(True, changed, heard=tuple(heard))


def _rewind(tables: Tables, run: Run, rewind: Rewind) -> Run:
    key, ids = (run.ns, run.id), rewind.messages
    inbox = sorted(tables.inbox[key].values(), key=lambda message: message.n)
    unread = [message for message in inbox if message.n > run.inbox_read]
    read = [message for message in inbox if message.n <= run.inbox_read]
    stay = [message for message in read if message.id not in ids]
    again = [message for message in read if message.id in ids]
    again = [message._replace(state="", reply=None) for message in again]
    for n, message in enumerate((*stay, *again, *unread), start=1):
        tables.put_message(key, message._replace(n=n))
    forgets = rewind.forgets_cancel and run.cancel == CANCEL_DELIVERED
    rewound = run._replace(
        inbox_read=run.inbox_read - len(ids), cancel=NOT_CANCELLED if forgets else run.cancel
    )
    tables.put_run(rewound)
    return rewound


def _annotate(tables: Tables, write: Annotate, now: int) -> Outcome:
    key = (write.ns, write.run)
    run = tables.runs.get(key)
    if run is None or run.status != "running":
        return Outcome(False)
    if (run.owner, run.epoch) != (write.owner, write.epoch):
        return Outcome(False)
    _add(tables, key, write.annotations)
    if write.moves_on:
        tables.put_run(run._replace(strikes=0))
    return Outcome(True)


def _add(tables: Tables, key: RunKey, said: Annotations) -> None:
    for line in said.lines:
        tables.add_line(key, line)
    for beat in said.progress:
        tables.put_progress(key, beat)
    if said.forgets:
        tables.drop_progress(key, *said.forgets)


def _wait(tables: Tables, key: RunKey, waits: Waits, at: int) -> None:
    for wait in waits.opens:
        tables.put_wait(wait)
    for each, why in waits.overs:
        found = tables.waits.get(key, {}).get(each)
        if found is not None and found.state == "open":
            tables.put_wait(found._replace(state="over", settled_at=at, why=why))
    for job in waits.jobs:
        tables.put_job(job)
    if waits.drops:
        tables.drop_jobs(key, *waits.drops)


def _answered(tables: Tables, key: RunKey, answer: Answer, now: int) -> bool:
    found = tables.waits.get(key, {}).get(answer.key)
    if found is None or found.state != "open" or found.secret != answer.secret:
        return False
    tables.put_wait(
        found._replace(state="answered", settled_at=now, by=answer.by, answer=answer.payload)
    )
    return True


def _report(tables: Tables, write: Report, now: int) -> Outcome:
    key = (write.ns, write.run)
    if not jobs.is_held(tables, key, write.job):
        return Outcome(False)
    _add(tables, key, write.job.annotations or NOTHING)
    job = tables.jobs[key][write.job.key]
    if write.moves_on:
        job = job._replace(strikes=0)
    if write.back_at is not None:
        job = job._replace(owner=None, begun_at=None, wake_at=write.back_at)
    tables.put_job(job)
    return Outcome(True)


def _renew(tables: Tables, write: Renew, now: int) -> Outcome:
    fresh = write.worker not in tables.workers
    tables.put_worker(write.worker, now + write.lease)
    return Outcome(True, total=int(fresh))


def _reap(tables: Tables, write: Reap, now: int) -> Outcome:
    if not write.known_dead and tables.workers.get(write.worker, 0) > now:
        return Outcome(False)
    tables.drop_worker(write.worker)
    held = [run for run in tables.runs.values() if run.owner == write.worker]
    for run in held:
        tables.put_run(
            run._replace(
                status="waiting",
                owner=None,
                wake_at=now,
                strikes=run.strikes + 1,
                reason=f"worker {write.worker} is gone",
            )
        )
    return Outcome(True, total=len(held) + jobs.release(tables, write.worker, now))


def _retire(tables: Tables, write: Retire, now: int) -> Outcome:
    if any(run.owner == write.worker for run in tables.runs.values()):
        return Outcome(False)
    if any(job.owner == write.worker for job in every(tables)):
        return Outcome(False)
    tables.drop_worker(write.worker)
    return Outcome(True)


def _prune(tables: Tables, write: Prune, now: int) -> Outcome:
    if now - tables.pruned.get(write.ns, 0) < write.every:
        return Outcome(False)
    old = [
        run
        for run in tables.runs.values()
        if run.ns == write.ns and run.closed_at is not None and run.closed_at < write.before
    ]
    old.sort(key=lambda run: (run.closed_at or 0, run.id))
    for run in old[: write.limit]:
        tables.drop_run((run.ns, run.id))
    if old:
        tables.put_pruned(write.ns, now)
    return Outcome(True, total=len(old[: write.limit]))


def _define(tables: Tables, write: Define, now: int) -> Outcome:
    before = tables.definitions.get(write)
    first_at, last_at = (now, now) if before is None else (before.first_at, before.last_at)
    tables.put_definition(write, Definition(*write, first_at, max(last_at, now)))
    return Outcome(True)


def _reschedule(tables: Tables, write: Reschedule, now: int) -> Outcome:
    key = (write.ns, write.id)
    found = tables.schedules.get(key)
    if (found and found.revision) != write.revision or now < write.not_before:
        return Outcome(False)
    tables.put_schedule(key, write.row)
    outcomes = [apply(tables, send, now) for send in write.sends]
    return Outcome(True, heard=tuple(notices_of(write.sends, outcomes)))


_APPLY: Mapping[type[Any], Callable[[Tables, Any, int], Outcome]] = {
    Create: _create,
    Import: _import,
    Advance: _advance,
    Put: _put,
    Move: _move,
    Annotate: _annotate,
    Report: _report,
    Renew: _renew,
    Reap: _reap,
    Retire: _retire,
    Prune: _prune,
    Define: _define,
    SetQueue: limits.set_queue,
    Reschedule: _reschedule,
    Forget: caching.forget,
}
