"""How large a value may be, and who has to know that some are large.

A value is encoded before anybody knows for which store, so the limit is the process's: it is higher
while a store with a blob store is open. Such a store looks for large payloads in what it writes
only once one was seen in this process: encoded, imported, or read from a blob.
"""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet

INLINE = 256 * 1024
"""Bytes of a payload that stay in their row; what is longer goes to the blob store."""
WITHOUT_BLOBS = 2 * 1024 * 1024
WITH_BLOBS = 64 * 1024 * 1024


class Keeper(Protocol):
    """A store that keeps large payloads as blobs."""

    def expect_large(self) -> None:
        """Look for large payloads from now on."""
        ...


_keepers: WeakSet[Keeper] = WeakSet()
_were_large = False


def limit() -> int:
    """Return how many bytes a value may have now."""
    return WITH_BLOBS if _keepers else WITHOUT_BLOBS


def allow_large(store: Keeper) -> None:
    """Note that a store is open that keeps large payloads as blobs."""
    _keepers.add(store)
    if _were_large:
        store.expect_large()


def forbid_large(store: Keeper) -> None:
    """Note that it is closed."""
    _keepers.discard(store)


def note_large() -> None:
    """Note that there is a payload in this process that is longer than `INLINE`."""
    global _were_large
    if not _were_large:
        _were_large = True  # first: a store that opens meanwhile sees it
        for store in _keepers.copy():
            store.expect_large()
