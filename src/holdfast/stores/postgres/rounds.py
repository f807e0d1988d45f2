"""A round: writes of many runs as one statement, with one array for each column of what they write.

A round takes whole batches, as long as no run is in it twice. Each write is carried out or refused
by itself; the statement is one transaction and one round trip, however many writes it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from operator import itemgetter
from typing import Any, cast

from holdfast.model.annotations import Annotations
from holdfast.model.events import Event
from holdfast.model.labels import NO_LABELS, Labels, rows_of
from holdfast.model.limits import NO_PLACE
from holdfast.model.queues import DEFAULT_QUEUE
from holdfast.model.run import Run
from holdfast.model.status import ASIDE, CLOSED
from holdfast.model.waits import Waits, row_of
from holdfast.model.writes import Advance, Annotate, Create, Outcome, Put, Renew, Write
from holdfast.stores import processes
from holdfast.stores.postgres.statements import Statement, fragments, queries, statement

SQL = queries()
Rows = list[tuple[Any, ...]]
Parts = dict[str, Rows]

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "key": ("n", "ns", "run"),
    "turn": (
        "n", "ns", "run", "epoch", "seq", "count", "status", "reason", "owner", "wake_at",
        "inbox_read", "inbox_seq", "takes_cancel", "progresses", "at", "closed_at", "not_before",
    ),
    "create": (
        "n", "ns", "id", "workflow", "version", "status", "epoch", "owner", "wake_at",
        "input_digest", "at", "deadline", "queue", "priority",
    ),
    "place": ("n", "key", "due_at", "expires_at", "is_given"),
    "put": ("n", "id", "kind", "name", "payload", "at", "cancels", "unless"),
    "note": ("n", "owner", "epoch", "moves_on"),
    "event": (
        "n", "ns", "run", "seq", "generation", "epoch", "kind", "key", "asked_seq", "at", "took",
        "digest", "codec", "payload",
    ),
    "supersede": ("n", "seq", "by"),
    "line": (
        "n", "at", "level", "logger", "message", "key", "attempt", "generation", "epoch", "fields",
    ),
    "beat": ("n", "key", "generation", "attempt", "at", "details", "epoch"),
    "forget": ("n", "key"),
    "verdict": ("n", "message", "state", "payload"),
    "tag": ("n", "ns", "run", "name", "kind", "word", "number"),
    "wait": (
        "n", "ns", "run", "key", "kind", "generation", "attempt", "secret", "state", "asked_at",
        "expires_at", "recipients", "asked", "settled_at", "settled_by", "answer", "why",
    ),
    "over": ("n", "key", "why", "at"),
    "job": (
        "n", "ns", "run", "key", "generation", "attempt", "secret", "step", "queue", "priority",
        "args", "terms", "asked_at", "wake_at", "start_by", "owner", "epoch", "strikes", "begun_at",
        "queue_key",
    ),
    "drop": ("n", "key"),
    "define": ("n", "ns", "workflow", "version", "shape"),
    "renew": ("n", "worker", "lease", "address", "info"),
}  # fmt: skip
"""What each part of a round is given, in the order in which a row is made below."""

HEADS = ("turn", "create", "put", "note", "renew")
"""Parts that answer; the others are said of those that were applied."""
APPLIED = ("turn", "create", "note")
SAID = (
    "event", "supersede", "line", "beat", "forget", "verdict", "tag", "define", "wait", "over",
    "job", "drop",
)  # fmt: skip

CLOSED_LIST, ASIDE_LIST = sorted(CLOSED), sorted(ASIDE)
FIRST_COLUMN = 6
"""Where the run's own columns begin in an answer."""


FEW, MANY = 16, 500
"""Writes in a round, apart from those of its first batch: of any kind, whose joins stay small, or
of a quick one."""
HEAVY = 8 * 1024 * 1024
"""Bytes of payloads from which on a round takes no more."""


class Round:
    """Collects writes, and reads what the statement answers."""

    def __init__(self) -> None:
        self.writes = list[Write]()
        self.is_quick = True
        """Whether it holds only what the quick way can write."""
        self._keys: set[tuple[str, str]] = set()
        self._parts: Parts = {}
        self._bytes = 0

    def takes(self, batch: Sequence[Write]) -> bool:
        """Add the whole batch if all of it fits; else nothing of it."""
        keys = [key for write in batch if (key := _key_of(write)) is not None]
        if len(keys) != len(batch) or len(set(keys)) != len(keys):
            return False
        is_quick = self.is_quick and all(map(_is_quick, batch))
        if self.writes and not self._has_room(keys, MANY if is_quick else FEW):
            return False
        self.is_quick = is_quick
        self._keys.update(keys)
        for write in batch:
            self.add(write)
        return True

    def add(self, write: Write) -> None:
        """Add a write, whether it fits or not."""
        _ADD[type(write)](self._parts, len(self.writes), write)
        self.writes.append(write)
        self._bytes += _weight_of(write)

    def _has_room(self, keys: list[tuple[str, str]], most: int) -> bool:
        if len(self.writes) + len(keys) > most or self._bytes > HEAVY:
            return False
        return self._keys.isdisjoint(keys)

    def question(self, now: int | None, *, quick: bool = False) -> tuple[Statement, list[object]]:
        """Return the statement and what is bound in its places.

        The quick way fails as a whole if any write is refused.
        """
        asked = (_quick_statement_of if quick else _statement_of)(frozenset(self._parts))
        if quick:
            # Rows are locked in the order in which they are given.
            for part in ("turn", "create"):
                self._parts.get(part, []).sort(key=itemgetter(1, 2))
        values: dict[str, object] = {"now": now, "closed": CLOSED_LIST, "aside": ASIDE_LIST}
        for part, rows in self._parts.items():
            # The rows as columns: one array a place.
            values.update(zip(_places_of(part), zip(*rows, strict=True), strict=True))
        return asked, asked.bound(values)

    def outcomes(self, rows: Sequence[Sequence[Any]]) -> list[Outcome]:
        """Return what became of each write, in their order."""
        found: list[Outcome | None] = [None] * len(self.writes)
        for row in rows:
            n: int = row[0]
            _, applied, total, inbox_seq, cancel = row[1:FIRST_COLUMN]
            write = self.writes[n]
            if applied and type(write) is Advance:
                found[n] = Outcome(True, None, inbox_seq, cancel)
            elif applied and type(write) is Create:
                found[n] = Outcome(True, born(write, inbox_seq))
            elif len(row) == FIRST_COLUMN:
                found[n] = Outcome(applied, total=total)
            else:
                run = None if row[FIRST_COLUMN] is None else Run._make(row[FIRST_COLUMN:])
                found[n] = Outcome(applied, run, total=total)
        return [each or Outcome(False) for each in found]


# --- each kind of write as rows


def _row(parts: Parts, part: str, *row: Any) -> None:
    parts.setdefault(part, []).append(row)


def _turn(parts: Parts, n: int, write: Advance) -> None:
    held = write.status == "running"
    _row(parts, "key", n, write.ns, write.run)
    _row(
        parts, "turn", n, write.ns, write.run, write.epoch, write.seq, len(write.events),
        write.status, "" if held else kept(write.reason), write.owner,
        None if held else write.wake_at,
        write.inbox_read, write.inbox_seq, write.takes_cancel, write.progresses, write.at,
        write.at if write.status in CLOSED else None, write.not_before,
    )  # fmt: skip
    for event in write.events:
        _event(parts, n, write.ns, write.run, event)
    for seq in write.supersedes:
        _row(parts, "supersede", n, seq, write.superseded_by)
    if write.annotations is not None:
        _said(parts, n, write.annotations)
    for told in write.replies:
        _row(parts, "verdict", n, *told)
    if write.waits is not None:
        _waits(parts, n, write.waits, write.at)


def _waits(parts: Parts, n: int, waits: Waits, at: int) -> None:
    for wait in waits.opens:
        _row(parts, "wait", n, *row_of(wait))
    for key, why in waits.overs:
        _row(parts, "over", n, key, why, at)
    for job in waits.jobs:
        _row(parts, "job", n, *job)
    for key in waits.drops:
        _row(parts, "drop", n, key)


def _event(parts: Parts, n: int, ns: str, run: str, event: Event) -> None:
    kind, at, key, payload, asked_seq, digest, took, seq, epoch, generation, codec, _ = event
    _row(
        parts, "event", n, ns, run, seq, generation, epoch, kind, key, asked_seq, at, took, digest,
        codec, payload,
    )  # fmt: skip


def _create(parts: Parts, n: int, write: Create) -> None:
    run = born(write)
    _row(
        parts, "create", n, run.ns, run.id, run.workflow, run.version, run.status, run.epoch,
        run.owner, run.wake_at, run.input_digest, run.created_at, run.deadline, run.queue,
        run.priority,
    )  # fmt: skip
    _event(parts, n, run.ns, run.id, write.event)
    if write.queue != DEFAULT_QUEUE:
        place = write.place or NO_PLACE
        expires_at = None if place.timeout is None else write.wake_at + place.timeout
        is_given = write.place is not None
        _row(parts, "place", n, place.key, write.wake_at, expires_at, is_given)
    if write.labels is not NO_LABELS:
        for label in tag_rows(write.labels):
            _row(parts, "tag", n, run.ns, run.id, *label)
    if write.defines is not None:
        _row(parts, "define", n, *write.defines)


def _put(parts: Parts, n: int, write: Put) -> None:
    message = write.message
    _row(parts, "key", n, write.ns, write.run)
    _row(
        parts, "put", n, message.id, message.kind, message.name, message.payload, message.at,
        write.cancels, write.unless,
    )  # fmt: skip


def _note(parts: Parts, n: int, write: Annotate) -> None:
    _row(parts, "key", n, write.ns, write.run)
    _row(parts, "note", n, write.owner, write.epoch, write.moves_on)
    _said(parts, n, write.annotations)


def _said(parts: Parts, n: int, said: Annotations) -> None:
    for line in said.lines:
        logger, message = as_bytes(line.logger), as_bytes(line.message)
        _row(parts, "line", n, *line._replace(logger=logger, message=message))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    # One row a key: what is forgotten in the same breath is not kept first.
    last = {beat.key: beat for beat in said.progress if beat.key not in said.forgets}
    for beat in last.values():
        _row(parts, "beat", n, *beat)
    for key in said.forgets:
        _row(parts, "forget", n, key)


def _renew(parts: Parts, n: int, write: Renew) -> None:
    address = write.address or processes.this()
    _row(parts, "renew", n, write.worker, write.lease, address, write.info)


_ADD: Mapping[type[Any], Callable[[Parts, int, Any], None]] = {
    Advance: _turn,
    Create: _create,
    Put: _put,
    Annotate: _note,
    Renew: _renew,
}


def _key_of(write: Write) -> tuple[str, str] | None:
    """Return what a write is alone on in its round; None if it fits into none."""
    match write:
        case Advance() if write.continues or write.supersedes:
            return None
        case Put() if write.answers is not None or write.ends is not None or write.secrets:
            return None
        case Advance():
            return None if write.sends else (write.ns, write.run)
        case Put() | Annotate():
            return write.ns, write.run
        case Create():
            is_bare = write.message is None and not write.secrets
            return (write.ns, write.id) if is_bare else None
        case Renew():
            return "worker", write.worker
        case _:
            return None


def _is_quick(write: Write) -> bool:
    """Tell whether the quick way can write it."""
    kind = type(write)
    if kind is Advance:
        turn = cast("Advance", write)
        is_bare = turn.annotations is None and turn.waits is None
        return is_bare and not turn.supersedes and not turn.replies
    return kind is Create or kind is Renew


def _weight_of(write: Write) -> int:
    match write:
        case Advance():
            return sum(len(event.payload or b"") for event in write.events)
        case Create():
            return len(write.event.payload or b"")
        case Put():
            return len(write.message.payload or b"")
        case _:
            return 0


def born(write: Create, stored: int | None = None) -> Run:
    """Return the row that a start makes; `stored` is its `wake_at`, if that was told."""
    event, wake_at = write.event, None if write.owner else write.wake_at
    if wake_at is not None and write.deadline is not None:
        wake_at = min(wake_at, write.deadline)
    wake_at = stored or wake_at
    return Run(
        write.ns, write.id, write.workflow, write.version,
        "running" if write.owner else "pending", "", 1, event.epoch, 1, write.owner, wake_at,
        0, 0, 0, 0, write.input_digest, event.at, event.at, None, write.deadline, write.queue,
        write.priority,
    )  # fmt: skip


def tag_rows(labels: Labels) -> Rows:
    """Return labels as name, kind, word, number: one of the last two."""
    return [
        (name, kind, value, None) if isinstance(value, str) else (name, kind, None, Decimal(value))
        for name, kind, value in rows_of(labels)
    ]


def as_bytes(text: str) -> bytes:
    """Return a text of a user's program, whatever it holds."""
    return text.encode("utf-8", "surrogatepass")


def kept(text: str) -> str:
    """Return a text for people without the zero, which PostgreSQL keeps in no text."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}") if "\0" in text else text


@cache
def _places_of(part: str) -> tuple[str, ...]:
    return tuple(f"{part}_{column}" for column in COLUMNS[part])


@cache
def _statement_of(parts: frozenset[str]) -> Statement:
    """Put together the fragments that these parts need."""
    text = fragments()
    written = [text["round_head"]]
    if "key" in parts:
        written.append(text["round_locked"])
    heads = [_head_of(part, parts) for part in HEADS if part in parts]
    written += [text[f"round_{head}"] for head in heads]
    applied = [text[f"applied_{part}s"] for part in APPLIED if part in parts]
    if applied:
        written.append(text["round_applied"].replace(":applied", "\nUNION ALL\n".join(applied)))
        written += [text[f"round_{part}s"] for part in SAID if part in parts]
    answers = [text[f"told_{head}"] for head in heads]
    return statement("\n".join([*written, "\nUNION ALL\n".join(answers)]))


def _head_of(part: str, parts: frozenset[str]) -> str:
    """Return the fragment's name: starts on named queues have one of their own."""
    return "placed_creates" if part == "create" and "place" in parts else f"{part}s"


@cache
def _quick_statement_of(parts: frozenset[str]) -> Statement:
    """Put together the fragments for a round that is to apply as a whole."""
    text = fragments()
    written = [text["round_head"]]
    for part in QUICK_ORDER:
        if part == "create" and "place" in parts:
            written.append(text["round_placed_creates"])
        elif part in parts:
            written.append(text[f"quick_{part}s"])
    if "renew" in parts:
        written.append(text["round_renews"])
    answers = [text[f"quick_told_{_head_of(part, parts)}"] for part in HEADS if part in parts]
    applied = [text[f"quick_all_{part}s"] for part in ("turn", "create") if part in parts]
    answer = text["quick_answer"].replace(":answers", "\nUNION ALL\n".join(answers))
    written.append(answer.replace(":all_applied", "\nAND ".join(applied) or "true"))
    return statement("\n".join(written))


QUICK_ORDER = ("turn", "create", "event", "tag", "define")
