"""Results for later calls: sealed, under keys that tell nothing of the arguments they are made of.

The same key is the same again as long as the current key of the ring is: after a rotation results
are made anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from holdfast.errors import UNREADABLE
from holdfast.model.cache import CachedResult, CachedStep, CacheFilter, CacheKey
from holdfast.ports.keys import Keys
from holdfast.ports.store import Store
from holdfast.stores.sealed.opening import Opener, references
from holdfast.stores.sealed.sealing import hidden


class Recalled(ABC):
    """The part of the store that shows what is kept for later calls."""

    inner: Store
    keys: Keys | None

    @abstractmethod
    async def _opener(self, names: Iterable[str]) -> Opener:
        """Return what opens payloads, with these blobs at hand."""

    async def recall(self, ns: str, wanted: Sequence[CacheKey]) -> Mapping[CacheKey, CachedResult]:
        """Return what is kept under these keys, opened; what cannot be read is as good as none."""
        stored = {each._replace(key=hidden(each.key, self.keys, ns)): each for each in wanted}
        found = await self.inner.recall(ns, tuple(stored))
        opener = await self._opener(references(results=found.values()))
        opened: dict[CacheKey, CachedResult] = {}
        for at, kept in found.items():
            try:
                opened[stored[at]] = opener.result(kept)._replace(key=stored[at].key)
            except UNREADABLE:
                continue
        return opened

    async def cached(self, wanted: CacheFilter) -> list[CachedStep]:
        """Return how much is kept for later calls of steps."""
        key = hidden(wanted.key, self.keys, wanted.ns)
        return await self.inner.cached(wanted._replace(key=key))
