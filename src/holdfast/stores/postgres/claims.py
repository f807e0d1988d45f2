"""Claiming: look, take with SKIP LOCKED, one round trip each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.model.events import Event
from holdfast.model.queues import NEGLECTED, PRIORITIES
from holdfast.model.run import Run
from holdfast.model.writes import Claim, Claimed
from holdfast.stores import processes
from holdfast.stores.postgres.statements import Statement, fragments, statement
from holdfast.stores.postgres.target import Row


def _along_the_lanes(name: str, which_queues: str, which_runs: str) -> Statement:
    texts = fragments()
    which_queues, which_runs = (texts.get(each, each) for each in (which_queues, which_runs))
    text = "\n".join((texts["lanes"], texts[name]))
    text = text.replace(":of_these_queues", which_queues).replace(":of_these_runs", which_runs)
    return statement(text)


TAKE = _along_the_lanes("claim_runs", "lanes_unmanaged", "true")
TAKE_BEGUN = _along_the_lanes("claim_runs", "true", "runs_begun")
LOOK = _along_the_lanes("look", "true", "true")
TAKEN = 2
EVENT = slice(3, 15)
RUN = slice(15, 37)
MOST = 1 << 31
"""More strikes than any run has."""


def looking(claim: Claim, now: int | None) -> dict[str, Any]:
    """Return what the look at the queue is given."""
    return {
        "ns": claim.ns, "worker": claim.worker, "workflows": list(claim.workflows),
        "suspects": claim.suspects, "now": now, "neglected": NEGLECTED,
        "queues": None if claim.queues is None else list(claim.queues), "priorities": PRIORITIES,
        "schedules": claim.schedules,
    }  # fmt: skip


def taking(claim: Claim, now: int | None) -> dict[str, Any]:
    """Return what the taking statement is given."""
    return {
        **looking(claim, now),
        "limit": claim.limit,
        "hints": list(claim.hints),
        "names_convicts": claim.suspects > 0,
        "strikes": min(claim.strikes, MOST),
        "lease": claim.lease,
        "address": processes.this(),
        "info": claim.info,
    }


def taking_over(claim: Claim, worker: str, process: str, now: int | None) -> dict[str, Any]:
    """Return what the statement is given that takes a dead worker's runs for another."""
    return {**taking(claim, now), "dead": worker, "ended": process, "reason": gone(worker)}


def gone(worker: str) -> str:
    """Return why runs that it held are held no more."""
    return f"worker {worker} is gone"


def seen(row: Row, taken: Claimed) -> Claimed:
    """Add what a look saw, before or after it, to what was taken."""
    _, _, next_wake_at, held, mail, expired, unregistered, living, unserved, _, schedule_at = row
    return taken._replace(
        mail=tuple(sorted({*(mail or ()), *(run.id for run in taken.runs if run.has_mail)})),
        held=frozenset(held or ()).union(run.id for run in taken.runs),
        dead=(*((worker, False) for worker in expired or ()), *_ended(living or ())),
        unregistered=tuple(sorted(unregistered or ())),
        unserved=tuple(sorted(unserved or ())),
        next_wake_at=next_wake_at,
        schedule_at=schedule_at,
    )


def _ended(living: Iterable[str]) -> Iterable[tuple[str, bool]]:
    """Yield those whose lease is not over, but whose process, one of this machine's, is."""
    for holder in living:
        worker, _, address = holder.partition(" ")
        if processes.has_ended(address):
            yield worker, True


def taken(rows: list[Row]) -> Claimed:
    """Return the runs that were taken, in order, and those that were not because of strikes."""
    runs = tuple(Run._make(row[RUN]) for row in rows if row[TAKEN])
    convicts = tuple(Run._make(row[RUN]) for row in rows if not row[TAKEN])
    first = {
        row[RUN][1]: Event._make(row[EVENT])
        for row in rows
        if row[TAKEN] and row[EVENT.start] is not None
    }
    return Claimed(runs=runs, first_events=first, convicts=convicts)
