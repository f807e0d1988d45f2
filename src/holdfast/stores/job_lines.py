"""Who is next among jobs where some queues are managed: the walk, apart from how a store looks.

Lane by lane, as with runs: a managed queue at one priority is a lane, and all others together are
one. First those go that are done in the slots of their runs, which cost nobody a slot; then key
after key, as long as there are slots. PostgreSQL does the same in `holdfast.admit_jobs`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from holdfast.model.jobs import Job, JobClaim, taken
from holdfast.model.limits import MOST, Queue
from holdfast.model.queues import PRIORITIES
from holdfast.model.run import SUSPECT
from holdfast.stores.line import admit

UNMANAGED = ""
"""Stands for all queues that are not managed."""
Head = tuple[int, int, str]
"""A lane with due jobs: its priority, since when the first is due, and its queue."""


class JobLines(ABC):
    """The lanes that a claim of jobs may take from, inside the open transaction."""

    def __init__(self, claim: JobClaim, now: int, queues: Iterable[Queue]) -> None:
        self.claim, self.now = claim, now
        self.queues = {
            queue.name: queue
            for queue in queues
            if claim.queues is None or queue.name in claim.queues
        }
        self.taken: list[Job] = []
        self.suspects = claim.suspects

    # --- what a store knows

    @abstractmethod
    def heads(self) -> Iterable[Head]:
        """Return the lanes with due jobs that the claimer may take."""

    @abstractmethod
    def due(self, priority: int) -> Iterable[Job]:
        """Return due jobs of the unmanaged queues, in their order."""

    @abstractmethod
    def riders(self, queue: str, priority: int) -> Iterable[tuple[Job, str]]:
        """Return due jobs whose run holds a slot with no job in it, each with the run's key."""

    @abstractmethod
    def key_after(self, queue: str, priority: int, key: str | None) -> str | None:
        """Return the next key that has a job there, due or not."""

    @abstractmethod
    def first(self, queue: str, priority: int, key: str) -> Job | None:
        """Return the due job of a key that goes first."""

    @abstractmethod
    def held(self, queue: str, key: str | None = None) -> int:
        """Return how many slots are held, of a queue or of one key there."""

    @abstractmethod
    def held_by_claimer(self, queue: str) -> int:
        """Return how many runs and jobs of a queue the claimer has in hand."""

    @abstractmethod
    def in_time(self, queue: Queue) -> tuple[int, int | None]:
        """Return how many the rate lets begin now; if none, when it lets the next one."""

    @abstractmethod
    def give(self, job: Job) -> None:
        """Write that the claimer has a job."""

    @abstractmethod
    def count(self, queue: Queue, added: int) -> Queue:
        """Write that so many were admitted; return the row of the queue as it is then."""

    # --- the walk

    def take(self) -> list[Job]:
        """Take what may begin, as much as was asked for."""
        lanes = sorted(self.heads()) if self.queues else [(p, 0, UNMANAGED) for p in PRIORITIES]
        for priority, _, name in lanes:
            if self._left <= 0:
                break
            if name != UNMANAGED:
                self._admit(name, priority)
                continue
            left = self.claim._replace(limit=self._left, suspects=self.suspects)
            for job in taken(self.due(priority), left):
                self._take(job)
        return self.taken

    def is_open(self, name: str, priority: int) -> bool:
        """Tell whether a job of a managed lane may begin, as far as it can be told without keys."""
        if not self._pace(name):
            return False
        return bool(self._slots(name)) or any(True for _ in self.riders(name, priority))

    def next_at(self) -> list[int]:
        """Return when rates let the next jobs begin."""
        names = {name for _, _, name in self.heads() if name != UNMANAGED}
        times = [self.in_time(self.queues[name])[1] for name in names]
        return [at for at in times if at is not None]

    @property
    def _left(self) -> int:
        return self.claim.limit - len(self.taken)

    def _admit(self, name: str, priority: int) -> None:
        begun = self._ride(name, priority)
        queue = self.queues[name]
        line, most = _Line(self, queue, priority), min(self._pace(name) - begun, self._slots(name))
        found, last_key = admit(line, queue.last_job_key, min(most, self._left))
        if begun or found:
            after = queue._replace(last_job_key=last_key)
            self.queues[name] = self.count(after, begun + len(found))

    def _ride(self, name: str, priority: int) -> int:
        """Take those that are done in the slots of their runs, one for each; return how many."""
        most, runs = min(self._pace(name), self._left), set[str]()
        for job, key in tuple(self.riders(name, priority)):
            if len(runs) >= most:
                break
            is_free = job.queue_key == key or self._has_key(self.queues[name], job.queue_key)
            if job.run not in runs and is_free and not self.is_suspect(job):
                self._take(job)
                runs.add(job.run)
        return len(runs)

    def _slots(self, name: str) -> int:
        most = self.queues[name].concurrency
        return MOST if most is None else max(most - self.held(name), 0)

    def _pace(self, name: str) -> int:
        """Return how many may begin, were there slots for all."""
        queue = self.queues[name]
        if queue.paused:
            return 0
        on_worker = 0 if queue.worker_concurrency is None else self.held_by_claimer(name)
        room = queue.room_on_worker(on_worker)
        return min(room, self.in_time(queue)[0]) if room else 0

    def _has_key(self, queue: Queue, key: str) -> bool:
        """Tell whether a key has a slot left."""
        most = queue.key_concurrency
        return not key or most is None or self.held(queue.name, key) < most

    def is_suspect(self, job: Job) -> bool:
        """Tell whether a job has to wait because the claimer has enough of its like."""
        return job.strikes >= SUSPECT and self.suspects <= 0

    def _take(self, job: Job) -> None:
        self.suspects -= job.strikes >= SUSPECT
        job = job._replace(owner=self.claim.worker, epoch=job.epoch + 1, begun_at=self.now)
        self.give(job)
        self.taken.append(job)

    def take_first(self, queue: Queue, priority: int, key: str) -> Job | None:
        """Take the first job of a key, unless the key has all its slots."""
        if not self._has_key(queue, key):
            return None
        job = self.first(queue.name, priority, key)
        if job is not None:
            self._take(job)
        return job


class _Line:
    """One line: a managed queue at one priority."""

    def __init__(self, lines: JobLines, queue: Queue, priority: int) -> None:
        self._lines, self._queue, self._priority = lines, queue, priority

    def key_after(self, key: str | None) -> str | None:
        """Return the next key that has a job in line."""
        return self._lines.key_after(self._queue.name, self._priority, key)

    def admit_one(self, key: str) -> Job | None:
        """Admit the first job of a key."""
        return self._lines.take_first(self._queue, self._priority, key)
