"""Schedules, as seen from outside: made, changed, stopped, and asked what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from holdfast.engines.local import LocalEngine, scheduling
from holdfast.errors import ScheduleConflict, ScheduleNotFound
from holdfast.fronts.function.scheduling import Work, work_of
from holdfast.fronts.function.step import KEEP, Keep
from holdfast.fronts.function.workflow import Bound
from holdfast.model.checks import checked_id, checked_limit, checked_reason
from holdfast.model.commands import (
    BackfillSchedule,
    CreateSchedule,
    DeleteSchedule,
    PauseSchedule,
    ResumeSchedule,
    TriggerSchedule,
    UpdateSchedule,
)
from holdfast.model.durations import Duration
from holdfast.model.labels import NO_LABELS, Value
from holdfast.model.schedules import (
    TRIGGER,
    Schedule,
    Scheduled,
    ScheduleFilter,
    Settled,
    checked_moment,
    checked_schedule_id,
    slot_id,
)
from holdfast.model.writes import Filter, Page
from holdfast.ports.store import Store
from holdfast.talking import new_id

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class SlotState(NamedTuple):
    """What became of a slot: `started`, `waiting`, `skipped` or `missed`. `run` is its run's id."""

    at: datetime
    outcome: Settled
    run: str


class ScheduleState(NamedTuple):
    """A schedule as it stands.

    `next` are the nominal times of its next slots, in its zone; none if it is paused or over.
    `running` are the runs that stand in the way of others, `waiting` the slots that wait for them,
    `recent` the last slots of the clock and what became of each.
    """

    id: str
    workflow: str
    schedule: Schedule
    paused: bool
    note: str
    next: tuple[datetime, ...]
    running: tuple[str, ...]
    waiting: tuple[datetime, ...]
    recent: tuple[SlotState, ...]
    started: int
    """How many runs the clock has started, since its times were changed."""
    declared: bool
    """Whether code declares it."""
    due_at: datetime | None
    """When a worker looks at it; if that is past, none does."""


class Schedules:
    """What the clock starts. `client.schedules` is one."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    async def create(  # noqa: PLR0913 - each by its name
        self,
        id: str,
        bound: Bound[Any],
        schedule: Schedule,
        *,
        timeout: Duration | Keep | None = KEEP,
        tags: Sequence[str] = (),
        attributes: Mapping[str, Value] = NO_LABELS.attributes,
        queue: str | None = None,
        priority: int | None = None,
        paused: bool = False,
    ) -> ScheduleState:
        """Keep a schedule and return once it is stored; the first slot is the next one from now.

        Its runs are started as by `client.start` with these options. The same again changes
        nothing. Raises `ScheduleConflict` if the id belongs to another, `InvalidName` if it cannot
        be an id, and what `start` raises.
        """
        work = work_of(
            bound, schedule, timeout=timeout, tags=tags, attributes=attributes, queue=queue,
            priority=priority,
        )  # fmt: skip
        store, ns = self._engine.store, self._engine.ns
        row = _new(work, ns, checked_schedule_id(id), store.now())
        await scheduling.write(store, CreateSchedule(row._replace(paused=bool(paused))))
        kept = await self._row(id)
        if differs := _difference(kept, row):
            raise ScheduleConflict(schedule=id, differs=differs)
        return await self._state(kept)

    async def update(  # noqa: PLR0913 - each by its name
        self,
        id: str,
        bound: Bound[Any],
        schedule: Schedule,
        *,
        timeout: Duration | Keep | None = KEEP,
        tags: Sequence[str] = (),
        attributes: Mapping[str, Value] = NO_LABELS.attributes,
        queue: str | None = None,
        priority: int | None = None,
    ) -> ScheduleState:
        """Replace the work and the times of a schedule.

        What was due before is settled by its former times; the new ones count from now on. That it
        is paused stays. Raises `ScheduleNotFound`, and what `start` raises.
        """
        work = work_of(
            bound, schedule, timeout=timeout, tags=tags, attributes=attributes, queue=queue,
            priority=priority,
        )  # fmt: skip
        return await self._change(id, _updating(work, self._engine.store.now))

    async def pause(self, id: str, *, note: str = "") -> ScheduleState:
        """Stop the clock of a schedule; `note` says why. Raises `ScheduleNotFound`."""
        told, now = checked_reason(note, "pause"), self._engine.store.now
        return await self._change(id, lambda row, _: PauseSchedule(row, now(), told))

    async def resume(self, id: str, *, note: str = "") -> ScheduleState:
        """Let the clock go on: of the slots since the pause, those within `catch_up` count.

        Raises `ScheduleNotFound`.
        """
        told, now = checked_reason(note, "resume"), self._engine.store.now
        return await self._change(id, lambda row, open: ResumeSchedule(row, now(), open, told))

    async def trigger(self, id: str, *, key: str | None = None) -> str:
        """Start a run now, whatever else runs and also while it is paused; return the run's id.

        The same `key` starts it once. Raises `ScheduleNotFound`.
        """
        now = self._engine.store.now
        run = checked_id(f"{id}@{TRIGGER}{new_id(now()) if key is None else key}")
        await self._change(id, lambda row, _: TriggerSchedule(row, now(), run))
        return run

    async def backfill(self, id: str, start: datetime, end: datetime) -> ScheduleState:
        """Start a run for each slot from `start` to `end` that has none, at most 1,000.

        One after the other, unless they may overlap. Slots that the clock has not settled yet are
        left to it. Raises `ScheduleNotFound` or `InvalidSchedule`.
        """
        first, last = checked_moment("start", start), checked_moment("end", end)
        settled = await self._settled(id, first, last)
        now = self._engine.store.now
        return await self._change(
            id, lambda row, open: BackfillSchedule(row, now(), open, first, last, settled)
        )

    async def delete(self, id: str) -> None:
        """Forget a schedule; its runs stay. Raises `ScheduleNotFound`."""
        store, ns = self._engine.store, self._engine.ns
        await scheduling.change(store, ns, id, lambda row, _: DeleteSchedule(row))

    async def get(self, id: str) -> ScheduleState:
        """Return a schedule as it stands. Raises `ScheduleNotFound`."""
        return await self._state(await self._row(id))

    async def list(self, *, limit: int = 100, after: str = "") -> list[ScheduleState]:
        """Return schedules in the order of their ids, from the one after the id `after`."""
        wanted = ScheduleFilter(self._engine.ns, limit=checked_limit(limit), after=after)
        return [await self._state(row) for row in await self._engine.store.schedules(wanted)]

    async def _row(self, id: str) -> Scheduled:
        row = await scheduling.read(self._engine.store, self._engine.ns, id)
        if row is None:
            raise ScheduleNotFound(schedule=id)
        return row

    async def _change(self, id: str, decide: scheduling.Decide) -> ScheduleState:
        store, ns = self._engine.store, self._engine.ns
        return await self._state(await scheduling.change(store, ns, id, decide))

    async def _state(self, row: Scheduled) -> ScheduleState:
        return _state(row, await scheduling.open_runs(self._engine.store, row))

    async def _settled(self, id: str, start: int, end: int) -> frozenset[int]:
        """Return the slots of this time that have a run."""
        row, ns = await self._row(id), self._engine.ns
        slots = {slot_id(id, slot): slot for slot in row.slots_between(start, end)}
        if not slots:
            return frozenset()
        found = await self._engine.find(Filter(ns, ids=tuple(slots)), Page(len(slots)))
        return frozenset(slots[run.id] for run in found)


async def declare(store: Store, ns: str, works: Mapping[str, Work]) -> None:
    """Keep what an app declares: new ones are made, changed ones updated, others left alone."""
    for id, work in works.items():
        row = await scheduling.read(store, ns, id)
        if row is None:
            fresh = _new(work, ns, id, store.now())._replace(declared=work.mark)
            await scheduling.write(store, CreateSchedule(fresh))
        elif row.declared != work.mark:
            await scheduling.change(store, ns, id, _updating(work, store.now, work.mark))


def _new(work: Work, ns: str, id: str, now: int) -> Scheduled:
    bound = work.bound
    return Scheduled(
        ns, id, now, bound.workflow.name, work.schedule.encoded(), bound.input, work.how,
        cursor=now, since=now, created_at=now, updated_at=now,
    )  # fmt: skip


def _updating(work: Work, now: Callable[[], int], mark: str = "") -> scheduling.Decide:
    spec, bound = work.schedule.encoded(), work.bound
    return lambda row, open: UpdateSchedule(
        row, now(), open, spec, bound.workflow.name, bound.input, work.how, mark
    )


def _difference(kept: Scheduled, wanted: Scheduled) -> str:
    if kept.workflow != wanted.workflow:
        return f"workflow ({kept.workflow})"
    if kept.input != wanted.input:
        return "input"
    return "" if kept.spec == wanted.spec else f"time or rule ({kept.spec})"


def _shown(moment: int) -> datetime:
    return EPOCH + moment * MICROSECOND


def _state(row: Scheduled, open_runs: frozenset[str]) -> ScheduleState:
    schedule = row.schedule
    is_over = row.paused or (schedule.limit is not None and row.started >= schedule.limit)
    ahead = () if is_over else islice(schedule.slots(row.cursor), 5)
    past = [(each, slot_id(row.id, each.at)) for each in row.recent]
    return ScheduleState(
        row.id, row.workflow, schedule, row.paused, row.note,
        tuple(schedule.shown(slot) for slot in ahead),
        tuple(run for run in row.running if run in open_runs),
        tuple(_shown(slot.at) for slot in row.buffer),
        tuple(
            SlotState(_shown(each.at), each.outcome, run if each.outcome == "started" else "")
            for each, run in past
        ),
        row.started, bool(row.declared), None if row.next_at is None else _shown(row.next_at),
    )  # fmt: skip
