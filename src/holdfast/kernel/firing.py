"""What becomes of the slots of a schedule that are due: the one place with the rules of overlap.

Slots are taken in order, the oldest first, as if they came one right after the other. A slot of the
clock is started, skipped, made to wait, or missed, and the row says which. All of it is one write:
the runs, what happens to runs that are in the way, and the row with its new cursor.
"""

from __future__ import annotations

from itertools import islice, takewhile

from holdfast.kernel import cancel, start, terminate
from holdfast.model.commands import CancelRun, StartRun, TerminateRun
from holdfast.model.schedules import (
    MOST_WAITING,
    RECENT,
    Overlap,
    Past,
    Scheduled,
    Settled,
    Slot,
    slot_id,
    slot_key,
)
from holdfast.model.writes import Create, Move, Put, Reschedule

BATCH = 100
"""How many slots one write settles."""
SOON = 1_000_000
"""Microseconds until another look, when a slot begins to wait for a run: should that have closed in
this very moment, or have been there before, nobody would tell."""
REPLACES = (Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER)


class Firing:
    """A schedule while its slots are settled."""

    def __init__(self, row: Scheduled, now: int, open_runs: frozenset[str]) -> None:
        self.row, self.now, self.schedule = row, now, row.schedule
        self.cursor, self.started, self.buffer = row.cursor, row.started, list(row.buffer)
        self.running = [run for run in row.running if run in open_runs]
        self.sends: list[Create | Put | Move] = []
        self.latest = 0
        self._recent = {past.at: past for past in row.recent}
        self._starts = 0

    @property
    def overlap(self) -> Overlap:
        """What becomes of a slot while a run is open."""
        return self.schedule.overlap

    def settle(self, *, early: bool = False) -> None:
        """Settle what is due; `early`, also slots whose jitter is not over. Not if it is paused."""
        if self.row.paused:
            return
        self._drain()  # what has waited goes first
        self._give_up_the_late()
        ahead = takewhile(lambda slot: self._is_due(slot, early), self.schedule.slots(self.cursor))
        due = list(islice(ahead, BATCH))
        while due and not self._is_spent:
            slot = due.pop(0)
            self.latest = max(self.latest, slot if early else self._due_at(slot))
            if self.overlap in REPLACES and due:
                self._note(slot, "skipped")  # the next one is in its place already
            else:
                self._take(slot)
            self.cursor = slot
        self._drain()

    def _give_up_the_late(self) -> None:
        """Miss at once all that is too late, however much that is."""
        horizon = self.now - self.schedule.window
        bound = horizon - self.schedule.delay_bound - 1
        first = self.schedule.slot_after(self.cursor) if self.cursor < bound else None
        if first is not None and first <= bound:
            self._note(first, "missed", bound)
            self.cursor = bound

    def _is_due(self, slot: int, early: bool) -> bool:
        return (slot if early else self._due_at(slot)) <= self.now

    def _due_at(self, slot: int) -> int:
        return slot + self.schedule.delay_of(self.row.id, slot)

    @property
    def _is_spent(self) -> bool:
        limit = self.schedule.limit
        return limit is not None and self.started >= limit

    def _take(self, slot: int) -> None:
        if self._due_at(slot) < self.now - self.schedule.window:
            self._note(slot, "missed", slot)
        elif not self.running or self.overlap == Overlap.ALLOW:
            self._start(Slot(slot))
        elif self.overlap == Overlap.TERMINATE_OTHER:
            self._end_the_others(slot)
            self._start(Slot(slot))
        elif self._may_wait(slot):
            self.buffer.append(Slot(slot))
            self._note(slot, "waiting")
        else:
            self._note(slot, "skipped")

    def _may_wait(self, slot: int) -> bool:
        waiting = [each for each in self.buffer if each.kind == "clock"]
        if self.overlap == Overlap.CANCEL_OTHER:
            for each in waiting:
                self._note(each.at, "skipped")
            self.buffer = [each for each in self.buffer if each.kind != "clock"]
            self._end_the_others(slot)
            return True
        if self.overlap == Overlap.BUFFER_ONE:
            return not waiting
        return self.overlap == Overlap.BUFFER_ALL and len(self.buffer) < MOST_WAITING

    def _end_the_others(self, slot: int) -> None:
        """Cancel or terminate what runs, for the sake of this slot."""
        row = self.row
        reason = f"its schedule {row.id} goes on with {slot_id(row.id, slot)}"
        for run in self.running:
            if self.overlap == Overlap.CANCEL_OTHER:
                id = f"schedule/{slot_id(row.id, slot)}"
                self.sends.append(cancel.decide(CancelRun(row.ns, run, id, self.now, reason)))
            else:
                command = TerminateRun(row.ns, run, self.now, reason)
                self.sends.append(terminate.decide(command))
        if self.overlap == Overlap.TERMINATE_OTHER:
            self.running = []

    def _drain(self) -> None:
        """Start what has waited and need not wait any longer."""
        while self.buffer and self._starts < BATCH:
            if self.running and self.overlap != Overlap.ALLOW:
                return
            self._start(self.buffer.pop(0))

    def _start(self, slot: Slot) -> None:
        self.add_run(slot_id(self.row.id, slot.at), slot.at)
        self._starts += 1
        if slot.kind == "clock":
            self.started += 1
            self._note(slot.at, "started")

    def add_run(self, id: str, slot: int) -> None:
        """Start a run for a slot."""
        row, how = self.row, self.row.how
        command = StartRun(
            ns=row.ns, id=id, workflow=row.workflow, version=how.version, input=row.input,
            input_digest=how.input_digest, at=self.now, labels=how.labels, shape=how.shape,
            timeout=how.timeout, queue=how.queue, priority=how.priority,
            slot=slot_key(row.id, slot),
        )  # fmt: skip
        self.sends.append(start.decide(command))
        if self.overlap != Overlap.ALLOW:
            self.running.append(id)

    def _note(self, slot: int, outcome: Settled, last: int = 0) -> None:
        self._recent[slot] = Past(slot, outcome, last)

    def write(self) -> Reschedule:
        """Return the write that carries all of it out."""
        row, recent = self.row, sorted(self._recent.values())
        running = () if self.overlap == Overlap.ALLOW else tuple(self.running)
        changed = row._replace(
            revision=row.revision + 1, next_at=self._next_at(), cursor=self.cursor,
            buffer=tuple(self.buffer), running=running, started=self.started,
            recent=tuple(recent[-RECENT:]), updated_at=self.now,
        )  # fmt: skip
        return Reschedule(row.ns, row.id, row.revision, changed, tuple(self.sends), self.latest)

    def _next_at(self) -> int | None:
        if self.row.paused:
            return None
        if self.buffer and (not self.running or self.overlap == Overlap.ALLOW):
            return self.now
        following = None if self._is_spent else self.schedule.slot_after(self.cursor)
        due_at = None if following is None else self._due_at(following)
        if self.buffer and (self._starts or len(self.buffer) > len(self.row.buffer)):
            return self.now + SOON if due_at is None else min(due_at, self.now + SOON)
        return due_at
