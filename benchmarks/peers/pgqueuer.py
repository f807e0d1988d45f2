"""PgQueuer, a job queue on PostgreSQL, woken by LISTEN and NOTIFY. See queues.py."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, PgQueuer, Queries

from benchmarks.driver import Task, main, say
from benchmarks.peers.queues import AT_ONCE, Client, Use, pick_up, tell
from benchmarks.postgres import SETTINGS

LEFT = "SELECT count(*) FROM pgqueuer WHERE status IN ('queued', 'picked')"


async def install(url: str) -> None:
    connection = await asyncpg.connect(url)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


async def connect(url: str, use: Use) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))

    async def put(i: int) -> None:
        await queries.enqueue("job", str(i).encode())

    async def count_left() -> int:
        return int(await connection.fetchval(LEFT))

    async def settings() -> dict[str, str]:
        return {name: await connection.fetchval(f"SHOW {name}") for name in SETTINGS}

    await use(Client(put, count_left, settings))
    await connection.close()


async def serve(url: str, port: str) -> None:
    pool = await asyncpg.create_pool(url, min_size=4, max_size=10)
    queue = PgQueuer(AsyncpgPoolDriver(pool))

    @queue.entrypoint("job")
    async def job(asked: Any) -> None:
        tell(int(port), int(asked.payload))

    say("ready")
    await queue.qm.run(dequeue_timeout=timedelta(seconds=30), batch_size=AT_ONCE)


def w3(task: Task) -> None:
    asyncio.run(pick_up("pgqueuer", task, install, connect))


def w13(task: Task) -> None:
    asyncio.run(pick_up("pgqueuer", task, install, connect, "w13"))


def worker(url: str, port: str) -> None:
    asyncio.run(serve(url, port))


if __name__ == "__main__":
    main({"w3": w3, "w13": w13}, {"worker": worker})
