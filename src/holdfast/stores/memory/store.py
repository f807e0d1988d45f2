"""Runs in dictionaries: written to be obvious, with true rollback.

Nothing survives the process. Everything else holds as on the other stores: guards, fences,
leases by the store's clock, one commit a batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

from holdfast.model.annotations import LogFilter, LogLine
from holdfast.model.buckets import buckets_of
from holdfast.model.dump import Dump, RunKey
from holdfast.model.events import since_start
from holdfast.model.exports import Export
from holdfast.model.filters import matches
from holdfast.model.labels import NO_LABELS, Labels
from holdfast.model.queues import IN_LINE, NEGLECTED
from holdfast.model.run import END_ONLY, SINCE_START, Loaded, Message, Posted, Run
from holdfast.model.schedules import ScheduleFilter
from holdfast.model.secrets import Sealed
from holdfast.model.status import CLAIMABLE
from holdfast.model.waits import Wait, WaitFilter
from holdfast.model.writes import Claim, Claimed, Filter, Notice, Outcome, Page, Write
from holdfast.ports.jobs import Jobs
from holdfast.ports.store import Hear
from holdfast.ports.transaction import Work
from holdfast.stores.clock import SteadyClock
from holdfast.stores.memory.business import Business
from holdfast.stores.memory.caching import Recalled
from holdfast.stores.memory.inspection import Inspection
from holdfast.stores.memory.jobs import MemoryJobs
from holdfast.stores.memory.limits import Lines, Shown
from holdfast.stores.memory.tables import Tables, every
from holdfast.stores.memory.writes import apply
from holdfast.stores.notices import notices_of


class Written:
    """The half of the store that is written to."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock or SteadyClock()
        self._latest = 0
        self._tables = Tables()
        self._business: Business | None = None
        self.jobs: Jobs = MemoryJobs(self._tables, self.now)
        self._hearers: list[Hear] = []

    def now(self) -> int:
        """Return the clock, which never goes back."""
        self._latest = max(self._latest, self._clock())
        return self._latest

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        """Carry the whole batch out, or nothing of it if anything raises."""
        await asyncio.sleep(0)
        now = self.now()
        with self._tables.transaction():
            outcomes = [apply(self._tables, write, now) for write in batch]
        self._tell(notices_of(batch, outcomes))
        return outcomes

    async def transact(self, work: Work, seconds: float | None = None) -> Outcome:
        """Do a user's work and write its turn, both or neither."""
        await asyncio.sleep(0)
        self._business = self._business or Business()
        turn, outcome = self._business.carry_out(self._tables, work, seconds, self.now())
        self._tell(notices_of([turn], [outcome]))
        return outcome

    def _tell(self, heard: list[Notice]) -> None:
        for hear in tuple(self._hearers):
            hear(heard)


class MemoryStore(Written, Inspection, Shown, Recalled):
    """Keeps runs for as long as the process lives."""

    async def open(self) -> None:
        """Be ready; there is nothing to open."""

    async def close(self) -> None:
        """Forget the listeners. The runs stay, for a test that opens the store again."""
        self._hearers.clear()

    async def claim(self, claim: Claim) -> Claimed:
        """Take the runs of the highest priority, and of those the ones that waited longest."""
        await asyncio.sleep(0)
        now, tables = self.now(), self._tables
        with tables.transaction():
            reaped = [(reap.worker, apply(tables, reap, now).total) for reap in claim.reaps]
            lines = Lines(tables, claim, now)
            if claim.limit > 0:
                lines.line_up()
        mine = [run for run in tables.runs.values() if run.ns == claim.ns]
        queued = [run for run in mine if _is_queued(run)]
        served = [run for run in queued if _is_served(run, claim)]
        due = _in_order([run for run in served if _due_at(run) <= now])
        neglected = [run for run in queued if _due_at(run) <= now - NEGLECTED]
        with tables.transaction():
            chosen: list[Run] = []
            due_now = _along_the_lanes(due, lines, claim, chosen)
            convicts = _choose(due_now, lines, claim, chosen)
            taken = tuple(self._take(run, claim, now) for run in chosen)
        waiting = [run for run in tables.runs.values() if run.ns == claim.ns and _is_queued(run)]
        later = [
            _due_at(run) for run in waiting if _is_served(run, claim) and _is_known(run, claim)
        ]
        own = [run for run in tables.runs.values() if run.owner == claim.worker]
        held = [run for run in own if run.ns == claim.ns]
        return Claimed(
            runs=taken,
            mail=tuple(run.id for run in held if run.has_mail),
            held=frozenset(run.id for run in held),
            dead=self._dead(claim.worker, now),
            unregistered=tuple(sorted({_named(run) for run in due if not _is_known(run, claim)})),
            unserved=tuple(sorted({run.queue for run in neglected if not _is_served(run, claim)})),
            next_wake_at=min(
                (at for at in (*later, *lines.next_at()) if now < at < IN_LINE), default=None
            ),
            first_events={
                run.id: tables.events[run.ns, run.id][0] for run in taken if run.seq == 1
            },
            reaped=tuple((worker, count) for worker, count in reaped if count),
            convicts=convicts,
            ticketed=frozenset(run.id for run in taken if (run.ns, run.id) in tables.tickets),
            overdue=lines.overdue() if lines.queues else (),
            schedule_at=self._schedule_at(claim) if claim.schedules else None,
        )

    def _schedule_at(self, claim: Claim) -> int | None:
        wanted = ScheduleFilter(claim.ns, workflows=claim.workflows)
        rows = [row for row in self._tables.schedules.values() if wanted.fits(row)]
        return min((row.next_at for row in rows if row.next_at is not None), default=None)

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        """Return the run with its living events, unread messages and heartbeats."""
        await asyncio.sleep(0)
        row = self._tables.runs.get((ns, run))
        if row is None:
            return None
        if after == END_ONLY:
            end = [e for e in self._tables.events[ns, run] if e.superseded_by is None][-1:]
            return Loaded(row, () if row.closed_at is None else tuple(end), ())
        events = self._tables.events[ns, run][max(after, 0) :]
        inbox = _numbered(self._tables.inbox[ns, run])
        mail = tuple(
            message
            for message in inbox
            if message.n > row.inbox_read or (after <= 0 and _is_undecided(row, message))
        )
        living = tuple(e for e in events if e.superseded_by is None)
        if after == SINCE_START:
            living = tuple(since_start(living))
        beats = self._tables.progress.get((ns, run), {})
        return Loaded(row, living, mail, tuple(beats[step] for step in sorted(beats)))

    async def message(self, ns: str, run: str, id: str) -> Posted | None:
        """Return a message and the row of its run."""
        await asyncio.sleep(0)
        row = self._tables.runs.get((ns, run))
        return None if row is None else Posted(row, self._tables.inbox[ns, run].get(id))

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        """Return runs, newest first."""
        await asyncio.sleep(0)
        tables = self._tables
        rows = [
            run
            for key, run in tables.runs.items()
            if _matches(run, tables.labels.get(key, NO_LABELS), filter)
        ]
        rows.sort(key=lambda run: (run.created_at, run.id), reverse=True)
        if page.before_at is not None:
            last = (page.before_at, page.before_id)
            rows = [run for run in rows if (run.created_at, run.id) < last]
        return rows[: page.limit]

    async def logs(self, wanted: LogFilter) -> list[LogLine]:
        """Return lines of a run's log, oldest first."""
        await asyncio.sleep(0)
        lines = self._tables.logs.get((wanted.ns, wanted.run), {})
        return [line for _, line in sorted(lines.items()) if wanted.fits(line)][: wanted.limit]

    async def waits(self, wanted: WaitFilter) -> list[Wait]:
        """Return what runs wait for from outside, the oldest first."""
        await asyncio.sleep(0)
        kept = [wait for waits in self._tables.waits.values() for wait in waits.values()]
        kept.sort(key=lambda wait: (wait.asked_at, wait.run, wait.key))
        return [wait for wait in kept if wanted.fits(wait)][: wanted.limit]

    async def secrets(self, ns: str, run: str) -> tuple[Sealed, ...]:
        """Return what a run was given for its steps, encrypted."""
        await asyncio.sleep(0)
        kept = self._tables.secrets.get((ns, run), {})
        return tuple(kept[name] for name in sorted(kept))

    def listen(
        self, hear: Hear, *, worker: str = "", near: bool = False, turns: bool = True
    ) -> Callable[[], None]:
        """Call `hear` after each commit."""
        self._hearers.append(hear)
        return lambda: self._hearers.remove(hear) if hear in self._hearers else None

    async def labels(self, ns: str, runs: Sequence[str]) -> Mapping[str, Labels]:
        """Return the tags and attributes of those runs that have some."""
        await asyncio.sleep(0)
        kept = self._tables.labels
        return {run: kept[ns, run] for run in runs if (ns, run) in kept}

    async def export(self, ns: str, run: str) -> Export | None:
        """Return everything of a run, superseded events too."""
        await asyncio.sleep(0)
        key, tables = (ns, run), self._tables
        if key not in tables.runs:
            return None
        inbox = _numbered(tables.inbox[key])
        labels = tables.labels.get(key, NO_LABELS)
        ticket = tables.tickets.get(key)
        queue_key = ticket.key if ticket else ""
        return Export(tables.runs[key], tuple(tables.events[key]), inbox, labels, queue_key)

    async def dump(self) -> Dump:
        """Return everything, superseded events too."""
        tables = self._tables
        return Dump(
            self.now(),
            runs=tuple(run for _, run in sorted(tables.runs.items())),
            events={key: tuple(events) for key, events in tables.events.items()},
            inbox={key: _numbered(inbox) for key, inbox in tables.inbox.items()},
            workers=dict(tables.workers),
            labels=dict(tables.labels),
            progress={
                key: tuple(beat for _, beat in sorted(beats.items()))
                for key, beats in tables.progress.items()
                if beats
            },
            logs={
                key: tuple(line for _, line in sorted(lines.items()))
                for key, lines in tables.logs.items()
                if lines
            },
            children=dict(tables.children),
            secrets={
                key: tuple(each for _, each in sorted(kept.items()))
                for key, kept in tables.secrets.items()
                if kept
            },
            definitions=tuple(definition for _, definition in sorted(tables.definitions.items())),
            queues=tuple(queue for _, queue in sorted(tables.queues.items())),
            tickets=tuple(ticket for _, ticket in sorted(tables.tickets.items())),
            schedules=tuple(row for _, row in sorted(tables.schedules.items())),
            waits=tuple(
                waits[step] for _, waits in sorted(tables.waits.items()) for step in sorted(waits)
            ),
            jobs=tuple(sorted(every(tables), key=lambda job: job[:3])),
            cache=tuple(kept for _, kept in sorted(tables.step_cache.items())),
        )

    async def buckets(self) -> dict[RunKey, tuple[str, ...]]:
        """Return the bucket of every run; a run that is in none, or in two, is lost."""
        tables, now = self._tables, self.now()
        return {key: buckets_of(run, tables.workers, now) for key, run in tables.runs.items()}

    def _take(self, run: Run, claim: Claim, now: int) -> Run:
        tables = self._tables
        tables.put_worker(claim.worker, now + claim.lease)
        taken = run._replace(
            status="running", reason="", owner=claim.worker, epoch=run.epoch + 1, wake_at=None,
            updated_at=now,
        )  # fmt: skip
        tables.put_run(taken)
        return taken

    def _dead(self, me: str, now: int) -> tuple[tuple[str, bool], ...]:
        owners = {run.owner for run in self._tables.runs.values() if run.owner}
        leases = self._tables.workers
        return tuple(
            (owner, False) for owner in sorted(owners - {me}) if leases.get(owner, 0) <= now
        )


def _numbered(inbox: Mapping[str, Message]) -> tuple[Message, ...]:
    """Return messages in the order of their numbers, which a rerun may change."""
    return tuple(sorted(inbox.values(), key=lambda message: message.n))


def _is_undecided(run: Run, message: Message) -> bool:
    return message.kind == "update" and not message.state and run.closed_at is None


def _is_queued(run: Run) -> bool:
    return run.status in CLAIMABLE and run.wake_at is not None


def _due_at(run: Run) -> int:
    return run.wake_at or 0


def _is_served(run: Run, claim: Claim) -> bool:
    return claim.queues is None or run.queue in claim.queues


def _in_order(due: list[Run]) -> list[Run]:
    """Sort by lane (see `model/queues.py`), and within each by the time they became due."""
    oldest: dict[tuple[str, int], int] = {}
    for run in due:
        lane = (run.queue, run.priority)
        oldest[lane] = min(oldest.get(lane, _due_at(run)), _due_at(run))
    return sorted(
        due,
        key=lambda run: (
            run.priority, oldest[run.queue, run.priority], run.queue, _due_at(run), run.id,
        ),
    )  # fmt: skip


def _is_known(run: Run, claim: Claim) -> bool:
    return run.workflow in claim.workflows or f"{run.workflow}/{run.version}" in claim.workflows


def _named(run: Run) -> str:
    return f"{run.workflow}/{run.version}" if run.version else run.workflow


def _along_the_lanes(
    due: list[Run], lines: Lines, claim: Claim, chosen: list[Run]
) -> Generator[tuple[Run, bool]]:
    """Yield due runs lane by lane, and tell of each whether it was admitted just now."""
    lanes: dict[tuple[int, int, str, bool], list[Run]] = {}
    oldest: dict[tuple[str, int], int] = {}
    for run in due:
        first = oldest.setdefault((run.queue, run.priority), _due_at(run))
        if _is_known(run, claim) and lines.may_go_on(run):
            lanes.setdefault((run.priority, first, run.queue, False), []).append(run)
    lanes.update({(*head, True): [] for head in lines.heads()})
    for (priority, _, queue, is_line), runs in sorted(lanes.items(), key=lambda lane: lane[0]):
        for run in runs:  # of those that also stood in line, some were admitted meanwhile
            if run not in chosen and lines.room_on_worker(queue):
                yield run, False
        if is_line and len(chosen) < claim.limit:
            for run in lines.admit(queue, priority, claim.limit - len(chosen)):
                yield run, True


def _choose(
    due: Iterable[tuple[Run, bool]], lines: Lines, claim: Claim, chosen: list[Run]
) -> tuple[Run, ...]:
    """Choose the first `limit` runs, of which at most `suspects` crashed a worker twice.

    Return the runs met on the way that crashed too many.
    """
    convicts: list[Run] = []
    suspects = 0
    if claim.limit <= 0:
        return ()
    for run, is_admitted in due:
        if run.strikes >= 2 and not is_admitted:
            if not claim.suspects:
                continue
            if run.strikes >= claim.strikes:
                convicts.append(run)
                continue
            if suspects >= claim.suspects:
                continue
            suspects += 1
        chosen.append(run)
        lines.takes(run)
        if len(chosen) >= claim.limit:
            break
    return tuple(convicts)


def _matches(run: Run, labels: Labels, filter: Filter) -> bool:
    return (
        run.ns == filter.ns
        and (not filter.statuses or run.status in filter.statuses)
        and (not filter.workflow or run.workflow == filter.workflow)
        and run.id.startswith(filter.id_prefix)
        and run.created_at >= filter.created_after
        and (not filter.ids or run.id in filter.ids)
        and all(matches(run, labels, term) for term in filter.terms)
    )
