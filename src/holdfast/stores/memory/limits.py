"""Managed queues in dictionaries: who joins the line, who is admitted, who gives a slot back."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable

from holdfast.model.holders import Holders, holders_of
from holdfast.model.jobs import Job
from holdfast.model.limits import LINED_UP, MOST, Queue, QueueState, Ticket
from holdfast.model.queues import DEFAULT_QUEUE, IN_LINE, PRIORITIES
from holdfast.model.run import CANCEL_REQUESTED, Run
from holdfast.model.status import QUEUED
from holdfast.model.writes import Claim, Create, Free, Notice, Outcome, SetQueue
from holdfast.stores.line import admit
from holdfast.stores.memory.tables import Tables, every


def set_queue(tables: Tables, write: SetQueue, now: int) -> Outcome:
    """Give a queue a row, or change it."""
    before = tables.queues.get((write.ns, write.name))
    queue = before or Queue(write.ns, write.name, changed_at=now)
    if write.limits is not None and write.limits != queue.limits:
        queue = queue._replace(**write.limits._asdict(), changed_at=now)
    if write.paused is not None:
        queue = queue._replace(paused=write.paused)
    if queue == before:
        return Outcome(False)
    tables.put_queue(queue)
    return Outcome(True, heard=(Notice(queue.ns, "", "ready"),))


def may_be_born(tables: Tables, write: Create) -> bool:
    """Tell whether a run may begin without standing in line."""
    if write.owner is None:
        return True
    return write.place is None and (write.ns, write.queue) not in tables.queues


def line_up_new(tables: Tables, write: Create, run: Run, now: int) -> Run:
    """Have a run that is started take its place; return its row as it is then."""
    place = write.place
    if write.queue == DEFAULT_QUEUE:
        return run
    if (write.ns, write.queue) not in tables.queues:
        if place is None:
            return run
        set_queue(tables, SetQueue(write.ns, write.queue), now)  # to have keys is to have a line
    expires_at = None
    if place is not None and place.timeout is not None:
        expires_at = write.wake_at + place.timeout
    ticket = Ticket(
        run.ns, run.id, run.queue, place.key if place else "", run.priority, write.wake_at,
        expires_at,
    )  # fmt: skip
    if write.wake_at <= write.event.at:
        ticket = ticket._replace(state="waiting")
        run = run._replace(wake_at=wakes_in_line(run.deadline, expires_at))
        tables.put_run(run)
    tables.put_ticket(ticket)
    return run


def add_ticket(tables: Tables, ticket: Ticket, now: int) -> None:
    """Give a run a place at its queue; to have keys is to have a line."""
    if (ticket.ns, ticket.queue) not in tables.queues:
        set_queue(tables, SetQueue(ticket.ns, ticket.queue), now)
    tables.put_ticket(ticket)


def wakes_in_line(*ends: int | None) -> int:
    """Return when a run in line has to be looked at: when it may no longer stand there."""
    return min((at for at in ends if at is not None), default=IN_LINE)


def free(tables: Tables, write: Free) -> list[Notice]:
    """Give back a slot, or a place in line; whoever waits for it should look."""
    ticket = tables.tickets.get((write.ns, write.run))
    if ticket is None or ticket.state == "done":
        return []
    tables.put_ticket(ticket._replace(state="done", expires_at=None))
    return [Notice(write.ns, "", "ready")]


def held(tables: Tables, queue: Queue, key: str | None = None) -> int:
    """Return how many slots of a queue are held, or of one key there."""
    found = holders(tables, queue)
    return (found if key is None else found.of_key(key)).slots


def holders(tables: Tables, queue: Queue) -> Holders:
    """Return who holds slots of a queue."""
    return holders_of(queue.ns, queue.name, tables.tickets.values(), every(tables))


def on_worker(tables: Tables, ns: str, queue: str, worker: str) -> int:
    """Return how many runs and jobs of a queue a worker has in hand."""
    here = (ns, queue, worker)
    runs = sum((run.ns, run.queue, run.owner) == here for run in tables.runs.values())
    return runs + sum((job.ns, job.queue, job.owner) == here for job in every(tables))


def states(tables: Tables, ns: str, now: int) -> list[QueueState]:
    """Return the managed queues as they are."""
    queues = [queue for (at, _), queue in sorted(tables.queues.items()) if at == ns]
    return [
        QueueState(
            queue,
            held(tables, queue),
            sum(ticket.state == "waiting" for ticket in _tickets(tables, queue))
            + sum(_is_waiting(job, queue, now) for job in every(tables)),
            next_at(tables, queue, now),
        )
        for queue in queues
    ]


def next_at(tables: Tables, queue: Queue, now: int) -> int | None:
    """Return when the rate lets the next run begin; None if it does now."""
    if in_time(tables, queue, now):
        return None
    admitted = tables.admissions.get((queue.ns, queue.name), {})
    return admitted[queue.admitted - (queue.rate_count or 0)] + (queue.rate_per or 0)


def in_time(tables: Tables, queue: Queue, now: int) -> int:
    """Return how many runs the rate lets begin now."""
    if queue.rate_count is None or queue.rate_per is None:
        return MOST
    first, since = queue.admitted - queue.rate_count, now - queue.rate_per
    admitted = tables.admissions.get((queue.ns, queue.name), {})
    return queue.in_time(
        min((n for n, at in admitted.items() if n >= first and at > since), default=None)
    )


def count(tables: Tables, queue: Queue, added: int, now: int) -> Queue:
    """Note that so many were admitted; return the row of the queue as it is then."""
    before = tables.admissions.get((queue.ns, queue.name), {})
    total = queue.admitted + added
    if queue.rate_count is not None:
        kept = {n: at for n, at in before.items() if n >= total - queue.rate_count}
        news = dict.fromkeys(range(queue.admitted, total), now)
        tables.put_admissions((queue.ns, queue.name), {**kept, **news})
    changed = queue._replace(admitted=total)
    tables.put_queue(changed)
    return changed


class Shown(ABC):
    """The part of the store that shows managed queues."""

    _tables: Tables

    @abstractmethod
    def now(self) -> int:
        """Return the store's clock."""

    async def queues(self, ns: str) -> list[QueueState]:
        """Return the managed queues as they are."""
        await asyncio.sleep(0)
        return states(self._tables, ns, self.now())

    async def ticket(self, ns: str, run: str) -> Ticket | None:
        """Return the place of a run at its queue, if it has one."""
        await asyncio.sleep(0)
        return self._tables.tickets.get((ns, run))


class Lines:
    """The managed queues that a claim may take from."""

    def __init__(self, tables: Tables, claim: Claim, now: int) -> None:
        self._tables, self._claim, self._now = tables, claim, now
        self.queues = {
            name: queue
            for (ns, name), queue in tables.queues.items()
            if ns == claim.ns and (claim.queues is None or name in claim.queues)
        }
        self._on_worker = {
            name: on_worker(tables, claim.ns, name, claim.worker) for name in self.queues
        }

    def line_up(self) -> None:
        """Have runs join the line that are due and hold no slot: woken by a time, or reopened."""
        for queue in self.queues.values():
            due = [run for run in self._runs(queue) if self._is_unplaced(run)]
            due.sort(key=lambda run: (run.wake_at or 0, run.id))
            for run in due[:LINED_UP]:
                self._join(run)

    def _join(self, run: Run) -> None:
        known = self._tables.tickets.get((run.ns, run.id))
        ticket = known or Ticket(run.ns, run.id, run.queue, priority=run.priority)
        due_at = run.wake_at or 0
        if ticket.state == "waiting":
            due_at = min(due_at, ticket.due_at)  # it was only disturbed: it keeps its place
        ticket = ticket._replace(state="waiting", due_at=due_at)
        self._tables.put_ticket(ticket)
        # One that has begun is past its deadline for good: it has to stand here all the same.
        is_ahead = run.deadline is not None and run.deadline > self._now
        rests_until = wakes_in_line(run.deadline if is_ahead else None, ticket.expires_at)
        self._tables.put_run(run._replace(wake_at=rests_until))

    def may_go_on(self, run: Run) -> bool:
        """Tell whether a due run needs no slot any more, or only has to end."""
        if run.queue not in self.queues or run.status not in QUEUED:
            return True
        ticket = self._tables.tickets.get((run.ns, run.id))
        return (ticket is not None and ticket.state == "admitted") or self._ends(run)

    def _ends(self, run: Run) -> bool:
        is_over = run.deadline is not None and run.deadline <= self._now
        return run.epoch == 0 and (run.cancel == CANCEL_REQUESTED or is_over)

    def _is_unplaced(self, run: Run) -> bool:
        if run.status not in QUEUED or run.wake_at is None or run.wake_at > self._now:
            return False
        ticket = self._tables.tickets.get((run.ns, run.id))
        expires_at = ticket.expires_at if ticket is not None else None
        is_expired = expires_at is not None and expires_at <= self._now
        return not self.may_go_on(run) and not is_expired

    def heads(self) -> list[tuple[int, int, str]]:
        """Return the lines in which runs stand: priority, since when the next one does, queue."""
        found: list[tuple[int, int, str]] = []
        for name, queue in self.queues.items():
            for priority in PRIORITIES:
                line = _Line(self._tables, queue, priority, self._claim, self._now)
                key = line.key_after(queue.last_key)
                key = line.key_after(None) if key is None else key
                if key is not None:
                    found.append((priority, line.first(key).due_at, name))
        return found

    def room(self, name: str) -> int:
        """Return how many runs of a line may begin now."""
        queue = self.queues[name]
        if queue.paused:
            return 0
        slots = queue.room(held(self._tables, queue), self._on_worker[name])
        return min(slots, in_time(self._tables, queue, self._now))

    def room_on_worker(self, name: str) -> int:
        """Return how many runs of a queue the claimer may take, whether they are new or not."""
        queue = self.queues.get(name)
        return MOST if queue is None else queue.room_on_worker(self._on_worker[name])

    def takes(self, run: Run) -> None:
        """Note that the claimer takes a run. One that leaves the line to end is no longer there."""
        if run.queue in self._on_worker:
            self._on_worker[run.queue] += 1
        ticket = self._tables.tickets.get((run.ns, run.id))
        if ticket is not None and ticket.state == "waiting":
            self._tables.put_ticket(ticket._replace(state="new", expires_at=None))

    def admit(self, name: str, priority: int, most: int) -> Generator[Run]:
        """Admit runs of a line, as many as may begin."""
        queue = self.queues[name]
        line = _Line(self._tables, queue, priority, self._claim, self._now)
        admitted, last_key = admit(line, queue.last_key, min(most, self.room(name)))
        if admitted:
            after = queue._replace(last_key=last_key)
            self.queues[name] = count(self._tables, after, len(admitted), self._now)
        yield from admitted

    def overdue(self) -> tuple[Ticket, ...]:
        """Return the tickets of runs that may no longer begin."""
        tickets = [
            ticket
            for ticket in self._tables.tickets.values()
            if ticket.ns == self._claim.ns
            and ticket.expires_at is not None
            and ticket.expires_at <= self._now
        ]
        return tuple(sorted(tickets, key=lambda ticket: (ticket.expires_at, ticket.run)))

    def next_at(self) -> Iterable[int]:
        """Return when rates let the next runs begin."""
        for queue in self.queues.values():
            waits = any(ticket.state == "waiting" for ticket in _tickets(self._tables, queue))
            at = next_at(self._tables, queue, self._now) if waits else None
            if at is not None:
                yield at

    def _runs(self, queue: Queue) -> list[Run]:
        runs = self._tables.runs.values()
        return [run for run in runs if (run.ns, run.queue) == (queue.ns, queue.name)]


class _Line:
    """One line: a managed queue at one priority."""

    def __init__(self, tables: Tables, queue: Queue, priority: int, claim: Claim, now: int) -> None:
        self._tables, self._queue, self._claim, self._now = tables, queue, claim, now
        self._priority = priority

    def key_after(self, key: str | None) -> str | None:
        """Return the next key that has a run in line."""
        keys = {ticket.key for ticket in self._waiting()}
        return min((each for each in keys if key is None or each > key), default=None)

    def first(self, key: str) -> Ticket:
        """Return the ticket of a key that has waited longest."""
        return min(self._of(key), key=lambda ticket: (ticket.due_at, ticket.run))

    def admit_one(self, key: str) -> Run | None:
        """Admit the first run of a key that the claimer knows."""
        most = self._queue.key_concurrency
        if key and most is not None and held(self._tables, self._queue, key) >= most:
            return None
        known = [ticket for ticket in self._of(key) if self._is_known(ticket)]
        if not known:
            return None
        ticket = min(known, key=lambda each: (each.due_at, each.run))
        self._tables.put_ticket(
            ticket._replace(state="admitted", admitted_at=self._now, expires_at=None)
        )
        return self._tables.runs[ticket.ns, ticket.run]

    def _waiting(self) -> list[Ticket]:
        return [
            ticket
            for ticket in _tickets(self._tables, self._queue)
            if ticket.state == "waiting" and ticket.priority == self._priority
        ]

    def _of(self, key: str) -> list[Ticket]:
        return [ticket for ticket in self._waiting() if ticket.key == key]

    def _is_known(self, ticket: Ticket) -> bool:
        run = self._tables.runs[ticket.ns, ticket.run]
        known = self._claim.workflows
        may_begin = run.status in QUEUED and (ticket.expires_at or IN_LINE) > self._now
        return may_begin and (run.workflow in known or f"{run.workflow}/{run.version}" in known)


def _is_waiting(job: Job, queue: Queue, now: int) -> bool:
    is_here = (job.ns, job.queue) == (queue.ns, queue.name)
    return is_here and job.owner is None and job.wake_at <= now


def _tickets(tables: Tables, queue: Queue) -> list[Ticket]:
    at = (queue.ns, queue.name)
    return [ticket for ticket in tables.tickets.values() if (ticket.ns, ticket.queue) == at]
