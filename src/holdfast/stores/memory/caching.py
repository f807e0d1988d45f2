"""Results that are kept for later calls of steps."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from holdfast.model.cache import CachedResult, CachedStep, CacheFilter, CacheKey
from holdfast.model.writes import Forget, Outcome
from holdfast.stores.memory.tables import Tables


def forget(tables: Tables, write: Forget, now: int) -> Outcome:
    """Delete results of a step, or those that are expired."""
    wanted = CacheFilter(write.ns, write.step, write.key)
    found = [kept for kept in tables.step_cache.values() if wanted.fits(kept)]
    if not write.step:
        found = [kept for kept in found if not kept.is_of_use(now)]
    found.sort(key=lambda kept: (0 if write.step else kept.expires_at or 0, kept.at))
    for kept in found[: write.limit]:
        tables.drop_cached(kept)
    return Outcome(True, total=len(found[: write.limit]))


def recall(
    tables: Tables, ns: str, wanted: Sequence[CacheKey], now: int
) -> dict[CacheKey, CachedResult]:
    """Return what may be used now of that."""
    rows = ((key, tables.step_cache.get((ns, key))) for key in wanted)
    return {key: kept for key, kept in rows if kept is not None and kept.is_of_use(now)}


def cached(tables: Tables, wanted: CacheFilter, now: int) -> list[CachedStep]:
    """Return how much is kept, by step and version."""
    found: dict[tuple[str, str], list[CachedResult]] = {}
    for kept in tables.step_cache.values():
        if wanted.fits(kept):
            found.setdefault((kept.step, kept.version), []).append(kept)
    return [_summed(found[key], now) for key in sorted(found)]


def _summed(kept: list[CachedResult], now: int) -> CachedStep:
    times = [each.made_at for each in kept]
    return CachedStep(
        kept[0].step, kept[0].version, len(kept), sum(not each.is_of_use(now) for each in kept),
        sum(len(each.result) for each in kept), min(times), max(times),
    )  # fmt: skip


class Recalled(ABC):
    """The part of the store that shows what is kept for later calls."""

    _tables: Tables

    @abstractmethod
    def now(self) -> int:
        """Return the store's clock."""

    async def recall(self, ns: str, wanted: Sequence[CacheKey]) -> Mapping[CacheKey, CachedResult]:
        """Return what is kept under these keys and not expired."""
        await asyncio.sleep(0)
        return recall(self._tables, ns, wanted, self.now())

    async def cached(self, wanted: CacheFilter) -> list[CachedStep]:
        """Return how much is kept for later calls of steps."""
        await asyncio.sleep(0)
        return cached(self._tables, wanted, self.now())
