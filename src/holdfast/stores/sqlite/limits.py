"""Managed queues as statements: who joins the line, who is admitted, who gives a slot back."""

from __future__ import annotations

import json
from sqlite3 import Connection
from typing import Any, NamedTuple

from holdfast.model.limits import LINED_UP, MOST, Queue, QueueState, Ticket, queue_of
from holdfast.model.queues import DEFAULT_QUEUE, IN_LINE, PRIORITIES
from holdfast.model.run import Run
from holdfast.model.writes import Claim, Create, Free, Notice, Outcome, SetQueue
from holdfast.stores.line import admit
from holdfast.stores.sqlite.statements import queries

SQL = queries()
PRIORITIES_JSON = json.dumps(PRIORITIES)


def set_queue(connection: Connection, write: SetQueue, now: int) -> Outcome:
    """Give a queue a row, or change it."""
    here = {"ns": write.ns, "name": write.name}
    row = connection.execute(SQL.queue, here).fetchone()
    before = None if row is None else queue_of(row)
    queue = before or Queue(write.ns, write.name, changed_at=now)
    if write.limits is not None and write.limits != queue.limits:
        queue = queue._replace(**write.limits._asdict(), changed_at=now)
    if write.paused is not None:
        queue = queue._replace(paused=write.paused)
    if queue == before:
        return Outcome(False)
    connection.execute(SQL.put_queue, queue._asdict())
    return Outcome(True, heard=(Notice(queue.ns, "", "ready"),))


class Joined(NamedTuple):
    """What becomes of a start on a named queue."""

    is_refused: bool = False
    wake_at: int | None = None
    ticket: Ticket | None = None


def joins(connection: Connection, write: Create, wake_at: int | None) -> Joined:
    """Tell what a queue makes of a run that is started on it; only a managed one makes anything."""
    if write.queue == DEFAULT_QUEUE:
        return Joined(False, wake_at)
    is_managed = connection.execute(SQL.is_managed, (write.ns, write.queue)).fetchone()[0]
    if write.owner is not None:
        return Joined(bool(is_managed) or write.place is not None, wake_at)
    place = write.place
    if not is_managed and place is None:
        return Joined(False, wake_at)
    expires_at = None
    if place is not None and place.timeout is not None:
        expires_at = write.wake_at + place.timeout
    key, at = place.key if place else "", write.event.at
    ticket = Ticket(write.ns, write.id, write.queue, key, write.priority, write.wake_at, expires_at)
    if write.wake_at <= at:
        ticket = ticket._replace(state="waiting")
        wake_at = wakes_in_line(write.deadline, expires_at)
    return Joined(False, wake_at, ticket)


def wakes_in_line(*ends: int | None) -> int:
    """Return when a run in line has to be looked at: when it may no longer stand there."""
    return min((at for at in ends if at is not None), default=IN_LINE)


def add_ticket(connection: Connection, ticket: Ticket, now: int) -> None:
    """Give a run a place at its queue; to have keys is to have a line."""
    if not connection.execute(SQL.is_managed, (ticket.ns, ticket.queue)).fetchone()[0]:
        set_queue(connection, SetQueue(ticket.ns, ticket.queue), now)
    connection.execute(SQL.add_ticket, ticket._asdict())


def free(connection: Connection, write: Free) -> list[Notice]:
    """Give back a slot, or a place in line; whoever waits for it should look."""
    freed = connection.execute(SQL.free_ticket, {"ns": write.ns, "run": write.run}).rowcount
    return [Notice(write.ns, "", "ready")] if freed else []


def ticket(connection: Connection, ns: str, run: str) -> Ticket | None:
    """Return the place of a run at its queue."""
    row = connection.execute(SQL.ticket, {"ns": ns, "run": run}).fetchone()
    return None if row is None else Ticket._make(row)


def states(connection: Connection, ns: str, now: int) -> list[QueueState]:
    """Return the managed queues as they are."""
    found: list[QueueState] = []
    for row in connection.execute(SQL.queues_of_namespace, {"ns": ns}).fetchall():
        queue = queue_of(row)
        here = {"ns": ns, "queue": queue.name, "priorities": PRIORITIES_JSON, "now": now}
        held = connection.execute(SQL.held_of_queue, here).fetchone()[0]
        waiting = connection.execute(SQL.waiting_of_queue, here).fetchone()[0]
        found.append(QueueState(queue, held, waiting, in_time(connection, queue, now)[1]))
    return found


def in_time(connection: Connection, queue: Queue, now: int) -> tuple[int, int | None]:
    """Return how many the rate lets begin now; if none, when it lets the next one."""
    if queue.rate_count is None or queue.rate_per is None:
        return MOST, None
    first, since = queue.admitted - queue.rate_count, now - queue.rate_per
    here = {"ns": queue.ns, "queue": queue.name, "first": first, "since": since}
    rows: list[tuple[int, int]] = connection.execute(SQL.first_blocked, here).fetchall()
    allowed = queue.in_time(rows[0][0] if rows else None)
    return allowed, None if allowed else rows[0][1] + queue.rate_per


def count(connection: Connection, queue: Queue, added: int, now: int) -> Queue:
    """Note that so many were admitted; return the row of the queue as it is then."""
    total = queue.admitted + added
    here = {"ns": queue.ns, "queue": queue.name}
    if queue.rate_count is not None:
        rows = [{**here, "n": n, "at": now} for n in range(queue.admitted, total)]
        connection.executemany(SQL.add_admission, rows)
        first = total - queue.rate_count
        connection.execute(SQL.forget_admissions, {**here, "first": first})
    changed = queue._replace(admitted=total)
    connection.execute(SQL.count_admissions, changed._asdict())
    return changed


class Lines:
    """The managed queues that a claim may take from."""

    def __init__(self, connection: Connection, claim: Claim, now: int) -> None:
        self._connection, self._claim, self._now = connection, claim, now
        rows = connection.execute(SQL.queues_of_namespace, {"ns": claim.ns}).fetchall()
        served = claim.queues
        self.queues = {
            queue.name: queue
            for queue in map(queue_of, rows)
            if served is None or queue.name in served
        }
        self._on_worker: dict[str, int] = {}
        self.begun: set[str] = set()
        """Runs that were admitted just now: they are taken, whatever is said against it."""

    def line_up(self) -> None:
        """Have runs join the line that are due and hold no slot: woken by a time, or reopened."""
        for name in self.queues:
            for run, priority, wake_at, deadline, state, due_at, expires_at in self._unplaced(
                name, LINED_UP
            ):
                # One in line that was only disturbed keeps its place.
                since = min(wake_at, due_at) if state == "waiting" else wake_at
                here = {"ns": self._claim.ns, "run": run}
                self._connection.execute(
                    SQL.join_line, {**here, "queue": name, "priority": priority, "due_at": since}
                )
                # One that has begun is past its deadline for good, and stands here all the same.
                is_ahead = deadline is not None and deadline > self._now
                rests_until = wakes_in_line(deadline if is_ahead else None, expires_at)
                self._connection.execute(SQL.rest_in_line, {**here, "wake_at": rests_until})

    def is_any_unplaced(self) -> bool:
        """Tell whether runs have to join a line."""
        return any(self._unplaced(name, 1) for name in self.queues)

    def _unplaced(self, name: str, limit: int) -> list[tuple[Any, ...]]:
        values = {
            "ns": self._claim.ns, "queue": name, "now": self._now, "limit": limit,
            "priorities": PRIORITIES_JSON,
        }  # fmt: skip
        return self._connection.execute(SQL.unplaced_runs, values).fetchall()

    def heads(self) -> list[tuple[int, int, str]]:
        """Return the lines in which runs stand: priority, since when the next one does, queue."""
        found: list[tuple[int, int, str]] = []
        for queue in self.queues.values():
            for priority in PRIORITIES:
                line = _Line(self._connection, queue, priority, self._claim, self._now)
                since = line.since(queue.last_key)
                if since is not None:
                    found.append((priority, since, queue.name))
        return found

    def room(self, name: str) -> int:
        """Return how many runs of a line may begin now."""
        queue, held = self.queues[name], 0
        if queue.paused:
            return 0
        if queue.concurrency is not None:
            here = {"ns": queue.ns, "queue": name}
            held = self._connection.execute(SQL.held_of_queue, here).fetchone()[0]
        room = queue.room(held, self._held(queue))
        return min(room, in_time(self._connection, queue, self._now)[0]) if room else 0

    def room_on_worker(self, name: str) -> int:
        """Return how many runs of a queue the claimer may take, whether they are new or not."""
        queue = self.queues[name]
        return queue.room_on_worker(self._held(queue))

    def _held(self, queue: Queue) -> int:
        if queue.worker_concurrency is None:
            return 0
        if queue.name not in self._on_worker:
            values = {"ns": queue.ns, "queue": queue.name, "worker": self._claim.worker}
            held = self._connection.execute(SQL.held_on_worker, values).fetchone()[0]
            self._on_worker[queue.name] = held
        return self._on_worker[queue.name]

    def takes(self, run: Run) -> None:
        """Note that the claimer takes a run. One that leaves the line to end is no longer there."""
        if run.queue in self._on_worker:
            self._on_worker[run.queue] += 1
        if run.queue in self.queues and run.id not in self.begun:
            self._connection.execute(SQL.leave_line, {"ns": run.ns, "run": run.id})

    def admit(self, name: str, priority: int, most: int) -> list[Run]:
        """Admit runs of a line, as many as may begin."""
        queue = self.queues[name]
        line = _Line(self._connection, queue, priority, self._claim, self._now)
        admitted, last_key = admit(line, queue.last_key, min(most, self.room(name)))
        if admitted:
            after = queue._replace(last_key=last_key)
            self.queues[name] = count(self._connection, after, len(admitted), self._now)
            self.begun.update(run.id for run in admitted)
        return admitted

    def taken(self, runs: list[Run]) -> frozenset[str]:
        """Return which of the runs that were just taken have a ticket."""
        listed = json.dumps([run.id for run in runs if run.queue in self.queues])
        rows = self._connection.execute(SQL.tickets_of_runs, {"ns": self._claim.ns, "runs": listed})
        return frozenset(run for (run,) in rows)

    def overdue(self) -> tuple[Ticket, ...]:
        """Return the tickets of runs that may no longer begin."""
        values = {"ns": self._claim.ns, "now": self._now}
        return tuple(map(Ticket._make, self._connection.execute(SQL.overdue_tickets, values)))

    def next_at(self) -> list[int]:
        """Return when rates let the next runs begin."""
        standing = {name for _, _, name in self.heads()}
        times = [in_time(self._connection, self.queues[name], self._now)[1] for name in standing]
        return [at for at in times if at is not None]


class _Line:
    """One line: a managed queue at one priority."""

    def __init__(
        self, connection: Connection, queue: Queue, priority: int, claim: Claim, now: int
    ) -> None:
        self._connection, self._queue = connection, queue
        self._here: dict[str, Any] = {
            "ns": queue.ns, "queue": queue.name, "priority": priority, "now": now,
            "workflows": json.dumps(claim.workflows),
        }  # fmt: skip

    def key_after(self, key: str | None) -> str | None:
        """Return the next key that has a run in line."""
        asked = SQL.first_key if key is None else SQL.next_key
        row = self._connection.execute(asked, {**self._here, "key": key}).fetchone()
        return None if row is None else row[0]

    def since(self, last_key: str | None) -> int | None:
        """Return since when the run stands in line that is next, as far as keys go."""
        key = self.key_after(last_key)
        key = self.key_after(None) if key is None else key
        if key is None:
            return None
        found = self._connection.execute(SQL.first_in_line, {**self._here, "key": key}).fetchone()
        return int(found[0])

    def admit_one(self, key: str) -> Run | None:
        """Admit the first run of a key that the claimer knows."""
        here, most = {**self._here, "key": key}, self._queue.key_concurrency
        if key and most is not None:
            held = self._connection.execute(SQL.held_of_key, here).fetchone()[0]
            if held >= most:
                return None
        row = self._connection.execute(SQL.next_in_line, here).fetchone()
        if row is None:
            return None
        run = Run._make(row)
        self._connection.execute(SQL.admit_ticket, {**here, "run": run.id})
        return run
