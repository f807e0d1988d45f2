"""Procrastinate, a job queue on PostgreSQL, woken by LISTEN and NOTIFY. See queues.py."""

from __future__ import annotations

import asyncio
from typing import Any

import procrastinate

from benchmarks.driver import Task, main, say
from benchmarks.peers.queues import AT_ONCE, Client, Use, pick_up, tell
from benchmarks.postgres import SETTINGS
from benchmarks.work import small_result

LEFT = "SELECT count(*) AS n FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"


def app_at(url: str, port: int = 0) -> tuple[procrastinate.App, Any]:
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=20)
    app = procrastinate.App(connector=connector)

    @app.task(name="job", queue="q")
    async def job(i: int) -> dict[str, object]:
        tell(port, i)
        return small_result(i)

    return app, job


async def install(url: str) -> None:
    app, _ = app_at(url)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def connect(url: str, use: Use) -> None:
    app, job = app_at(url)

    async def one(sql: str) -> Any:
        return next(iter((await app.connector.execute_query_one_async(sql)).values()))

    async def count_left() -> int:
        return int(await one(LEFT))

    async def settings() -> dict[str, str]:
        return {name: str(await one(f"SHOW {name}")) for name in SETTINGS}

    async with app.open_async():
        await use(Client(lambda i: job.defer_async(i=i), count_left, settings))


async def serve(url: str, port: str) -> None:
    app, _ = app_at(url, int(port))
    async with app.open_async():
        say("ready")
        await app.run_worker_async(queues=["q"], concurrency=AT_ONCE)


def w3(task: Task) -> None:
    asyncio.run(pick_up("procrastinate", task, install, connect))


def w13(task: Task) -> None:
    asyncio.run(pick_up("procrastinate", task, install, connect, "w13"))


def worker(url: str, port: str) -> None:
    asyncio.run(serve(url, port))


if __name__ == "__main__":
    main({"w3": w3, "w13": w13}, {"worker": worker})
