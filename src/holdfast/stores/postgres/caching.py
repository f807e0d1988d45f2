"""Results that are kept for later calls of steps. Bind, run, map."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from holdfast.model.cache import CachedResult, CachedStep, CacheFilter, CacheKey
from holdfast.model.writes import Forget, Outcome
from holdfast.stores.postgres.connection import Ask, Line
from holdfast.stores.postgres.failures import reading
from holdfast.stores.postgres.statements import queries

SQL = queries()


async def remember(ask: Ask, results: Iterable[CachedResult]) -> None:
    """Keep results in the place of those there are; of two under one key, the later one."""
    last = {(kept.ns, kept.at): kept for kept in results}
    if last:
        columns = zip(*(last[key] for key in sorted(last)), strict=True)
        names = (
            "spaces", "steps", "versions", "keys", "results", "runs", "made_ats", "expires_ats",
        )  # fmt: skip
        await ask(SQL.remember_result, **dict(zip(names, map(list, columns), strict=True)))


async def forget(ask: Ask, write: Forget, now: int | None) -> Outcome:
    """Delete results of a step, or those that are expired."""
    if write.step:
        [[gone]] = await ask(SQL.forget_results, **write._asdict())
    else:
        [[gone]] = await ask(SQL.forget_expired, ns=write.ns, now=now, limit=write.limit)
    return Outcome(True, total=gone)


async def recall(
    line: Line, ns: str, wanted: Sequence[CacheKey], now: int | None
) -> dict[CacheKey, CachedResult]:
    """Return what may be used now of that."""
    rows = await line.fetch(
        SQL.recall_results, ns=ns, now=now, steps=[each.step for each in wanted],
        versions=[each.version for each in wanted], keys=[each.key for each in wanted],
    )  # fmt: skip
    return {kept.at: kept for kept in map(CachedResult._make, rows)}


async def cached(line: Line, wanted: CacheFilter, now: int | None) -> list[CachedStep]:
    """Return how much is kept, by step and version."""
    rows = await line.fetch(SQL.cached_steps, **wanted._asdict(), now=now)
    return list(map(CachedStep._make, rows))


class Recalled(ABC):
    """The part of the store that shows what is kept for later calls."""

    _reads: Line
    _searches: Line

    @abstractmethod
    def test_time(self) -> int | None:
        """Return the time of a test, or None for the database's own."""

    async def recall(self, ns: str, wanted: Sequence[CacheKey]) -> Mapping[CacheKey, CachedResult]:
        """Return what is kept under these keys and not expired."""
        with reading():
            return await recall(self._reads, ns, wanted, self.test_time())

    async def cached(self, wanted: CacheFilter) -> list[CachedStep]:
        """Return how much is kept for later calls of steps."""
        with reading():
            return await cached(self._searches, wanted, self.test_time())
