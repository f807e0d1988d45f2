"""Claiming: look, take with SKIP LOCKED, one round trip each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.model.writes import Claim, Claimed
from holdfast.stores import processes
from holdfast.stores.postgres.statements import queries
from holdfast.stores.postgres.target import Row

SQL = queries()
EVENT = slice(2, 14)
RUN = slice(14, 34)
MOST = 1 << 31
"""More strikes than any run has."""


def looking(claim: Claim, now: int | None) -> dict[str, Any]:
    """Return what the look at the queue is given."""
    return {
        "ns": claim.ns, "worker": claim.worker, "workflows": list(claim.workflows),
        "suspects": claim.suspects, "now": now,
    }  # fmt: skip


def taking(claim: Claim, now: int | None) -> dict[str, Any]:
    """Return what the taking statement is given."""
    return {
        **looking(claim, now),
        "limit": claim.limit,
        "strikes": min(claim.strikes, MOST),
        "lease": claim.lease,
        "address": processes.this(),
        "info": claim.info,
    }


def seen(row: Row, taken: Claimed) -> Claimed:
    """Add what a look saw, before or after it, to what was taken."""
    _, _, next_wake_at, held, mail, expired, unregistered, living = row
    return taken._replace(
        mail=tuple(sorted({*(mail or ()), *(run.id for run in taken.runs if run.has_mail)})),
        held=frozenset(held or ()).union(run.id for run in taken.runs),
        dead=(*((worker, False) for worker in expired or ()), *_ended(living or ())),
        unregistered=tuple(sorted(unregistered or ())),
        next_wake_at=next_wake_at,
    )


def _ended(living: Iterable[str]) -> Iterable[tuple[str, bool]]:
    """Yield those whose lease is not over, but whose process, one of this machine's, is."""
    for holder in living:
        worker, _, address = holder.partition(" ")
        if processes.has_ended(address):
            yield worker, True


def taken(rows: list[Row]) -> Claimed:
    """Return the runs that were taken, oldest first, and those that were not because of strikes."""
    runs = tuple(Run._make(row[RUN]) for row in rows if row[1])
    convicts = tuple(Run._make(row[RUN]) for row in rows if not row[1])
    first = {
        row[RUN][1]: Event._make(row[EVENT])
        for row in rows
        if row[1] and row[EVENT.start] is not None
    }
    return Claimed(runs=runs, first_events=first, convicts=convicts)
