"""Events as rows of their table."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection

from holdfast.model.events import Event, continuations
from holdfast.stores.sqlite.statements import queries

SQL = queries()


def event_row(ns: str, run: str, event: Event) -> tuple[object, ...]:
    """Return an event in the order of the table's columns.

    Bytes as bytearrays: for those alone the driver does not look for an adapter, which takes it
    longer than to store them.
    """
    kind, at, key, payload, asked_seq, digest, took, seq, epoch, generation, codec, _ = event
    return (
        ns, run, seq, generation, epoch, kind, key, asked_seq, at, took,
        None if digest is None else bytearray(digest), codec,
        None if payload is None else bytearray(payload),
    )  # fmt: skip


def whole_row(ns: str, run: str, event: Event) -> tuple[object, ...]:
    """Return an event with what it was superseded by."""
    return (*event_row(ns, run, event), event.superseded_by)


def add_bases(connection: Connection, ns: str, run: str, events: Sequence[Event]) -> None:
    """Note where the replay of a run may begin, of events that were just added."""
    connection.executemany(SQL.add_base, [(ns, run, seq) for seq in continuations(events)])
