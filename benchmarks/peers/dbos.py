"""DBOS Transact: on `sqlite` as shipped (rollback journal, polling each second), on `sqlite-wal`
(the file switched to WAL beforehand, queues polled every 10 ms), and on `postgres` (polling so
too).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from dbos import DBOS, DBOSClient, SetWorkflowID, SQLAlchemyDatasource
from dbos._dbos import _get_dbos_instance
from sqlalchemy import text

from benchmarks import postgres
from benchmarks.calibrate import rss_bytes, speed
from benchmarks.driver import (
    Task,
    child,
    disk_bytes,
    hear,
    killed_and_resumed,
    main,
    percentile,
    say,
    scratch,
    sqlite_settings,
)
from benchmarks.pace import as_exact, counted, measure, measure_sync
from benchmarks.rows import Row, emit
from benchmarks.work import STEPS, small_result

MODULE = "benchmarks.peers.dbos"
# Of queues and of clients that wait.
POLL_SECONDS = {"sqlite": 1.0, "sqlite-wal": 0.01, postgres.STORE: 0.01}
on_last_step: Callable[[], None]
replay_began = 0.0
waiting = 0


@DBOS.step()
def step(i: int) -> dict[str, object]:
    return small_result(i)


@DBOS.step()
async def async_step(i: int) -> dict[str, object]:
    return small_result(i)


@DBOS.step()
def last_step() -> None:
    on_last_step()


@DBOS.workflow()
def chain(n: int) -> int:
    return sum(bool(step(i)) for i in range(n))


@DBOS.workflow()
async def async_chain(n: int) -> int:
    done = 0
    for i in range(n):
        done += bool(await async_step(i))
    return done


@DBOS.workflow()
async def fan(n: int) -> int:
    results = await asyncio.gather(*(async_step(i) for i in range(n)))
    return sum(int(str(result["i"])) for result in results)


@DBOS.workflow()
def single(i: int) -> dict[str, object]:
    return step(i)


@DBOS.workflow()
def long(n: int) -> None:
    global replay_began
    replay_began = time.perf_counter()
    for i in range(n):
        step(i)
    last_step()


@DBOS.workflow()
async def waiter() -> Any:
    global waiting
    waiting += 1
    return await DBOS.recv_async("go", timeout_seconds=3600)


@contextlib.contextmanager
def new_database(store: str) -> Iterator[str]:
    if store == postgres.STORE:
        with postgres.database() as url:
            yield url
        return
    with scratch() as directory:
        path = directory / "dbos.db"
        if store == "sqlite-wal":
            with contextlib.closing(sqlite3.connect(path)) as database:
                database.execute("PRAGMA journal_mode=WAL")
        yield f"sqlite:///{path}"


def launch(url: str) -> dict[str, str]:
    """Start DBOS in this process and return the settings it works with."""
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "log_level": "ERROR",
            "application_version": "1",
            "executor_id": "local",
        }
    )
    DBOS.launch()
    with _get_dbos_instance()._sys_db.engine.connect() as connection:
        if not url.startswith("sqlite"):
            shown = {name: f"SHOW {name}" for name in postgres.SETTINGS}
            return {name: connection.exec_driver_sql(sql).scalar() for name, sql in shown.items()}
        return sqlite_settings(lambda sql: connection.exec_driver_sql(sql).scalar())


def run_on_open_loop(work: Any) -> Any:
    """Run a coroutine on a loop that stays open.

    DBOS makes its executor the loop's default one, and closing the loop would shut that down.
    """
    return asyncio.new_event_loop().run_until_complete(work)


def w1(task: Task) -> None:
    for variant in ("sync", "async"):
        with new_database(task.store) as url:
            settings = launch(url)
            if variant == "sync":
                figures = measure_sync(lambda: chain(STEPS), task.size)
            else:
                figures = run_on_open_loop(measure(lambda: async_chain(STEPS), task.size))
            DBOS.destroy()
        emit(Row("dbos", task.store, "w1", variant, figures, settings, speed()))


def counted_chain(task: Task) -> None:
    with new_database(task.store) as url:
        launch(url)
        run_on_open_loop(counted(lambda: async_chain(STEPS), task, lanes=1))
        DBOS.destroy()


def w11(task: Task) -> None:
    """Chains of transactions of a datasource. On SQLite in a file of its own: in the one of DBOS
    itself, 50 threads wait for each other until they give up."""
    with new_database(task.store) as url, new_database(task.store) as other:
        mine = url if task.store == postgres.STORE else other
        books = SQLAlchemyDatasource.create(mine, engine_kwargs={"pool_size": 50})

        level = "READ COMMITTED" if task.store == postgres.STORE else "SERIALIZABLE"

        @books.transaction(isolation_level=level)
        def add_row(i: int) -> dict[str, object]:
            row = {"i": i, "note": "x" * 40}
            books.sql_session().execute(text("INSERT INTO bench_rows VALUES (:i, :note)"), row)
            return small_result(i)

        @DBOS.workflow()
        def exact_chain(n: int) -> int:
            return sum(bool(add_row(i)) for i in range(n))

        with books.engine.begin() as connection:
            connection.execute(text("CREATE TABLE bench_rows (i INTEGER, note TEXT)"))
        settings = launch(url)
        figures = as_exact(measure_sync(lambda: exact_chain(STEPS), task.size))
        DBOS.destroy()
    emit(Row("dbos", task.store, "w11", "datasource", figures, settings, speed()))


def w2(task: Task) -> None:
    n = task.size.fan

    async def timed() -> float:
        began = time.perf_counter()
        if await fan(n) != n * (n - 1) // 2:
            raise RuntimeError("wrong sum")
        return time.perf_counter() - began

    with new_database(task.store) as url:
        settings = launch(url)
        seconds = run_on_open_loop(timed())
        DBOS.destroy()
    emit(Row("dbos", task.store, "w2", "gather", {"fan_s": seconds}, settings, speed()))


def w3(task: Task) -> None:
    poll = POLL_SECONDS[task.store]
    n = task.size.pickups if poll < 1 else 6
    with new_database(task.store) as url, child(MODULE, "worker", url, poll) as worker:
        hear(worker, "ready")
        time.sleep(2.5)  # the queue is noticed by a poll, too
        client = DBOSClient(system_database_url=url)
        figures = pick_up(client, n, poll) | burst(client, task.size.burst, poll)
        client.destroy()
    variant = f"polls every {poll * 1e3:.0f} ms"
    emit(Row("dbos", task.store, "w3", variant, figures, {}, speed()))


def pick_up(client: DBOSClient, n: int, poll: float) -> dict[str, float]:
    times = []
    for i in range(n):
        time.sleep(random.random() * min(poll, 0.5))  # come at any moment between two polls
        began = time.perf_counter()
        handle = enqueue(client, i)
        handle.get_result(polling_interval_sec=poll)
        times.append((time.perf_counter() - began) * 1e3)
    return {"pickup_ms": percentile(times, 0.5), "pickup_p99_ms": percentile(times, 0.99)}


def burst(client: DBOSClient, n: int, poll: float) -> dict[str, float]:
    began = time.perf_counter()
    for handle in [enqueue(client, i) for i in range(n)]:
        handle.get_result(polling_interval_sec=poll)
    return {"runs_s": n / (time.perf_counter() - began)}


def enqueue(client: DBOSClient, i: int) -> Any:
    return client.enqueue({"queue_name": "q", "workflow_name": "single"}, i)


def worker(url: str, poll: str) -> None:
    launch(url)
    DBOS.register_queue("q", polling_interval_sec=float(poll))
    say("ready")
    signal.sigwait([signal.SIGTERM])


def w4(task: Task) -> None:
    with new_database(task.store) as url:
        told = killed_and_resumed(MODULE, (url, task.size.history), (url,))
    resumed, replayed = map(float, told.split())
    figures = {"resume_ms": resumed, "replay_ms": replayed}
    emit(Row("dbos", task.store, "w4", "recovery at launch", figures, {}, speed()))


def crash(url: str, n: str) -> None:
    global on_last_step

    def reach() -> None:
        say("reached")
        threading.Event().wait()

    on_last_step = reach
    launch(url)
    with SetWorkflowID("long"):
        long(int(n))


def resume(url: str) -> None:
    global on_last_step
    began = time.perf_counter()

    def reach() -> None:
        now = time.perf_counter()
        say("resumed", f"{(now - began) * 1e3} {(now - replay_began) * 1e3}")
        os._exit(0)

    on_last_step = reach
    launch(url)
    threading.Event().wait()


def w5(task: Task) -> None:
    n = task.size.waiting

    async def memory_each() -> float:
        for _ in range(20):
            await DBOS.start_workflow_async(waiter)
        await all_waiting(20)
        before = rss_bytes()
        for _ in range(n):
            await DBOS.start_workflow_async(waiter)
        await all_waiting(20 + n)
        return (rss_bytes() - before) / 1024 / n

    with new_database(task.store) as url:
        settings = launch(url)
        empty = disk_bytes(url)
        figures = {"live_kib": run_on_open_loop(memory_each())}
        figures["disk_kib"] = (disk_bytes(url) - empty) / 1024 / n
        emit(Row("dbos", task.store, "w5", "recv_async", figures, settings, speed()))
    os._exit(0)  # 10,000 waiters would hold the process for their hour


async def all_waiting(n: int) -> None:
    while waiting < n:  # noqa: ASYNC110 - DBOS runs them on a loop of its own
        await asyncio.sleep(0.05)
    await asyncio.sleep(2)  # each has yet to write its first poll


if __name__ == "__main__":
    main(
        {"w1": w1, "w2": w2, "w3": w3, "w4": w4, "w5": w5, "w11": w11, "chain": counted_chain},
        {"worker": worker, "crash": crash, "resume": resume},
    )
