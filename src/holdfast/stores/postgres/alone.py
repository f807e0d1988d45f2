"""Writes that fit into no round: each by its own statements, in a transaction of its batch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from holdfast.model.annotations import Annotations
from holdfast.model.jobs import JobRef
from holdfast.model.run import Message, Run
from holdfast.model.schedules import scheduled_by
from holdfast.model.status import CLOSED
from holdfast.model.waits import Answer
from holdfast.model.writes import (
    Advance,
    Create,
    Define,
    Depart,
    Forget,
    Import,
    Move,
    Outcome,
    Prune,
    Put,
    Reap,
    Report,
    Reschedule,
    Retire,
    Rewind,
    SetQueue,
    Write,
)
from holdfast.stores.postgres import caching, forks, jobs, kindred, limits, scheduling
from holdfast.stores.postgres.bases import add_bases
from holdfast.stores.postgres.claims import gone
from holdfast.stores.postgres.connection import Ask
from holdfast.stores.postgres.rounds import Round, as_bytes, kept, tag_rows
from holdfast.stores.postgres.statements import queries

SQL = queries()
NO_REWIND = Rewind()


async def write_alone(ask: Ask, batch: Sequence[Write], now: int | None) -> list[Outcome]:
    """Carry out the writes one after the other inside the open transaction."""
    return [await _write(ask, write, now) for write in batch]


async def _write(ask: Ask, write: Write, now: int | None) -> Outcome:
    if isinstance(write, Create | Put) and write.secrets:
        return await _write_secrets(ask, write, now)
    if type(write) is Put and (write.answers is not None or write.ends is not None):
        return await _answer(ask, write, now)
    special = _SPECIAL.get(type(write))
    if special is not None:
        return await special(ask, write, now)
    if type(write) is Advance and write.sends:
        [outcome] = await kindred.write_turns(ask, [write], now, write_alone)
        return outcome
    if isinstance(write, Advance) and write.continues:
        return await _continue(ask, write, now)
    if type(write) is Create and write.message is not None:
        return await _create_with(ask, write, write.message, now)
    if isinstance(write, Advance) and write.supersedes:
        await forks.detach(ask, write.ns, write.run)
    return await _write_round(ask, write, now)


async def _write_secrets(ask: Ask, write: Create | Put, now: int | None) -> Outcome:
    """Keep secrets with the start, or the message, that brings them."""
    outcome = await _write(ask, write._replace(secrets=()), now)
    if outcome.applied:
        run = write.id if isinstance(write, Create) else write.run
        rows = [{"ns": write.ns, "run": run, **each._asdict()} for each in write.secrets]
        await ask.many(SQL.put_secret, rows)
    return outcome


async def _write_round(ask: Ask, write: Write, now: int | None) -> Outcome:
    alone = Round()
    alone.add(write)
    [outcome] = alone.outcomes(await ask.run(*alone.question(now)))
    return outcome


async def _continue(ask: Ask, write: Advance, now: int | None) -> Outcome:
    """Carry out a turn that continues its run: what it supersedes may be events of its own."""
    outcome = await _write(ask, write._replace(continues=False, supersedes=()), now)
    if outcome.applied:
        here = {"ns": write.ns, "run": write.run}
        await ask(SQL.continue_run, **here)
        await add_bases(ask, write.ns, write.run, write.events)
        seqs = list(write.supersedes)
        await forks.detach(ask, write.ns, write.run)
        await ask(SQL.supersede_events, **here, seqs=seqs, by=write.superseded_by)
    return outcome


async def _create_with(ask: Ask, write: Create, message: Message, now: int | None) -> Outcome:
    """Start a run with its first message: the transaction shows both at once, or neither."""
    outcome = await _write_round(ask, write._replace(message=None), now)
    if not outcome.applied or outcome.run is None:
        return outcome
    ns, run = write.ns, write.id
    await ask(SQL.first_message, ns=ns, run=run)
    await ask(SQL.import_message, ns=ns, run=run, **message._asdict())
    return Outcome(True, outcome.run._replace(inbox_seq=1))


async def read_run(ask: Ask, ns: str, run: str) -> Run | None:
    """Return a run's row."""
    rows = await ask(SQL.run, ns=ns, run=run)
    return Run._make(rows[0]) if rows else None


async def _import(ask: Ask, write: Import, now: int | None) -> Outcome:
    run, events, inbox, labels, _ = write.export
    row = {**run._asdict(), "reason": kept(run.reason)}
    if write.origin is not None and not await forks.may_fork(ask, run, write.origin):
        return Outcome(False, await read_run(ask, run.ns, run.id))
    if not await ask(SQL.import_run, **row):
        return Outcome(False, await read_run(ask, run.ns, run.id))
    here = {"ns": run.ns, "run": run.id}
    await ask.many(SQL.import_event, [here | event._asdict() for event in events])
    await add_bases(ask, run.ns, run.id, events)
    if write.origin is not None and write.origin.at:
        origin, _, at, length = write.origin
        await ask(SQL.add_fork, **here, origin=origin, at=at, length=length)
    await ask.many(SQL.import_message, [here | message._asdict() for message in inbox])
    names = ("name", "kind", "word", "number")
    rows = [here | dict(zip(names, row, strict=True)) for row in tag_rows(labels)]
    await ask.many(SQL.add_tag, rows)
    if write.export.ticket is not None:
        await limits.add_ticket(ask, write.export.ticket, now)
    return Outcome(True, run)


async def _move(ask: Ask, write: Move, now: int | None) -> Outcome:
    ns, run, event = write.ns, write.run, write.event
    rewind = write.rewind or NO_REWIND
    # The next statements begin under the lock: they see all that the last holder wrote.
    if write.status in CLOSED or write.sends:
        reached = [send.run for send in write.sends if isinstance(send, Put)]
        closes = [run] if write.status in CLOSED else []
        await kindred.lock(ask, ns, [run, *reached], closes=closes)
    else:
        await ask(SQL.lock_run, ns=ns, run=run)
    rows = await ask(
        SQL.move_run, ns=ns, run=run, status=write.status, reason=kept(write.reason),
        reopens=write.reopens, wake_at=write.wake_at, at=event.at,
        closed_at=event.at if write.status in CLOSED else None, origins=sorted(write.origins),
        seq=write.seq, deadline=write.deadline, strikes=write.strikes,
        returned=len(rewind.messages), forgets_cancel=rewind.forgets_cancel,
    )  # fmt: skip
    if not rows:
        return Outcome(False, await read_run(ask, ns, run))
    changed = Run._make(rows[0])
    [[last]] = await ask(SQL.last_event_at, ns=ns, run=run)
    numbered = event._replace(
        seq=changed.seq, epoch=changed.epoch, generation=changed.generation,
        at=max(event.at, last),
    )  # fmt: skip
    await ask(SQL.add_event, ns=ns, run=run, **numbered._asdict())
    if write.supersedes:
        seqs = list(write.supersedes)
        await forks.detach(ask, ns, run)
        await ask(SQL.supersede_events, ns=ns, run=run, seqs=seqs, by=changed.seq)
    if rewind.messages:
        # The row's mark stands before them already.
        ids, read = list(rewind.messages), changed.inbox_read + len(rewind.messages)
        await ask(SQL.return_messages, ns=ns, run=run, read=read, ids=ids)
        await ask(SQL.number_messages, ns=ns, run=run)
    heard = await kindred.carry_out(ask, ns, write.sends, now, write_alone)
    if write.status in CLOSED or write.rewind is not None:
        await ask(SQL.delete_progress, ns=ns, run=run)
    if write.ends_waits:
        await ask(SQL.end_waits, ns=ns, run=run, why=write.ends_waits, at=event.at)
        await ask(SQL.delete_jobs, ns=ns, run=run)
    if write.status in CLOSED:
        departs = Depart(ns, run, changed.generation, numbered, schedule=scheduled_by(run))
        heard += await kindred.depart(ask, [departs], now, write_alone)
        heard += await limits.free(ask, ns, [run])
    return Outcome(True, changed, heard=tuple(heard))


async def _answer(ask: Ask, write: Put, now: int | None) -> Outcome:
    """Put a message only if what it answers is open, and the job it ends is held.

    Under the run's lock nobody can end either.
    """
    ns, run, answer, job = write.ns, write.run, write.answers, write.ends
    await ask(SQL.lock_run, ns=ns, run=run)
    if not (await _is_open(ask, ns, run, answer) and await _is_held(ask, ns, run, job)):
        known = await ask(SQL.is_message, ns=ns, run=run, id=write.message.id)
        return Outcome(False, await read_run(ask, ns, run), total=len(known))
    outcome = await _write(ask, write._replace(answers=None, ends=None), now)
    if not outcome.applied:
        return outcome
    if answer is not None:
        await ask(
            SQL.answer_wait, ns=ns, run=run, key=answer.key, secret=answer.secret, by=answer.by,
            answer=answer.payload, now=now,
        )  # fmt: skip
    if job is not None:
        outcome = outcome._replace(heard=await jobs.end(ask, ns, run, job))
        await _annotate(ask, ns, run, job.annotations)
    return outcome


async def _is_open(ask: Ask, ns: str, run: str, answer: Answer | None) -> bool:
    if answer is None:
        return True
    [[found]] = await ask(SQL.is_wait_open, ns=ns, run=run, key=answer.key, secret=answer.secret)
    return bool(found)


async def _is_held(ask: Ask, ns: str, run: str, job: JobRef | None) -> bool:
    return job is None or await jobs.is_held(ask, ns, run, job)


async def _report(ask: Ask, write: Report, now: int | None) -> Outcome:
    outcome = await jobs.change(ask, write)
    if outcome.applied:
        await _annotate(ask, write.ns, write.run, write.job.annotations)
    return outcome


async def _annotate(ask: Ask, ns: str, run: str, said: Annotations | None) -> None:
    """Keep lines and heartbeats of a job, which is no part of a turn."""
    if said is None:
        return
    here = {"ns": ns, "run": run}
    lines = [
        here | line._asdict() | {"logger": as_bytes(line.logger), "message": as_bytes(line.message)}
        for line in said.lines
    ]
    if lines:
        await ask.many(SQL.add_line, lines)
    if said.progress:
        await ask.many(SQL.put_progress, [here | beat._asdict() for beat in said.progress])


async def _reap(ask: Ask, write: Reap, now: int | None) -> Outcome:
    [[is_gone, freed]] = await ask(SQL.reap_worker, **reaping(write, now))
    return Outcome(is_gone, total=freed)


def reaping(reap: Reap, now: int | None) -> dict[str, Any]:
    """Return what the statement is given that takes the runs of a worker."""
    reason = gone(reap.worker)
    return {"worker": reap.worker, "known_dead": reap.known_dead, "now": now, "reason": reason}


async def _retire(ask: Ask, write: Retire, now: int | None) -> Outcome:
    [[holds]] = await ask(SQL.is_owner, worker=write.worker)
    await ask(SQL.retire_worker, worker=write.worker)
    return Outcome(not holds)


async def _prune(ask: Ask, write: Prune, now: int | None) -> Outcome:
    key = f"pruned {write.ns}"
    [[lately]] = await ask(SQL.is_pruned_lately, key=key, now=now, every=write.every)
    if lately:
        return Outcome(False)
    old = await ask(SQL.prunable_runs, ns=write.ns, before=write.before, limit=write.limit)
    if old:
        ids = [run for (run,) in old]
        await forks.detach_all(ask, write.ns, ids)
        await ask(SQL.prune_runs, ns=write.ns, ids=ids)
        await ask(SQL.mark_pruned, key=key, now=now)
    return Outcome(True, total=len(old))


async def _define(ask: Ask, write: Define, now: int | None) -> Outcome:
    await ask(SQL.define_workflow, **write._asdict(), now=now)
    return Outcome(True)


async def _reschedule(ask: Ask, write: Reschedule, now: int | None) -> Outcome:
    return await scheduling.reschedule(ask, write, now, write_alone)


_SPECIAL: Mapping[type[Any], Callable[[Ask, Any, int | None], Awaitable[Outcome]]] = {
    Import: _import,
    Move: _move,
    Report: _report,
    Reap: _reap,
    Retire: _retire,
    Prune: _prune,
    Define: _define,
    SetQueue: limits.set_queue,
    Reschedule: _reschedule,
    Forget: caching.forget,
}
