"""Schedules: when runs are started by the clock, and what is kept of each.

A *slot* is one nominal time of a schedule. Its run has an id made of both, so that a slot starts at
most one run, whoever tries. The row of a schedule says up to which slot all is settled (`cursor`);
it changes together with the runs that are started, and only if nobody changed it before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Any, Literal, NamedTuple, cast

from holdfast.errors import InvalidDuration, InvalidName, InvalidSchedule
from holdfast.model import cron
from holdfast.model.checks import checked_id
from holdfast.model.durations import Duration, microseconds
from holdfast.model.labels import NO_LABELS, Labels

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000
SHORTEST = SECOND
"""The shortest interval."""
SHORTEST_CATCH_UP = 10 * SECOND
"""Every slot is a moment late: with less, a busy worker would miss some."""
LONGEST_ID = 200
"""Leaves room for the slot in the id of a run."""
LATEST = round((datetime(9999, 1, 1, tzinfo=UTC) - EPOCH) / MICROSECOND)
"""No slot is later: a calendar ends there."""
MOST_WAITING = 1_000
"""How many slots of a schedule may wait; what comes then is skipped."""
LENGTHS = ("every", "offset", "jitter", "catch_up")
TRIGGER = "trigger-"
"""What stands in the id of a run before the key of whoever triggered it."""
RECENT = 20
"""How many settled slots a row remembers."""


class Overlap(StrEnum):
    """What becomes of a slot while a run of its schedule is still open."""

    SKIP = "skip"
    """It is left out."""
    BUFFER_ONE = "buffer_one"
    """It starts when the run closes; further ones are left out."""
    BUFFER_ALL = "buffer_all"
    """It starts when the runs before it have closed, one after the other."""
    CANCEL_OTHER = "cancel_other"
    """The run is cancelled, and when it has closed, the slot starts."""
    TERMINATE_OTHER = "terminate_other"
    """The run is terminated, and the slot starts at once."""
    ALLOW = "allow"
    """It starts beside it."""


WAITS = (Overlap.BUFFER_ONE, Overlap.BUFFER_ALL, Overlap.CANCEL_OTHER)
"""Those that let slots wait for a run to close."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """When runs are started: by a `cron` line in a time zone, or `every` so often.

    Intervals count from 1970-01-01 00:00 UTC, plus `offset`. `jitter` is up to how much later than
    its nominal time a slot starts: always the same for one slot. `catch_up` is how late a slot may
    be started after an outage or a pause; what is later is missed. Slots lie from `start` to `end`,
    and after `limit` runs no more come. Raises `InvalidSchedule`.
    """

    cron: str | None = None
    every: Duration | None = None
    offset: Duration = 0
    zone: str = "UTC"
    jitter: Duration = 0
    overlap: Overlap = Overlap.SKIP
    catch_up: Duration = timedelta(days=1)
    start: datetime | None = None
    end: datetime | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if (self.cron is None) == (self.every is None):
            raise InvalidSchedule(
                field="cron", value=self.cron, problem="is given together with every, or neither is"
            )
        _check_zone(self.zone)
        if self.cron is None:
            self._check_interval()
        else:
            self._check_cron(self.cron)
        _length("jitter", self.jitter)
        if _length("catch_up", self.catch_up) < SHORTEST_CATCH_UP:
            problem = "is shorter than 10 seconds"
            raise InvalidSchedule(field="catch_up", value=self.catch_up, problem=problem)
        if self.overlap not in tuple(Overlap):
            listed = ", ".join(each.name for each in Overlap)
            problem = f"is none of hf.Overlap: {listed}"
            raise InvalidSchedule(field="overlap", value=self.overlap, problem=problem)
        self._check_bounds()

    def _check_interval(self) -> None:
        if _length("every", self.every) < SHORTEST:
            problem = "is shorter than a second"
            raise InvalidSchedule(field="every", value=self.every, problem=problem)
        if _length("offset", self.offset) >= _length("every", self.every):
            problem = f"is not less than every={self.every!r}"
            raise InvalidSchedule(field="offset", value=self.offset, problem=problem)

    def _check_cron(self, line: str) -> None:
        if not isinstance(line, str):
            raise InvalidSchedule(field="cron", value=line, problem="is no text")
        if self.offset != 0:
            problem = "goes with every, not with cron"
            raise InvalidSchedule(field="offset", value=self.offset, problem=problem)
        try:
            cron.read(line)
        except ValueError as error:
            raise InvalidSchedule(
                field="cron", value=line, problem=f"is no cron: {error}"
            ) from None

    def _check_bounds(self) -> None:
        for name, moment in (("start", self.start), ("end", self.end)):
            if moment is None:
                continue
            checked_moment(name, moment)
        if self.start is not None and self.end is not None and self.end < self.start:
            raise InvalidSchedule(field="end", value=self.end, problem="is before start")
        limit: object = self.limit
        if limit is not None and (type(limit) is not int or limit < 1):
            problem = "is no number of runs from 1 on"
            raise InvalidSchedule(field="limit", value=limit, problem=problem)

    def after(self, moment: datetime) -> datetime | None:
        """Return the nominal time of the first slot after `moment`, in the schedule's zone."""
        found = self.slot_after(_since_1970(moment))
        return None if found is None else self.shown(found)

    def shown(self, slot: int) -> datetime:
        """Return a slot in the schedule's zone."""
        return (EPOCH + slot * MICROSECOND).astimezone(_zone(self.zone))

    def slot_after(self, moment: int) -> int | None:
        """Return the first slot after `moment`, both in microseconds since 1970."""
        if self.start is not None:
            moment = max(moment, _since_1970(self.start) - 1)
        if self.cron is not None:
            found = cron.after(self.cron, _zone(self.zone), moment)
        else:
            every, offset = _length("every", self.every), _length("offset", self.offset)
            found = (moment - offset) // every * every + every + offset
        is_over = self.end is not None and found is not None and found > _since_1970(self.end)
        return None if found is None or is_over or found > LATEST else found

    def slots(self, after: int) -> Iterator[int]:
        """Yield the slots after a moment, in order."""
        found = self.slot_after(after)
        while found is not None:
            yield found
            found = self.slot_after(found)

    def delay_of(self, name: str, slot: int) -> int:
        """Return how much later than its nominal time a slot of the schedule `name` starts."""
        longest = _length("jitter", self.jitter)
        if not longest:
            return 0
        drawn = blake2b(f"{name}\0{slot}".encode(), digest_size=8).digest()
        return longest * int.from_bytes(drawn, "big") >> 64

    @property
    def delay_bound(self) -> int:
        """What no slot is delayed longer than, in microseconds."""
        return _length("jitter", self.jitter)

    @property
    def window(self) -> int:
        """How late a slot may be started, in microseconds."""
        return _length("catch_up", self.catch_up)

    def encoded(self) -> str:
        """Return what a row keeps."""
        told = {each.name: _plain(each.name, getattr(self, each.name)) for each in fields(self)}
        defaults = {each.name: _plain(each.name, each.default) for each in fields(self)}
        return json.dumps({name: told[name] for name in told if told[name] != defaults[name]})


def schedule_of(text: str) -> Schedule:
    """Return what `encoded` was given. Raises `InvalidSchedule` if this host cannot read it."""
    told: dict[str, Any] = json.loads(text)
    for name in LENGTHS:
        if name in told:
            told[name] = timedelta(microseconds=told[name])
    for name in ("start", "end"):
        if name in told:
            told[name] = EPOCH + told[name] * MICROSECOND
    if "overlap" in told:
        told["overlap"] = Overlap(told["overlap"])
    return Schedule(**told)


def checked_moment(field: str, given: object) -> int:
    """Return a moment in microseconds since 1970. Raises `InvalidSchedule`."""
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise InvalidSchedule(field=field, value=given, problem="is no datetime with a time zone")
    return _since_1970(given)


def _plain(name: str, value: Any) -> Any:
    if name in LENGTHS:
        return None if value is None else _length(name, value)
    return _since_1970(value) if isinstance(value, datetime) else value


def _since_1970(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


def _length(field: str, value: object) -> int:
    try:
        return microseconds(cast("Duration", value), field=field)
    except InvalidDuration:
        raise InvalidSchedule(field=field, value=value, problem="is no length of time") from None


def _zone(name: str) -> Any:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def _check_zone(name: str) -> None:
    try:
        _zone(name)
    except (ValueError, TypeError, AttributeError, LookupError, OSError):
        problem = "is no time zone that this host knows"
        raise InvalidSchedule(field="zone", value=name, problem=problem) from None


# --- names


def checked_schedule_id(id: str) -> str:
    """Return the id if a schedule may have it. Raises `InvalidName`."""
    checked_id(id, field="schedule id")
    if "@" in id or len(id) > LONGEST_ID:
        problem = f"has an @, or more than {LONGEST_ID} characters"
        raise InvalidName(field="schedule id", value=id, problem=problem)
    return id


def slot_id(schedule: str, slot: int) -> str:
    """Return the id of the run that a slot starts."""
    return f"{schedule}@{iso(slot)}"


def iso(moment: int) -> str:
    """Return a moment as text, in UTC."""
    return (EPOCH + moment * MICROSECOND).isoformat().replace("+00:00", "Z")


def scheduled_by(run: str) -> str:
    """Return the schedule that a run is of, if it is of one, by its id; else any name, or none."""
    return run.rpartition("@")[0]


def slot_key(schedule: str, slot: int) -> str:
    """Return the key of the first event of a run that a schedule starts."""
    return f"@{slot} {schedule}"


def schedule_in(key: str) -> str:
    """Return the schedule of a run whose first event has this key; nothing, if it has none."""
    return key.partition(" ")[2] if key.startswith("@") else ""


def slot_in(key: str) -> int | None:
    """Return the slot of a run whose first event has this key."""
    return int(key[1:].partition(" ")[0]) if key.startswith("@") else None


# --- the row

SlotKind = Literal["clock", "backfill"]
Settled = Literal["started", "waiting", "skipped", "missed"]


class Slot(NamedTuple):
    """A slot that waits for its turn."""

    at: int
    kind: SlotKind = "clock"


class Past(NamedTuple):
    """What became of a slot of the clock. Of slots that are missed, all up to `last`."""

    at: int
    outcome: Settled
    last: int = 0


class How(NamedTuple):
    """How its runs are started; `given` are the fields that the schedule says, not the workflow."""

    input_digest: bytes = b""
    version: str = ""
    shape: bytes = b""
    queue: str = ""
    priority: int = 0
    timeout: int | None = None
    labels: Labels = NO_LABELS
    given: tuple[str, ...] = ()

    def newer(self, other: How) -> How:
        """Return this with what another host's code says of the workflow."""
        told = {name: getattr(other, name) for name in ("queue", "priority", "timeout")}
        told = {name: value for name, value in told.items() if name not in self.given}
        return self._replace(version=other.version, shape=other.shape, **told)


class Scheduled(NamedTuple):
    """A schedule as a store keeps it."""

    ns: str
    id: str
    revision: int
    """Goes up with each change; begins with the time, so that no two rows ever share one."""
    workflow: str
    spec: str
    input: bytes
    how: How
    paused: bool = False
    note: str = ""
    next_at: int | None = None
    """When a worker must look at it."""
    cursor: int = 0
    """Up to here all slots are settled."""
    since: int = 0
    """From here on the slots are those of `spec`."""
    buffer: tuple[Slot, ...] = ()
    running: tuple[str, ...] = ()
    """The runs it started that may be open; not kept if they may overlap."""
    recent: tuple[Past, ...] = ()
    started: int = 0
    """How many runs the clock has started, as `limit` counts them."""
    declared: str = ""
    """What code said of it, in short; empty if it is not declared in code."""
    created_at: int = 0
    updated_at: int = 0

    @property
    def schedule(self) -> Schedule:
        """Return its times and rules. Raises `InvalidSchedule` if this host cannot read them."""
        return schedule_of(self.spec)

    @property
    def buffered(self) -> int:
        """How many slots wait for a run to close; -1 if none ever does."""
        overlap = json.loads(self.spec).get("overlap", Overlap.SKIP)
        return -1 if overlap not in WAITS and not self.buffer else len(self.buffer)

    def slots_between(self, start: int, end: int) -> list[int]:
        """Return the slots of a time that is settled, and of one more than may wait no others."""
        last = min(end, self.cursor)
        ahead = takewhile(lambda slot: slot <= last, self.schedule.slots(start - 1))
        return list(islice(ahead, MOST_WAITING + 1))


class ScheduleFilter(NamedTuple):
    """Which rows to read: those of these `ids`, or all, in their order, after the id `after`.

    With `workflows` (as in a `Claim`), those that a worker will have to look at, the next first.
    """

    ns: str
    ids: tuple[str, ...] = ()
    workflows: tuple[str, ...] | None = None
    limit: int = 1_000
    after: str = ""

    def fits(self, row: Scheduled) -> bool:
        """Tell whether the row is one of those."""
        if row.ns != self.ns or (self.ids and row.id not in self.ids) or row.id <= self.after:
            return False
        if self.workflows is None:
            return True
        return row.next_at is not None and knows(self.workflows, row.workflow)


def knows(workflows: tuple[str, ...], workflow: str) -> bool:
    """Tell whether a claimer of these knows the workflow, in whichever version."""
    return workflow in workflows or f"{workflow}/" in workflows


COLUMNS = (
    "ns", "id", "revision", "workflow", "paused", "note", "next_at", "buffered", "settled_to",
    "spec", "input", "state", "created_at", "updated_at",
)  # fmt: skip


def row_of(row: Scheduled) -> dict[str, Any]:
    """Return the columns of a row, by name."""
    tags, attributes = row.how.labels
    how = {
        **row.how._asdict(), "shape": row.how.shape.hex(), "labels": (tags, dict(attributes)),
        "input_digest": row.how.input_digest.hex(),
    }  # fmt: skip
    state = {
        "how": how,
        "since": row.since, "buffer": row.buffer, "running": row.running, "recent": row.recent,
        "started": row.started, "declared": row.declared,
    }  # fmt: skip
    return {
        "ns": row.ns, "id": row.id, "revision": row.revision, "workflow": row.workflow,
        "paused": int(row.paused), "note": row.note, "next_at": row.next_at,
        "buffered": row.buffered, "settled_to": row.cursor, "spec": row.spec, "input": row.input,
        "state": json.dumps(state, separators=(",", ":")),
        "created_at": row.created_at, "updated_at": row.updated_at,
    }  # fmt: skip


def scheduled_of(columns: Any) -> Scheduled:
    """Return what `row_of` was given."""
    told: Mapping[str, Any] = dict(zip(COLUMNS, columns, strict=True))
    state = json.loads(told["state"])
    return Scheduled(
        told["ns"], told["id"], told["revision"], told["workflow"], told["spec"],
        bytes(told["input"]), _how_of(state["how"]), bool(told["paused"]), told["note"],
        told["next_at"], told["settled_to"], state["since"],
        tuple(Slot(*each) for each in state["buffer"]),
        tuple(state["running"]), tuple(Past(*each) for each in state["recent"]),
        state["started"], state["declared"], told["created_at"], told["updated_at"],
    )  # fmt: skip


def _how_of(told: Mapping[str, Any]) -> How:
    tags, attributes = told["labels"]
    return How(
        bytes.fromhex(told["input_digest"]), told["version"], bytes.fromhex(told["shape"]),
        told["queue"], told["priority"], told["timeout"],
        Labels(tuple(tags), attributes) if tags or attributes else NO_LABELS,
        tuple(told["given"]),
    )  # fmt: skip
