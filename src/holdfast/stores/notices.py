"""Which notices an applied write gives."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.makers import maker
from holdfast.model.status import CLAIMABLE, CLOSED
from holdfast.model.waits import Waits
from holdfast.model.writes import (
    Advance,
    Annotate,
    Create,
    Import,
    Move,
    Notice,
    Outcome,
    Put,
    Reap,
    Report,
    Reschedule,
    Write,
)

_new_notice = maker(Notice)

FOR_WORKERS = frozenset({"ready", "mail", "moved", "job"})
"""Notices that workers of other processes should hear of too."""


def notices_of(batch: Sequence[Write], outcomes: Sequence[Outcome]) -> list[Notice]:
    """Return what listeners of this process should hear about the applied writes."""
    heard: list[Notice] = []
    for write, outcome in zip(batch, outcomes, strict=True):
        if outcome.applied and (notice := _notice(write, outcome)) is not None:
            heard.append(notice)
        if outcome.heard:
            heard.extend(outcome.heard)
        if type(write) is Advance and write.waits is not None and outcome.applied:
            heard.extend(_jobs_notice(write, write.waits))
    return heard


def _jobs_notice(write: Advance, waits: Waits) -> list[Notice]:
    """Return what workers should hear of jobs: there are new ones, or some were called off."""
    return [Notice(write.ns, write.run, "job")] if waits.jobs or waits.drops else []


def turn_notice(write: Advance) -> Notice:
    """Return what listeners should hear about an applied turn."""
    status, events, what, closing = write.status, write.events, "events", None
    if write.replies:
        what = "replied"
    if status != "running":
        if status in CLOSED:
            what, closing = "closed", events[-1]
        elif status in CLAIMABLE and write.wake_at is not None:
            what = "ready"
    return _new_notice((write.ns, write.run, what, closing, write.seq + len(events)))


def start_notice(write: Create) -> Notice:
    """Return what listeners should hear about a run that was started."""
    return Notice(write.ns, write.id, "events" if write.owner else "ready", None, 1)


def _notice(write: Write, outcome: Outcome) -> Notice | None:
    match write:
        case Advance():
            return turn_notice(write)
        case Create():
            return start_notice(write)
        case Import() if write.export.run.wake_at is not None:
            return Notice(write.export.run.ns, write.export.run.id, "ready")
        case Put():
            return Notice(write.ns, write.run, "mail")
        case Move():
            closing = write.event if write.status in CLOSED else None
            seq = outcome.run.seq if outcome.run else 0
            return Notice(write.ns, write.run, "moved", closing, seq)
        case Annotate() | Report():
            is_job = type(write) is Report and write.back_at is not None
            return Notice(write.ns, write.run, "job" if is_job else "events")
        case Reap():
            return Notice(what="ready") if outcome.total else None
        case _:
            return Notice(write.ns, "", "schedule") if type(write) is Reschedule else None
