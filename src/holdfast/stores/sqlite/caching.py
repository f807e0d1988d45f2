"""Results that are kept for later calls of steps. Bind, run, map."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from sqlite3 import Connection
from typing import TypeVar

from holdfast.model.cache import CachedResult, CachedStep, CacheFilter, CacheKey
from holdfast.model.writes import Forget, Outcome
from holdfast.stores.sqlite.statements import queries

SQL = queries()
T = TypeVar("T")


def remember(connection: Connection, kept: CachedResult) -> None:
    """Keep a result in the place of the one there is."""
    connection.execute(SQL.remember_result, kept._asdict())


def forget(connection: Connection, write: Forget, now: int) -> Outcome:
    """Delete results of a step, or those that are expired."""
    if write.step:
        gone = connection.execute(SQL.forget_results, write._asdict()).rowcount
    else:
        values = {"ns": write.ns, "now": now, "limit": write.limit}
        gone = connection.execute(SQL.forget_expired, values).rowcount
    return Outcome(True, total=gone)


def recall(
    connection: Connection, ns: str, wanted: Sequence[CacheKey], now: int
) -> dict[CacheKey, CachedResult]:
    """Return what may be used now of that."""
    values = {"ns": ns, "wanted": json.dumps(wanted), "now": now}
    rows = connection.execute(SQL.recall_results, values)
    return {kept.at: kept for kept in map(CachedResult._make, rows)}


def cached(connection: Connection, wanted: CacheFilter, now: int) -> list[CachedStep]:
    """Return how much is kept, by step and version."""
    rows = connection.execute(SQL.cached_steps, {**wanted._asdict(), "now": now})
    return list(map(CachedStep._make, rows))


class Recalled(ABC):
    """The part of the store that shows what is kept for later calls."""

    @abstractmethod
    def now(self) -> int:
        """Return the store's clock."""

    @abstractmethod
    async def _look(self, work: Callable[[Connection], T]) -> T:
        """Read what an index finds."""

    @abstractmethod
    async def _search(self, work: Callable[[Connection], T]) -> T:
        """Read what may take a while."""

    async def recall(self, ns: str, wanted: Sequence[CacheKey]) -> Mapping[CacheKey, CachedResult]:
        """Return what is kept under these keys and not expired."""
        return await self._look(lambda reads: recall(reads, ns, wanted, self.now()))

    async def cached(self, wanted: CacheFilter) -> list[CachedStep]:
        """Return how much is kept for later calls of steps."""
        return await self._search(lambda reads: cached(reads, wanted, self.now()))
