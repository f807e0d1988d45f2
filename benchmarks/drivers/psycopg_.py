"""psycopg 3 with libpq in C: prepared or not, in pipeline mode, and blocking."""

from __future__ import annotations

from typing import Any

import psycopg

from benchmarks.drivers.statements import CLAIM, LOAD, NOW, TURN, WRITING, Columns, numbered

TURN_, LOAD_, CLAIM_ = map(numbered, (TURN, LOAD, CLAIM))
OPTIONS = " ".join(f"-c {name}={value}" for name, value in WRITING.items())


class Psycopg:
    """Asynchronous connections in autocommit: a statement is a transaction."""

    def __init__(self, writes: Any, reads: Any) -> None:
        self._connections = (writes, reads)
        self._writes, self._reads = (
            connection.cursor(binary=True) for connection in self._connections
        )

    @classmethod
    async def prepared(cls, url: str, threshold: int | None = 0) -> Psycopg:
        writes = await cls._connect(url, prepare_threshold=threshold, options=OPTIONS)
        return cls(writes, await cls._connect(url, prepare_threshold=threshold))

    @classmethod
    async def unprepared(cls, url: str) -> Psycopg:
        return await cls.prepared(url, None)

    async def turn(self, columns: Columns) -> int:
        return len(await self._fetch(self._writes, TURN_, columns))

    async def load(self, run: str) -> int:
        return len(await self._fetch(self._reads, LOAD_, (run,)))

    async def claim(self, count: int) -> int:
        return len(await self._fetch(self._reads, CLAIM_, (NOW, count, "me")))

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()

    @classmethod
    async def _connect(cls, url: str, **options: Any) -> Any:
        return await psycopg.AsyncConnection.connect(url, autocommit=True, **options)

    async def _fetch(self, cursor: Any, sql: str, values: Any) -> list[Any]:
        await cursor.execute(sql, values)
        rows: list[Any] = await cursor.fetchall()
        return rows


class PsycopgPipeline(Psycopg):
    """The same in pipeline mode, whose use would be several statements in one round trip."""

    async def _fetch(self, cursor: Any, sql: str, values: Any) -> list[Any]:
        async with cursor.connection.pipeline():
            await cursor.execute(sql, values)
        rows: list[Any] = await cursor.fetchall()
        return rows


class PsycopgBlocking(Psycopg):
    """Connections that block their thread: what is left without an event loop around them."""

    async def close(self) -> None:
        for connection in self._connections:
            connection.close()

    @classmethod
    async def _connect(cls, url: str, **options: Any) -> Any:
        return psycopg.connect(url, autocommit=True, **options)

    async def _fetch(self, cursor: Any, sql: str, values: Any) -> list[Any]:
        cursor.execute(sql, values)
        rows: list[Any] = cursor.fetchall()
        return rows
