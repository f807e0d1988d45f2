"""asyncpg: with its statement cache, and without, as behind a pooler that keeps no sessions."""

from __future__ import annotations

from typing import Any

import asyncpg

from benchmarks.drivers.statements import CLAIM, LOAD, NOW, TURN, WRITING, Columns


class Asyncpg:
    def __init__(self, writes: Any, reads: Any) -> None:
        self._writes, self._reads = writes, reads

    @classmethod
    async def prepared(cls, url: str, **options: Any) -> Asyncpg:
        writes = await asyncpg.connect(url, server_settings=WRITING, **options)
        return cls(writes, await asyncpg.connect(url, **options))

    @classmethod
    async def unprepared(cls, url: str) -> Asyncpg:
        return await cls.prepared(url, statement_cache_size=0)

    async def turn(self, columns: Columns) -> int:
        return len(await self._writes.fetch(TURN, *columns))

    async def load(self, run: str) -> int:
        return len([tuple(row) for row in await self._reads.fetch(LOAD, run)])

    async def claim(self, count: int) -> int:
        return len(await self._reads.fetch(CLAIM, NOW, count, "me"))

    async def close(self) -> None:
        await self._writes.close()
        await self._reads.close()
