"""Blobs on their way: put before they are named, read with their bytes checked, cached for a while.

A blob's name is the hash of its bytes and a mark of its upload, so that no upload is another's:
what was collected is never named again. The same bytes soon after are the same blob.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from holdfast.ports.blobs import BlobStore
from holdfast.stores.envelope import Reference, fits

AGAIN = 600_000_000
"""Microseconds in which the same bytes are not put again. Far below the grace of a collection."""
CACHED = 32 * 1024 * 1024
"""Bytes of blobs that are kept in memory."""
AT_ONCE = 8
"""Blobs that are read or put at the same time."""


class Blobs:
    """A blob store as one process uses it."""

    def __init__(self, store: BlobStore, clock: Callable[[], int]) -> None:
        self.store, self._clock = store, clock
        self.known: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._recent: OrderedDict[bytes, tuple[str, int]] = OrderedDict()

    def uploads(self) -> Uploads:
        """Return what takes the blobs of one batch."""
        return Uploads(self)

    async def fetched(self, names: Sequence[str]) -> Mapping[str, bytes | None]:
        """Return the bytes of blobs; None for each that is not there."""
        found: dict[str, bytes | None] = {}
        wanted: list[str] = []
        for name in dict.fromkeys(names):
            if (known := self.known.get(name)) is None:
                wanted.append(name)
            else:
                self.known.move_to_end(name)
                found[name] = known
        for begin in range(0, len(wanted), AT_ONCE):
            some = wanted[begin : begin + AT_ONCE]
            for name, data in zip(some, await self._got(some), strict=True):
                found[name] = data
                if data is not None and fits(name, data):
                    self.remember(name, data)
        return found

    async def _got(self, names: Sequence[str]) -> Sequence[bytes | None]:
        if len(names) == 1:
            return [await self.store.get(names[0])]
        return await asyncio.gather(*map(self.store.get, names))

    def remember(self, name: str, data: bytes) -> None:
        """Keep the bytes in memory for a while."""
        if name in self.known or len(data) > CACHED:
            return
        self.known[name] = data
        self._size += len(data)
        while self._size > CACHED:
            self._size -= len(self.known.popitem(last=False)[1])

    def name_for(self, data: bytes) -> tuple[str, bool]:
        """Return the name of these bytes, and whether they were put just now."""
        hashed = sha256(data)
        put = self._recent.get(hashed.digest())
        if put is not None and self._clock() - put[1] < AGAIN:
            return put[0], True
        return f"{hashed.hexdigest()}-{os.urandom(8).hex()}", False

    def were_put(self, uploads: Mapping[str, bytes]) -> None:
        """Remember what was put, and when it was begun at the latest."""
        now = self._clock()
        for name, data in uploads.items():
            self.remember(name, data)
            self._recent[bytes.fromhex(name.partition("-")[0])] = (name, now)
        while self._recent and now - next(iter(self._recent.values()))[1] >= AGAIN:
            self._recent.popitem(last=False)


class Uploads:
    """The blobs that a batch of writes names."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.waiting: dict[str, bytes] = {}

    def add(self, data: bytes) -> bytes:
        """Take the bytes; return what the row holds instead."""
        name, is_put = self._blobs.name_for(data)
        if not is_put:
            same = next((n for n in self.waiting if n[:64] == name[:64]), None)
            name = same or name
            self.waiting[name] = data
        return Reference(name, len(data)).encoded()

    async def put(self) -> None:
        """Put them all. Raises `StoreUnavailable`: then nothing may name them."""
        waiting = list(self.waiting.items())
        for begin in range(0, len(waiting), AT_ONCE):
            some = waiting[begin : begin + AT_ONCE]
            if len(some) == 1:
                await self._blobs.store.put(*some[0])
            else:
                await asyncio.gather(*(self._blobs.store.put(*each) for each in some))
        self._blobs.were_put(self.waiting)
