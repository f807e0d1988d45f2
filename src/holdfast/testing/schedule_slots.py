"""I11: each slot of a schedule started at most one run, and none between two settled ones is lost.

What became of the last slots stands in the schedule's row. Runs that were forgotten are not missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from holdfast.errors import InvalidSchedule
from holdfast.model.dump import Dump, RunKey
from holdfast.model.schedules import TRIGGER, Past, Scheduled, iso, schedule_in

Broken = tuple[RunKey, str]


def broken_schedules(dump: Dump) -> Iterator[Broken]:
    """Yield what does not hold, each with the run or the schedule that shows it."""
    first: dict[tuple[str, str], str] = {}
    for (ns, run), events in sorted(dump.events.items()):
        if not events or any(event.kind == "run.forked" for event in events):
            continue
        key = events[0].key
        if not schedule_in(key) or f"@{TRIGGER}" in run:
            continue
        other = first.setdefault((ns, key), run)
        if other != run:
            yield (ns, run), f"{other} was started for the same slot of {schedule_in(key)}"
    for row in dump.schedules:
        yield from (((row.ns, row.id), text) for text in _gaps(row))
        if row.paused and row.next_at is not None:
            yield (row.ns, row.id), "it is paused, and due at some time"


def _gaps(row: Scheduled) -> Iterator[str]:
    settled = [past for past in row.recent if past.at > row.since]
    for before, after in pairwise(settled):
        if missing := _next(row, before, after.at):
            yield f"what became of slot {missing} is not known"
    if settled and (missing := _next(row, settled[-1], row.cursor + 1)):
        yield f"it has passed slot {missing}, and what became of that is not known"
    if settled and settled[-1].at > row.cursor:
        yield f"slot {iso(settled[-1].at)} is settled, and it goes back before that"


def _next(row: Scheduled, before: Past, end: int) -> str:
    """Return the first slot after one that is settled and before `end`, if there is one."""
    try:
        found = row.schedule.slot_after(max(before.at, before.last))
    except InvalidSchedule:
        return ""  # this host does not know its zone
    return iso(found) if found is not None and found < end else ""
