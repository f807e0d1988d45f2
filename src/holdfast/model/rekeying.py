"""Sealing all of a store anew with the current key: what it found, and what it did."""

from __future__ import annotations

from typing import NamedTuple


class RekeySight(NamedTuple):
    """How far it has come."""

    sweep: int
    """Which time it goes through the store: again until there is nothing to do."""
    table: str
    rows: int
    rewritten: int


class Rekeyed(NamedTuple):
    """What was sealed anew, and which keys are still used."""

    current: str
    """The key that encrypts."""
    rewritten: int
    """Rows that were sealed anew with it; with `dry_run`, those that would be."""
    forgotten: int
    """Kept results of steps that nobody could find with it."""
    used: dict[str, int]
    """Keys, and how many payloads each of them has encrypted."""
    unused: tuple[str, ...]
    """Keys on the ring that nothing needs any more."""
    unread: dict[str, int]
    """Keys, and how many of their payloads cannot be opened here: they are as they were."""
    lost: int
    """Blobs that rows name, and that are not there."""
