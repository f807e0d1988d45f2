"""Random operations around schedules: slots become runs, runs close, and rows change by hand."""

from holdfast.model.commands import (
    BackfillSchedule,
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    PauseSchedule,
    PruneRuns,
    ResumeSchedule,
    TriggerSchedule,
    UpdateSchedule,
)
from holdfast.model.events import Event
from holdfast.model.labels import NO_LABELS
from holdfast.model.queues import DEFAULT_PRIORITY, DEFAULT_QUEUE
from holdfast.model.schedules import (
    TRIGGER,
    How,
    Overlap,
    Schedule,
    Scheduled,
    schedule_in,
    slot_in,
)
from holdfast.model.status import CLOSED
from holdfast.model.writes import Claim, Depart
from holdfast.testing.clock import SECOND
from tests.simulation.agreeing import Operation
from tests.simulation.operations import LABELS, LEASE, NAMESPACES, WORKERS, Draws, Operations

SCHEDULES = ("s", "t")


class ScheduleOperations(Operations):
    """Draws what workers and people do with schedules, and how their runs close."""

    known_dead = 0.6

    def _weighed(self) -> Draws:
        return {
            "create": (self._create, 6),
            "fire": (self._fire_slots, 24),
            "update": (self._change, 3),
            "hold": (self._hold, 3),
            "go on": (self._go_on, 6),
            "trigger": (self._trigger, 3),
            "backfill": (self._backfill, 3),
            "delete": (self._delete, 1),
            "claim": (self._claim, 8),
            "close": (self._close, 10),
            "terminate": (self._terminate, 3),
            "cancel": (self._cancel, 2),
            "reap": (self._reap, 6),
            "prune": (self._prune, 6),
        }

    def _spec(self) -> str:
        chance = self.chance
        made = Schedule(
            every=chance.choice((4, 7, 20)), overlap=chance.choice(list(Overlap)),
            jitter=chance.choice((0, 0, 3)), catch_up=chance.choice((10, 30)),
            limit=chance.choice((None, None, 5)),
        )  # fmt: skip
        return made.encoded()

    def _how(self) -> How:
        labels, timeout = self.chance.choice((NO_LABELS, LABELS)), self.chance.choice((None, 60))
        timeout = None if timeout is None else timeout * SECOND
        return How(b"d", "", b"\xff", DEFAULT_QUEUE, DEFAULT_PRIORITY, timeout, labels)

    def _create(self) -> Operation:
        now = self.dump.now
        ns, id = self.chance.choice(NAMESPACES), self.chance.choice(SCHEDULES)
        row = Scheduled(
            ns, id, now, "w", self._spec(), b"{}", self._how(), cursor=now, since=now,
            created_at=now, updated_at=now,
        )  # fmt: skip
        return CreateSchedule(row)

    def _row(self, *, due: bool = False, paused: bool = False) -> Scheduled | None:
        """Return a row: as it is, or as somebody read it before it changed."""
        now, rows = self.dump.now, self.dump.schedules
        fitting = [r for r in rows if r.next_at is not None and r.next_at <= now] if due else []
        fitting = [r for r in rows if r.paused] if paused else fitting
        if not rows:
            return None
        row = self.chance.choice(fitting or rows)
        return row._replace(revision=row.revision - 1) if self.chance.random() < 0.1 else row

    def _open(self, row: Scheduled) -> frozenset[str]:
        runs = [run for run in self.dump.runs if run.ns == row.ns and run.status not in CLOSED]
        return frozenset(row.running).intersection(run.id for run in runs)

    def _fire_slots(self) -> Operation:
        row = self._row(due=True)
        if row is None:
            return self._create()
        # Now and then by a clock that is before the store's.
        at = self.dump.now + self.chance.choice((0, 0, 0, 0, 8 * SECOND))
        return FireSchedule(row, at, self._open(row), self.chance.choice((None, self._how())))

    def _change(self) -> Operation:
        row = self._row()
        if row is None:
            return self._create()
        spec = self.chance.choice((row.spec, self._spec()))
        return UpdateSchedule(
            row, self.dump.now, self._open(row), spec, "w", b"{}", self._how(), "declared"
        )

    def _hold(self) -> Operation:
        row = self._row()
        return self._create() if row is None else PauseSchedule(row, self.dump.now, "rest")

    def _go_on(self) -> Operation:
        row = self._row(paused=True)
        if row is None:
            return self._create()
        return ResumeSchedule(row, self.dump.now, self._open(row), "go")

    def _trigger(self) -> Operation:
        row = self._row()
        if row is None:
            return self._create()
        id = f"{row.id}@{TRIGGER}{self.chance.choice((self._unique('k'), 'k1'))}"
        return TriggerSchedule(row, self.dump.now, id)

    def _backfill(self) -> Operation:
        row = self._row()
        if row is None:
            return self._create()
        firsts = [self.dump.events[run.ns, run.id][0] for run in self.dump.runs if run.ns == row.ns]
        slots = [slot_in(first.key) for first in firsts if schedule_in(first.key) == row.id]
        settled = frozenset(slot for slot in slots if slot is not None)
        start = self.dump.now - self.chance.choice((5, 20)) * SECOND
        return BackfillSchedule(row, self.dump.now, self._open(row), start, self.dump.now, settled)

    def _delete(self) -> Operation:
        row = self._row()
        return self._create() if row is None else DeleteSchedule(row)

    # --- the runs

    def _claim(self) -> Operation:
        chance = self.chance
        workflows = chance.choice((("w",), ("w",), ("v",)))
        limit = chance.choice((0, 1, 5))
        return Claim(
            chance.choice(NAMESPACES), chance.choice(WORKERS), workflows, limit, LEASE,
            schedules=chance.random() < 0.7,
        )  # fmt: skip

    def _close(self) -> Operation:
        """Close a held run; its schedule may have slots that wait for this."""
        run = self._run("running")
        if run is None:
            return self._claim()
        turn = self._end(run)
        if run.has_mail:  # a cancel: it is recorded before anything else is
            turn = self._read(run)
        if turn.status not in CLOSED:
            return turn
        schedule = schedule_in(self.dump.events[run.ns, run.id][0].key)
        closing: Event = turn.events[-1]
        departs = Depart(run.ns, run.id, run.generation, closing, False, False, schedule)
        return turn._replace(sends=(departs,))

    def _prune(self) -> Operation:
        before = self.dump.now - self.chance.choice((0, 5)) * SECOND
        return PruneRuns(self.chance.choice(NAMESPACES), before, 10)
