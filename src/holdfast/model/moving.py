"""A move of everything from one store to another: what is copied, and how far it has come.

`TABLES` is the one list of what a store keeps for good. Rows go from store to store as plain
values, as SQLite keeps them: texts, whole numbers, floats and bytes. What belongs to processes
(`workers`) stays behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from holdfast.model.workers import WorkerRow

Value = str | int | float | bytes | None
Row = tuple[Value, ...]
Role = Literal["source", "target"]
State = Literal["moving", "moved", "filling", "filled"]
"""A source is moving, then moved; a target is filling, then filled."""


class Table(NamedTuple):
    """A table whose rows are copied, in the order of its key, which is its first columns."""

    name: str
    key: tuple[str, ...]
    rest: tuple[str, ...]
    as_bytes: tuple[str, ...] = ()
    """Texts that PostgreSQL keeps as bytes: they may hold what a text there must not."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, those of the key first."""
        return self.key + self.rest


def _table(name: str, key: str, rest: str = "", as_bytes: str = "") -> Table:
    return Table(name, tuple(key.split()), tuple(rest.split()), tuple(as_bytes.split()))


TABLES: tuple[Table, ...] = (
    _table(
        "runs", "ns id",
        "workflow version status reason generation epoch seq owner wake_at inbox_seq inbox_read "
        "cancel strikes input_digest created_at updated_at closed_at deadline queue priority",
    ),
    _table(
        "events", "ns run seq",
        "generation epoch kind key asked_seq at took digest codec payload superseded_by",
    ),
    _table("inbox", "ns run id", "n kind name payload at state reply"),
    _table("progress", "ns run key", "generation attempt at details epoch"),
    _table(
        "logs", "ns run at",
        "level logger message key attempt generation epoch fields", as_bytes="logger message",
    ),
    _table("run_tags", "ns run name value", "kind"),
    _table("definitions", "ns workflow version shape", "first_at last_at"),
    _table("bases", "ns run seq"),
    _table("children", "ns run", "parent key generation policy"),
    _table(
        "waits", "ns run key",
        "kind generation attempt secret state asked_at expires_at recipients asked settled_at "
        "settled_by answer why",
    ),
    _table("forks", "ns run", "origin at length"),
    _table(
        "queues", "ns name",
        "concurrency key_concurrency worker_concurrency rate_count rate_per paused changed_at "
        "admitted last_key last_job_key",
    ),
    _table("tickets", "ns run", "queue key priority due_at expires_at state admitted_at"),
    _table("admissions", "ns queue n", "at"),
    _table(
        "jobs", "ns run key",
        "generation attempt secret step queue priority args terms asked_at wake_at start_by owner "
        "epoch strikes begun_at queue_key",
    ),
    _table(
        "schedules", "ns id",
        "revision workflow paused note next_at buffered settled_to spec input state created_at "
        "updated_at",
    ),
    _table("run_secrets", "ns run name", "key sealed"),
    _table("step_cache", "ns step version key", "result run made_at expires_at"),
)  # fmt: skip
"""Everything that is moved. A table of a schema that is neither here nor in `LEFT` fails a test."""

SEALED: tuple[Table, ...] = (
    _table("runs", "ns id", "reason input_digest"),
    _table("events", "ns run seq", "payload"),
    _table("inbox", "ns run id", "payload reply"),
    _table("progress", "ns run key", "details"),
    _table("logs", "ns run at", "fields"),
    _table("waits", "ns run key", "asked answer"),
    _table("jobs", "ns run key", "args"),
    _table("schedules", "ns id", "input state"),
    _table("run_secrets", "ns run name", "key sealed"),
    _table("step_cache", "ns step version key", "result"),
)  # fmt: skip
"""Where something may stand that a key has encrypted, and which key."""
REKEYED = "rekeyed"
"""Where a store keeps when rows were last sealed anew: what they named is not collected at once."""
TEXTS = frozenset({"reason", "state", "key"})
"""Which of those columns hold texts; the others hold bytes."""

LEFT = frozenset({"workers", "meta", "moves"})
"""Of processes, and of the store itself."""


class Sum(NamedTuple):
    """How many rows, and a digest of them that does not depend on their order."""

    rows: int = 0
    digest: int = 0

    def plus(self, rows: Iterable[Row]) -> Sum:
        """Return the sum with these rows."""
        count, digest = self
        for row in rows:
            count += 1
            # -0.0 and 0.0 are one number, and not all stores keep the sign.
            kept = tuple(v + 0.0 if isinstance(v, float) else v for v in row)
            digest += int.from_bytes(blake2b(repr(kept).encode(), digest_size=16).digest())
        return Sum(count, digest % 2**128)


class Progress(NamedTuple):
    """How far a copy has come: what each table had when it was whole, and where the next one is."""

    done: tuple[tuple[str, Sum], ...] = ()
    table: str = ""
    after: Row = ()
    """The key of the last row that was copied."""
    so_far: Sum = Sum()

    def to_text(self) -> str:
        """Return it as it is kept."""
        after = [[v.hex()] if isinstance(v, bytes) else v for v in self.after]
        return json.dumps([self.done, self.table, after, self.so_far])

    @staticmethod
    def from_text(text: str) -> Progress:
        """Return what was kept."""
        if not text:
            return Progress()
        kept: tuple[Any, Any, list[Any], Any] = json.loads(text)
        done, table, after, so_far = kept
        key = tuple(map(_value, after))
        sums = tuple((name, Sum(*summed)) for name, summed in done)
        return Progress(sums, table, key, Sum(*so_far))


def _value(kept: Any) -> Value:
    # Bytes are kept in a list of their own: no other value is one.
    value: Value = bytes.fromhex(str(kept[0])) if type(kept) is list else kept  # pyright: ignore[reportUnknownArgumentType]
    return value


class Move(NamedTuple):
    """A move as a store knows of it: its own part in it, and where the other one is."""

    id: str
    role: Role
    place: str
    state: State
    at: int
    step: int = 0
    """How many changes the mover has made here: a second mover is refused by it."""
    progress: str = ""


class Standing(NamedTuple):
    """What a mover must know of a store before it begins, or goes on."""

    now: int
    move: Move | None = None
    """The move that has closed it; else the one by which it was filled."""
    is_empty: bool = True
    live: tuple[WorkerRow, ...] = ()
    dead: tuple[tuple[str, bool], ...] = ()
    """Workers that are gone and have left something, each with whether that is known for sure."""


class Release(NamedTuple):
    """Let go of the runs of a worker that is gone."""

    worker: str
    known_dead: bool


class Close(NamedTuple):
    """Close a store for everybody but the mover, if nothing is held there (a source), or nothing
    is there (a target)."""

    move: Move


class Fill(NamedTuple):
    """Add rows, and say how far it has come, if that is where it was."""

    move: Move
    table: Table
    rows: Sequence[Row]
    progress: Progress


class Decide(NamedTuple):
    """The source is moved, once for all, unless somebody took the move back."""

    move: Move


class Open(NamedTuple):
    """Let everybody use the target, once its clock is not behind `now`."""

    move: Move
    now: int


class TakeBack(NamedTuple):
    """Open the source again, unless it is moved."""

    move: Move


class Empty(NamedTuple):
    """Delete what an unfinished move has copied, and open the store again."""

    move: Move


class Reseal(NamedTuple):
    """Give rows other values, and delete those that have none, each if it still is what was read.

    Not part of a move: everybody may use the store meanwhile.
    """

    table: Table
    rows: Sequence[tuple[Row, Row | None]]
    """Each row as it was read, with the columns of `table`, and as it is to be."""


Change = Release | Close | Fill | Decide | Open | TakeBack | Empty | Reseal


def named(text: str, **values: Any) -> str:
    """Return a template with its names filled in; only names of our own tables go there."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text
