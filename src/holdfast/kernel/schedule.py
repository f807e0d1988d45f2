"""Schedules: what each command makes of the row it was decided on.

Every one becomes a `Reschedule`, guarded by the revision of that row. Who is refused reads the row
again and decides anew.
"""

from __future__ import annotations

from holdfast.errors import InvalidSchedule
from holdfast.kernel.firing import Firing
from holdfast.model.commands import (
    BackfillSchedule,
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    PauseSchedule,
    ResumeSchedule,
    TriggerSchedule,
    UpdateSchedule,
)
from holdfast.model.schedules import MOST_WAITING, Slot, iso
from holdfast.model.writes import Outcome, Reschedule

NOBODY: frozenset[str] = frozenset()


def create(command: CreateSchedule) -> Reschedule:
    """Insert the row, with the time of its first slot."""
    row = command.row
    fresh = Firing(row, row.created_at, NOBODY).write()
    return fresh._replace(revision=None)


def fire(command: FireSchedule) -> Reschedule:
    """Settle what is due; runs are started on the code at hand."""
    row = command.row
    if command.how is not None:
        row = row._replace(how=row.how.newer(command.how))
    firing = Firing(row, command.at, command.open_runs)
    firing.settle()
    return firing.write()


def update(command: UpdateSchedule) -> Reschedule:
    """Settle what was due by the former times; slots of the new ones come from now on."""
    row = command.row
    firing = Firing(row, command.at, command.open_runs)
    is_moved = command.spec != row.spec
    if is_moved:
        firing.settle(early=True)
    settled = firing.write()
    changed = (settled.row or row)._replace(
        spec=command.spec, workflow=command.workflow, input=command.input, how=command.how,
        declared=command.declared or row.declared,
    )  # fmt: skip
    if is_moved:
        changed = changed._replace(cursor=command.at, since=command.at, started=0, recent=())
    again = Firing(changed, command.at, frozenset(changed.running)).write()
    return again._replace(revision=row.revision, sends=settled.sends, not_before=settled.not_before)


def pause(command: PauseSchedule) -> Reschedule:
    """Stop the clock. Slots that wait go on waiting."""
    row = command.row._replace(paused=True, note=command.note)
    return Firing(row, command.at, frozenset(row.running)).write()


def resume(command: ResumeSchedule) -> Reschedule:
    """Go on from the last slot that was settled: what came meanwhile is caught up, or missed."""
    row = command.row._replace(paused=False, note=command.note)
    firing = Firing(row, command.at, command.open_runs)
    firing.settle()
    return firing.write()


def trigger(command: TriggerSchedule) -> Reschedule:
    """Start one run beside whatever runs; later slots see that it runs."""
    firing = Firing(command.row, command.at, frozenset(command.row.running))
    firing.add_run(command.id, command.at)
    return firing.write()


def backfill(command: BackfillSchedule) -> Reschedule:
    """Have the slots of a time that is over start one after the other, or all if they may."""
    row = command.row
    firing = Firing(row, command.at, command.open_runs)
    known = {slot.at for slot in row.buffer} | command.settled
    slots = row.slots_between(command.start, command.end)
    fresh = [Slot(each, "backfill") for each in slots if each not in known]
    firing.buffer += fresh
    if len(firing.buffer) > MOST_WAITING:
        problem = f"lets {len(firing.buffer):,} slots wait, and the limit is {MOST_WAITING:,}"
        raise InvalidSchedule(field="backfill", value=iso(command.start), problem=problem)
    firing.settle()
    return firing.write()


def delete(command: DeleteSchedule) -> Reschedule:
    """Delete the row."""
    row = command.row
    return Reschedule(row.ns, row.id, row.revision, None)


def read(command: object, outcome: Outcome) -> bool:
    """Tell whether nobody had changed the schedule before."""
    return outcome.applied
