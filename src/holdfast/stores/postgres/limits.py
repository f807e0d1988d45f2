"""Managed queues: who joins the line, who is admitted, who gives a slot back.

Whoever takes runs of a managed queue locks its row first, so that it is alone there; the statements
after that see all that was admitted before. Rows of runs that others have locked are passed over:
nobody waits for a run while holding a queue. Those who close runs touch only the runs' own tickets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.model.jobs import JobClaim
from holdfast.model.limits import LINED_UP, Queue, QueueState, Ticket, queue_of
from holdfast.model.queues import PRIORITIES
from holdfast.model.run import Run
from holdfast.model.writes import Claim, Claimed, Notice, Outcome, SetQueue
from holdfast.stores.postgres import claims
from holdfast.stores.postgres.connection import Ask, Line
from holdfast.stores.postgres.statements import queries
from holdfast.stores.postgres.target import Row

SQL = queries()
COLUMNS = len(Queue._fields)


async def set_queue(ask: Ask, write: SetQueue, now: int | None) -> Outcome:
    """Give a queue a row, or change it."""
    here = {"ns": write.ns, "name": write.name}
    is_new = await ask(SQL.add_queue, **here, now=now)
    before = queue = queue_of((await ask(SQL.queue, **here))[0])
    [[at]] = await ask(SQL.clock) if now is None else [[now]]
    if write.limits is not None and write.limits != queue.limits:
        queue = queue._replace(**write.limits._asdict(), changed_at=at)
    if write.paused is not None:
        queue = queue._replace(paused=write.paused)
    if queue == before and not is_new:
        return Outcome(False)
    await ask(SQL.put_queue, **{**queue._asdict(), "paused": int(queue.paused)})
    return Outcome(True, heard=(Notice(queue.ns, "", "ready"),))


async def add_ticket(ask: Ask, ticket: Ticket, now: int | None) -> None:
    """Give a run a place at its queue; to have keys is to have a line."""
    await ask(SQL.add_queue, ns=ticket.ns, name=ticket.queue, now=now)
    await ask(SQL.add_ticket, **ticket._asdict())


async def free(ask: Ask, ns: str, runs: list[str]) -> list[Notice]:
    """Give back slots, or places in line; whoever waits for them should look."""
    freed = await ask(SQL.free_tickets, ns=ns, runs=runs)
    return [Notice(ns, "", "ready")] if freed else []


async def states(line: Line, ns: str, now: int | None) -> list[QueueState]:
    """Return the managed queues as they are."""
    found: list[QueueState] = []
    for row in await line.fetch(SQL.queue_states, ns=ns, now=now):
        queue = queue_of(row[:COLUMNS])
        held, waiting, blocked, blocked_at = row[COLUMNS:]
        found.append(QueueState(queue, held, waiting, _next_at(queue, blocked, blocked_at)))
    return found


def _next_at(queue: Queue, blocked: int | None, blocked_at: int | None) -> int | None:
    if queue.in_time(blocked) or blocked_at is None or queue.rate_per is None:
        return None
    return blocked_at + queue.rate_per


class Seen:
    """What a look found: what all queues show, and what the lines of managed ones do."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self.is_open = False
        """Whether a run that stands in line may begin, or one has to join."""
        self.next_at: list[int] = []
        self.overdue: tuple[Ticket, ...] = ()

    @property
    def claimable(self) -> bool:
        """Whether there is anything to take."""
        return self._row["claimable"] or self.is_open

    def joined(self, taken: Claimed, *, is_news: bool = False) -> Claimed:
        """Add what was seen to what was taken.

        If it `is_news` that queues are managed, nobody has taken from their lines: once more, now.
        """
        found = claims.seen(self._row, taken)
        times = [found.next_wake_at, *self.next_at]
        if is_news and self.is_open:
            times.append(self._row["now"])
        known = [at for at in times if at is not None]
        return found._replace(next_wake_at=min(known, default=None), overdue=self.overdue)


async def look(line: Line, claim: Claim, row: Row) -> Seen:
    """Look at the lines of managed queues without taking anything."""
    seen, now = Seen(row), row["now"]
    here = {"ns": claim.ns, "queues": list(row["managed"])}
    rows = await line.fetch(SQL.queues_of_namespace, ns=claim.ns)
    lines = Lines(claim, list(map(queue_of, rows)), now)
    lines.read(await line.fetch(SQL.rooms, **here, worker=claim.worker, now=now))
    heads = await line.fetch(SQL.heads, **here, priorities=PRIORITIES)
    standing = {name for name, _, _ in heads}
    seen.is_open = any(lines.room(name) for name in standing)
    for name in standing:
        at = lines.next_at(name)
        seen.next_at += [] if at is None else [at]
    if not seen.is_open:
        [[due]] = await line.fetch(SQL.unplaced_runs, **here, priorities=PRIORITIES, now=now)
        seen.is_open = due
    rows = await line.fetch(SQL.overdue_tickets, ns=claim.ns, now=now)
    seen.overdue = tuple(map(Ticket._make, rows))
    return seen


class Lines:
    """Managed queues and what keeps them, as they are while their rows are locked."""

    def __init__(self, claim: Claim | JobClaim, queues: list[Queue], now: int) -> None:
        self.claim, self.now = claim, now
        self.queues = {queue.name: queue for queue in queues}
        self._held: dict[str, int] = {}
        self._on_worker: dict[str, int] = {}
        self.blocked: dict[str, tuple[int | None, int | None]] = {}

    def read(self, rows: Sequence[Any]) -> None:
        """Take what `rooms` says."""
        for name, held, on_worker, blocked, blocked_at in rows:
            self._held[name], self._on_worker[name] = held, on_worker
            self.blocked[name] = (blocked, blocked_at)

    def room(self, name: str) -> int:
        """Return how many of a line may begin now."""
        queue = self.queues[name]
        room = queue.room(self._held.get(name, 0), self._on_worker.get(name, 0))
        return min(room, self.pace(name))

    def room_on_worker(self, name: str) -> int:
        """Return how many runs of a queue the claimer may take, whether they are new or not."""
        queue = self.queues.get(name)
        return claims.MOST if queue is None else queue.room_on_worker(self._on_worker.get(name, 0))

    def pace(self, name: str) -> int:
        """Return how many of a queue may begin, were there slots for all."""
        queue = self.queues[name]
        if queue.paused:
            return 0
        blocked, _ = self.blocked.get(name, (None, None))
        return min(self.room_on_worker(name), queue.in_time(blocked))

    def next_at(self, name: str) -> int | None:
        """Return when the rate lets the next one begin, if it is that which keeps a queue."""
        return _next_at(self.queues[name], *self.blocked.get(name, (None, None)))

    def takes(self, name: str, count: int) -> None:
        """Note that the claimer takes so many of this queue."""
        self._on_worker[name] = self._on_worker.get(name, 0) + count

    def admits(self, after: Queue, count: int, *, slots: int | None = None) -> Mapping[str, object]:
        """Note that so many are admitted, to that many slots; return what has to be written.

        `after` is the queue with the keys that were served last.
        """
        queue, name = after, after.name
        total = queue.admitted + count
        self._held[name] = self._held.get(name, 0) + (count if slots is None else slots)
        if queue.rate_count is not None:
            # Those admitted now stand at the end of the last `rate_count`: all of them too recent.
            blocked, at = self.blocked.get(name, (None, None))
            self.blocked[name] = (queue.admitted, self.now) if blocked is None else (blocked, at)
        self.queues[name] = queue._replace(admitted=total)
        self.takes(name, count)
        return {**self.queues[name]._asdict(), "before": queue.admitted, "now": self.now}


async def take(ask: Ask, claim: Claim, now: int | None) -> Claimed:
    """Take runs where some queues are managed, inside the open transaction.

    Lane by lane, as everywhere; a line is a lane too. The clock is read under the locks.
    """
    rows = await ask(SQL.locked_queues, ns=claim.ns, queues=_listed(claim))
    [[at]] = await ask(SQL.clock) if now is None else [[now]]
    lines = Lines(claim, list(map(queue_of, rows)), at)
    here = {"ns": claim.ns, "queues": list(lines.queues), "priorities": PRIORITIES}
    await ask(SQL.line_up, **here, now=at, limit=LINED_UP)
    lines.read(
        await ask(SQL.rooms, ns=claim.ns, queues=list(lines.queues), worker=claim.worker, now=at)
    )
    lanes = [
        (priority, since, queue, False)
        for queue, priority, since in await ask(
            SQL.due_lanes, ns=claim.ns, queues=_listed(claim), priorities=PRIORITIES, now=at
        )
    ]
    lanes += [
        (priority, since, queue, True) for queue, priority, since in await ask(SQL.heads, **here)
    ]
    found, suspects = Claimed(), claim.suspects
    for priority, _, queue, is_line in sorted(lanes):
        left = claim._replace(limit=claim.limit - len(found.runs), suspects=suspects)
        if left.limit <= 0:
            break
        way = _admit if is_line else _take_due
        taken = await way(ask, lines, left, queue, priority)
        if not is_line:
            suspects -= sum(run.strikes >= 2 for run in taken.runs)
        found = _joined(found, taken)
    return await _with_tickets(ask, lines, found)


def _listed(claim: Claim) -> list[str] | None:
    return None if claim.queues is None else list(claim.queues)


def _joined(first: Claimed, then: Claimed) -> Claimed:
    return Claimed(
        runs=first.runs + then.runs,
        first_events={**first.first_events, **then.first_events},
        convicts=first.convicts + then.convicts,
    )


async def _take_due(ask: Ask, lines: Lines, claim: Claim, queue: str, priority: int) -> Claimed:
    """Take from a lane of due runs, managed or not."""
    most = min(claim.limit, lines.room_on_worker(queue))
    if most <= 0:
        return Claimed()
    narrow = claims.taking(claim._replace(queues=(queue,), limit=most), lines.now)
    asked = claims.TAKE_BEGUN if queue in lines.queues else claims.TAKE
    narrow |= {"priorities": [priority], "names_convicts": lines.claim.suspects > 0}
    found = claims.taken(await ask(asked, **narrow))
    if queue in lines.queues:
        lines.takes(queue, len(found.runs))
    return found


async def _admit(ask: Ask, lines: Lines, claim: Claim, queue: str, priority: int) -> Claimed:
    """Admit runs of a line, as many as may begin."""
    most, row = min(claim.limit, lines.room(queue)), lines.queues[queue]
    if most <= 0:
        return Claimed()
    given = claims.taking(claim, lines.now)
    picked = await ask(
        SQL.admit_runs, ns=claim.ns, queue=queue, priority=priority, most=most,
        key_most=row.key_concurrency, after_key=row.last_key, worker=claim.worker,
        workflows=given["workflows"], now=lines.now, lease=claim.lease, address=given["address"],
        info=claim.info,
    )  # fmt: skip
    if not picked:
        return Claimed()
    after = row._replace(last_key=picked[-1][1])
    await ask(SQL.count_admissions, **lines.admits(after, len(picked)))
    runs = [run for run, _ in picked]
    return claims.taken(await ask(SQL.admitted_runs, ns=claim.ns, runs=runs))


async def _with_tickets(ask: Ask, lines: Lines, found: Claimed) -> Claimed:
    """Say which of the taken runs have a ticket; those that are in line still are only to end."""
    runs = [run.id for run in found.runs if _is_managed(run, lines)]
    if not runs:
        return found
    await ask(SQL.leave_line, ns=lines.claim.ns, runs=runs)
    rows = await ask(SQL.tickets_of_runs, ns=lines.claim.ns, runs=runs)
    return found._replace(ticketed=frozenset(run for (run,) in rows))


def _is_managed(run: Run, lines: Lines) -> bool:
    return run.queue in lines.queues
