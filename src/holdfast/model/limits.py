"""What a queue allows: how many at once, of one key, on one worker, and how many in a time.

A queue with a row of its own is *managed*. Its runs stand in line: each has a *ticket*, and begins
when it is *admitted*. An admitted run holds a slot until it is closed, also while it waits, is
paused or has lost its worker: so no crash, no takeover and no wake-up can bring in one too many.
A job holds a slot as long as somebody does it (`model/holders.py`).
Queues without a row, and always the usual one, know nothing of this and pay nothing for it.

In line, keys take turns: after the key that was served last comes the next one in their order. So
a key with one run waits for as many others as there are keys, however many runs those have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

from holdfast.errors import BadDefinition, InvalidValue
from holdfast.model.checks import checked_id
from holdfast.model.durations import LONGEST, Duration, microseconds
from holdfast.model.queues import DEFAULT_QUEUE

MOST = 1_000_000
"""The largest number that a limit may have."""
LINED_UP = 1_000
"""How many runs at most join the line of a queue in one claim. Most join when they are started."""

TicketState = Literal["new", "waiting", "admitted", "done"]
"""`new`: not in line. `waiting`: in line. `admitted`: it holds a slot. `done`: its run closed."""


@dataclass(frozen=True, slots=True)
class Rate:
    """So many at most begin in any stretch of time of this length: `Rate(100, per=60)`."""

    count: int
    per: Duration = timedelta(seconds=1)


class Limits(NamedTuple):
    """What is allowed; None means: as many as come. The time of the rate is microseconds."""

    concurrency: int | None = None
    key_concurrency: int | None = None
    worker_concurrency: int | None = None
    rate_count: int | None = None
    rate_per: int | None = None

    @property
    def told(self) -> str:
        """The limits in words; empty if there are none."""
        parts = [
            f"{most} {what}"
            for most, what in (
                (self.concurrency, "at once"),
                (self.key_concurrency, "at once of a key"),
                (self.worker_concurrency, "at once on a worker"),
            )
            if most is not None
        ]
        if self.rate_count is not None:
            parts.append(f"{self.rate_count} in {(self.rate_per or 0) / 1e6:g} s")
        return ", ".join(parts)


NO_LIMITS = Limits()


class Queue(NamedTuple):
    """The row of a managed queue. Field order is the column order."""

    ns: str
    name: str
    concurrency: int | None = None
    key_concurrency: int | None = None
    worker_concurrency: int | None = None
    rate_count: int | None = None
    rate_per: int | None = None
    paused: bool = False
    changed_at: int = 0
    """When its limits were last changed: what was admitted before may be more than they allow."""
    admitted: int = 0
    """How many runs and jobs were ever admitted."""
    last_key: str | None = None
    """The key whose run was served last."""
    last_job_key: str | None = None
    """The key whose job was."""

    @property
    def limits(self) -> Limits:
        """What it allows."""
        return Limits(*self[2:7])

    def room(self, held: int, on_worker: int) -> int:
        """Return how many more may begin on a worker, as far as slots go."""
        room = MOST if self.concurrency is None else self.concurrency - held
        return max(min(room, self.room_on_worker(on_worker)), 0)

    def room_on_worker(self, held: int) -> int:
        """Return how many more runs a worker that holds so many may take."""
        return MOST if self.worker_concurrency is None else max(self.worker_concurrency - held, 0)

    def in_time(self, blocked: int | None) -> int:
        """Return how many the rate allows now.

        `blocked` is the number of the first admission, of the last `rate_count`, that is too
        recent; None if there is none.
        """
        if self.rate_count is None:
            return MOST
        first = self.admitted - self.rate_count
        return self.rate_count if blocked is None else max(blocked - first, 0)


def queue_of(row: Sequence[Any]) -> Queue:
    """Return a queue from its row: databases keep a truth as a number."""
    queue = Queue._make(row)
    return queue._replace(paused=bool(queue.paused))


class Ticket(NamedTuple):
    """A run's place at a managed queue. Field order is the column order."""

    ns: str
    run: str
    queue: str
    key: str = ""
    priority: int = 3
    due_at: int = 0
    expires_at: int | None = None
    state: TicketState = "new"
    admitted_at: int | None = None


class QueueState(NamedTuple):
    """A managed queue as it is at one moment."""

    queue: Queue
    held: int
    """Slots that runs and jobs hold."""
    waiting: int
    """Runs in line, and jobs that could begin."""
    next_at: int | None = None
    """When its rate lets the next one begin, if it is that which keeps it."""


class Place(NamedTuple):
    """What a start says of its place in line. The time-out is microseconds."""

    key: str = ""
    timeout: int | None = None


NO_PLACE = Place()


def checked_limits(
    queue: str,
    *,
    concurrency: int | None,
    key_concurrency: int | None,
    worker_concurrency: int | None,
    rate: Rate | None,
) -> Limits:
    """Return the limits of a queue. Raises `BadDefinition` or `InvalidDuration`."""
    for name, given in (
        ("concurrency", concurrency),
        ("key_concurrency", key_concurrency),
        ("worker_concurrency", worker_concurrency),
    ):
        _check_number(queue, name, given)
    if rate is None:
        return Limits(concurrency, key_concurrency, worker_concurrency)
    typed: object = rate
    if not isinstance(typed, Rate):
        told = f"rate={rate!r:.60} of queue {queue!r} is no rate"
        raise BadDefinition(what=told, hint="Write hf.Rate(100, per=timedelta(minutes=1)).")
    _check_number(queue, "rate.count", rate.count)
    per = microseconds(rate.per, field="rate.per")
    if per < 1:
        told = f"the rate of queue {queue!r} is per no time"
        raise BadDefinition(what=told, hint="Write hf.Rate(100, per=timedelta(minutes=1)).")
    return Limits(concurrency, key_concurrency, worker_concurrency, rate.count, per)


def _check_number(queue: str, name: str, given: object) -> None:
    if given is None or (type(given) is int and 1 <= given <= MOST):
        return
    hint = f"Give an int from 1 to {MOST:,}, or leave it out for no limit."
    if given == 0:
        hint = f"Pause the queue instead: `holdfast queues pause {queue}`."
    raise BadDefinition(what=f"{name}={given!r:.60} of queue {queue!r} is no limit", hint=hint)


def checked_managed(queue: str, what: str) -> str:
    """Return the name of a queue that can have limits. Raises `InvalidValue`, `InvalidName`."""
    checked_id(queue, field="queue")
    if queue != DEFAULT_QUEUE:
        return queue
    problem = f"{DEFAULT_QUEUE!r} has no line, so that runs on it begin without one"
    hint = 'Name a queue: @app.workflow(queue="mail"), or queue="mail" at the start.'
    raise InvalidValue(where=what, path="queue", problem=problem, hint=hint)


def placed(queue: str, key: str | None, timeout: Duration | None, where: str) -> Place | None:
    """Return what a start says of its place in line, if it says anything.

    Raises `InvalidValue` if its queue can have no line, `InvalidName` or `InvalidDuration`.
    """
    if key is None and timeout is None:
        return None
    checked_managed(queue, where)
    return Place(
        "" if key is None else checked_id(key, field="queue key"),
        None if timeout is None else microseconds(timeout, field="queue_timeout"),
    )


def begins_at(now: int, delay: Duration | None, start_at: datetime | None) -> int:
    """Return when a run may begin, at the earliest. Raises `InvalidValue`, `InvalidDuration`."""
    if delay is not None and start_at is not None:
        problem = "a delay says when it begins already"
        hint = "Give one of `delay` and `start_at`."
        raise InvalidValue(where="start", path="start_at", problem=problem, hint=hint)
    if delay is not None:
        return now + microseconds(delay, field="delay")
    if start_at is None:
        return now
    given: object = start_at
    if not isinstance(given, datetime) or start_at.tzinfo is None:
        problem = f"{start_at!r:.60} is no time in a zone"
        hint = "Give a datetime with a zone: datetime.now(UTC) + timedelta(hours=1)."
        raise InvalidValue(where="start", path="start_at", problem=problem, hint=hint)
    since = start_at - datetime(1970, 1, 1, tzinfo=UTC)
    at = since // timedelta(microseconds=1)
    if at - now > LONGEST:
        problem = f"{start_at} is more than 100 years away"
        raise InvalidValue(
            where="start", path="start_at", problem=problem, hint="Give a nearer one."
        )
    return max(at, now)
