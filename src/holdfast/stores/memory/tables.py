"""The memory store's tables, and how a failed transaction is undone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

from holdfast.errors import StoreError
from holdfast.model.annotations import LogLine, Progress
from holdfast.model.cache import CachedResult, CacheKey
from holdfast.model.definitions import Definition
from holdfast.model.events import Event
from holdfast.model.family import Link
from holdfast.model.jobs import Job
from holdfast.model.labels import NO_LABELS, Labels
from holdfast.model.limits import Queue, Ticket
from holdfast.model.run import Message, Run
from holdfast.model.schedules import Scheduled
from holdfast.model.secrets import Sealed
from holdfast.model.waits import Wait
from holdfast.model.writes import Define

RunKey = tuple[str, str]
K = TypeVar("K")
T = TypeVar("T")


class Undoing:
    """Remembers how to take back what a transaction has changed."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Keep every change made inside, or none if it raises."""
        self._undo.clear()
        try:
            yield
        except BaseException:
            while self._undo:
                self._undo.pop()()
            raise


class Arrangements(Undoing):
    """The tables of managed queues."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[tuple[str, str], Queue] = {}
        self.tickets: dict[RunKey, Ticket] = {}
        self.admissions: dict[tuple[str, str], dict[int, int]] = {}

    def put_queue(self, queue: Queue) -> None:
        """Give a queue a row, or replace it."""
        self._put(self.queues, (queue.ns, queue.name), queue)

    def put_ticket(self, ticket: Ticket) -> None:
        """Give a run a place at its queue, or another one."""
        self._put(self.tickets, (ticket.ns, ticket.run), ticket)

    def put_admissions(self, queue: tuple[str, str], times: dict[int, int]) -> None:
        """Remember when runs were last admitted to a queue, by their numbers."""
        self._put(self.admissions, queue, times)

    def _put(self, table: dict[K, T], key: K, row: T) -> None:
        before = table.get(key)
        table[key] = row
        if before is None:
            self._undo.append(lambda: table.pop(key))
        else:
            self._undo.append(lambda: table.__setitem__(key, before))


class JobTable(Arrangements):
    """The table of jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[RunKey, dict[str, Job]] = {}

    def put_job(self, job: Job) -> None:
        """Add a job, or replace it."""
        jobs = self.jobs.setdefault((job.ns, job.run), {})
        before = jobs.get(job.key)
        jobs[job.key] = job
        if before is None:
            self._undo.append(lambda: jobs.pop(job.key))
        else:
            self._undo.append(lambda: jobs.__setitem__(job.key, before))

    def drop_jobs(self, key: RunKey, *steps: str) -> None:
        """Call off these jobs of a run; those that are not there are passed over."""
        before = self.jobs.get(key, {})
        self.jobs[key] = {step: job for step, job in before.items() if step not in steps}
        self._undo.append(lambda: self.jobs.__setitem__(key, before))


class Beside(JobTable):
    """Tables whose rows belong to no run."""

    def __init__(self) -> None:
        super().__init__()
        self.workers: dict[str, int] = {}
        self.definitions: dict[Define, Definition] = {}
        self.schedules: dict[RunKey, Scheduled] = {}
        self.pruned: dict[str, int] = {}

    def put_definition(self, key: Define, definition: Definition) -> None:
        """Keep a definition, or replace what is known of it."""
        before = self.definitions.get(key)
        self.definitions[key] = definition
        if before is None:
            self._undo.append(lambda: self.definitions.pop(key))
        else:
            self._undo.append(lambda: self.definitions.__setitem__(key, before))

    def put_schedule(self, key: RunKey, row: Scheduled | None) -> None:
        """Insert or replace a schedule, or delete it."""
        before = self.schedules.pop(key, None)
        if row is not None:
            self.schedules[key] = row

        def restore() -> None:
            self.schedules.pop(key, None)
            if before is not None:
                self.schedules[key] = before

        self._undo.append(restore)

    def put_worker(self, worker: str, lease_until: int) -> None:
        """Begin or extend a lease; a renewal that comes late never shortens it."""
        before = self.workers.get(worker)
        self.workers[worker] = max(lease_until, before or 0)
        if before is None:
            self._undo.append(lambda: self.workers.pop(worker, None))
        else:
            self._undo.append(lambda: self.workers.__setitem__(worker, before))

    def drop_worker(self, worker: str) -> None:
        """Remove a worker's row, if there is one."""
        before = self.workers.pop(worker, None)
        if before is not None:
            self._undo.append(lambda: self.workers.__setitem__(worker, before))

    def put_pruned(self, ns: str, at: int) -> None:
        """Remember when runs of a namespace were forgotten last."""
        before = self.pruned.get(ns, 0)
        self.pruned[ns] = at
        self._undo.append(lambda: self.pruned.__setitem__(ns, before))


class Results(Beside):
    """Results that are kept for later calls of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.step_cache: dict[tuple[str, CacheKey], CachedResult] = {}

    def put_cached(self, kept: CachedResult) -> None:
        """Keep a result in the place of the one there is."""
        self._put(self.step_cache, (kept.ns, kept.at), kept)

    def drop_cached(self, kept: CachedResult) -> None:
        """Forget a result."""
        del self.step_cache[kept.ns, kept.at]
        self._undo.append(lambda: self.step_cache.__setitem__((kept.ns, kept.at), kept))


class Secrets(Results):
    """What open runs were given for their steps, encrypted."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: dict[RunKey, dict[str, Sealed]] = {}

    def put_secrets(self, key: RunKey, secrets: tuple[Sealed, ...]) -> None:
        """Keep what a run was given, in place of what it had under the same names."""
        if secrets:
            before = self.secrets.get(key, {})
            self.secrets[key] = {**before, **{each.name: each for each in secrets}}
            self._undo.append(lambda: self.secrets.__setitem__(key, before))

    def drop_secrets(self, key: RunKey) -> None:
        """Forget what a run was given: it is closed."""
        if key in self.secrets:
            before = self.secrets.pop(key)
            self._undo.append(lambda: self.secrets.__setitem__(key, before))


class Tables(Secrets):
    """Dictionaries named as the tables of the other stores. Change them by the methods only."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: dict[RunKey, Run] = {}
        self.events: dict[RunKey, list[Event]] = {}
        self.inbox: dict[RunKey, dict[str, Message]] = {}
        self.labels: dict[RunKey, Labels] = {}
        self.progress: dict[RunKey, dict[str, Progress]] = {}
        self.logs: dict[RunKey, dict[int, LogLine]] = {}
        self.waits: dict[RunKey, dict[str, Wait]] = {}
        self.children: dict[RunKey, Link] = {}

    def put_run(self, run: Run) -> None:
        """Insert or replace a run's row."""
        key = (run.ns, run.id)
        before = self.runs.get(key)
        if before is None:
            self.events[key], self.inbox[key] = [], {}
            self._undo.append(lambda: self._forget(key))
        else:
            self._undo.append(lambda: self.runs.__setitem__(key, before))
        self.runs[key] = run
        if run.closed_at is not None:
            self.drop_secrets(key)

    def drop_run(self, key: RunKey) -> None:
        """Delete a run and everything of it."""
        run, events, inbox = self.runs.pop(key), self.events.pop(key), self.inbox.pop(key)
        labels = self.labels.pop(key, None)
        lines, link = self.logs.pop(key, {}), self.children.pop(key, None)
        waits, ticket = self.waits.pop(key, {}), self.tickets.pop(key, None)
        self.drop_progress(key)

        def restore() -> None:
            self.runs[key], self.events[key], self.inbox[key] = run, events, inbox
            self.logs[key], self.waits[key] = lines, waits
            if labels is not None:
                self.labels[key] = labels
            if link is not None:
                self.children[key] = link
            if ticket is not None:
                self.tickets[key] = ticket

        self._undo.append(restore)

    def _forget(self, key: RunKey) -> None:
        del self.runs[key], self.events[key], self.inbox[key]
        self.labels.pop(key, None)

    def put_labels(self, key: RunKey, labels: Labels) -> None:
        """Keep the tags and attributes of a run that was just inserted, if it has some."""
        if labels != NO_LABELS:
            self.labels[key] = labels

    def add_event(self, key: RunKey, event: Event) -> None:
        """Append one event; its number must be the next."""
        events = self.events[key]
        if event.seq != len(events) + 1:
            raise StoreError(
                f"Event {event.seq} cannot follow {len(events)}. Report this as a bug."
            )
        events.append(event)
        self._undo.append(events.pop)

    def supersede(self, key: RunKey, seq: int, by: int) -> None:
        """Mark one event as no longer counting."""
        events = self.events[key]
        before = events[seq - 1]
        events[seq - 1] = before._replace(superseded_by=by)
        self._undo.append(lambda: events.__setitem__(seq - 1, before))

    def put_message(self, key: RunKey, message: Message) -> None:
        """Add a message to a run's inbox, or replace one."""
        inbox = self.inbox[key]
        before = inbox.get(message.id)
        inbox[message.id] = message
        if before is None:
            self._undo.append(lambda: inbox.pop(message.id))
        else:
            self._undo.append(lambda: inbox.__setitem__(message.id, before))

    def put_progress(self, key: RunKey, beat: Progress) -> None:
        """Keep the last heartbeat of a step."""
        beats = self.progress.setdefault(key, {})
        before = beats.get(beat.key)
        beats[beat.key] = beat
        if before is None:
            self._undo.append(lambda: beats.pop(beat.key))
        else:
            self._undo.append(lambda: beats.__setitem__(beat.key, before))

    def drop_progress(self, key: RunKey, *steps: str) -> None:
        """Forget the heartbeats of these steps, or of all."""
        before = self.progress.get(key, {})
        gone = steps or tuple(before)
        self.progress[key] = {step: beat for step, beat in before.items() if step not in gone}
        self._undo.append(lambda: self.progress.__setitem__(key, before))

    def add_line(self, key: RunKey, line: LogLine) -> None:
        """Add a line to a run's log, unless it is there."""
        lines = self.logs.setdefault(key, {})
        if line.at not in lines:
            lines[line.at] = line
            self._undo.append(lambda: lines.pop(line.at))

    def put_wait(self, wait: Wait) -> None:
        """Add what a run waits for from outside, or replace it."""
        waits = self.waits.setdefault((wait.ns, wait.run), {})
        before = waits.get(wait.key)
        waits[wait.key] = wait
        if before is None:
            self._undo.append(lambda: waits.pop(wait.key))
        else:
            self._undo.append(lambda: waits.__setitem__(wait.key, before))

    def put_link(self, key: RunKey, link: Link) -> None:
        """Keep what ties a run to its parent, or replace it."""
        before = self.children.get(key)
        self.children[key] = link
        if before is None:
            self._undo.append(lambda: self.children.pop(key))
        else:
            self._undo.append(lambda: self.children.__setitem__(key, before))


def every(tables: Tables) -> Iterator[Job]:
    """Yield all jobs there are."""
    for jobs in tables.jobs.values():
        yield from jobs.values()
