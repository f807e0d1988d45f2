"""Holdfast itself, on `memory`, `sqlite` and `postgres`, driven by its public API.

Only the commit counter and the settings are read from inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from functools import partial
from statistics import median
from typing import TypeVar

import holdfast as hf
from benchmarks import exact, family, farm, graphs, many, postgres, sealed, timers
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
from benchmarks.flows import Here, app, chain, fan, long, single, waiter
from benchmarks.pace import (
    counted,
    measure,
    one_after_another,
    one_after_another_sync,
    step_figures,
)
from benchmarks.raw import Disk, chain_of
from benchmarks.raw_postgres import Bare
from benchmarks.rows import Row, emit
from benchmarks.work import AT_ONCE, BIG, STEPS
from holdfast.stores.postgres.connection import Line
from holdfast.stores.postgres.statements import Statement
from holdfast.stores.sqlite.writer import Writer
from holdfast.testing import replay

T = TypeVar("T")

# Imports are excluded from W2 and W4, for us as for the peers, who import all at the top.
# Holdfast loads these late, so that a command which needs none of them starts faster.
LATE = (
    "importlib.metadata", "pydantic.type_adapter", "holdfast.hosts.worker.worker",
    "holdfast.compose", "holdfast.client", "holdfast.engines.local", "holdfast.stores.memory",
    "holdfast.stores.postgres", "holdfast.machine.values.core",
    "holdfast.machine.values.describe", "holdfast.fronts.function.shape",
)  # fmt: skip
for late in LATE:
    importlib.import_module(late)

MODULE = "benchmarks.ours"
TURN = 0.1  # seconds of ours, then of the raw limit
WARM_UP = 1_000  # waiting runs before memory is first read: more than start at a time
BATCH = 500  # waiting runs started at a time
FILLED = 10_000  # parked runs after which caches of a bounded size are full


@contextlib.asynccontextmanager
async def opened(store: str) -> AsyncIterator[hf.Client]:
    """Open a new store with an embedded worker."""
    with new_store(store) as url:
        async with app.open(url) as client:
            yield client


@contextlib.contextmanager
def new_store(store: str) -> Iterator[str]:
    """Lend the address of an empty store: a file in a scratch directory, or a database."""
    if store == "memory":
        yield "memory://"
    elif store == postgres.STORE:
        with postgres.database() as url:
            yield url
    else:
        with scratch() as directory:
            yield f"sqlite:///{directory / 'bench.db'}"


async def settings_in_use() -> dict[str, str]:
    """Read the settings back from every connection this process holds.

    They are found among the live objects, so the engine need not be trusted to tell.
    """
    told = [sqlite_settings(partial(pragma, connection)) for connection in live(sqlite3.Connection)]
    # A line whose connection belongs to another loop has a thread of its own.
    loop = asyncio.get_running_loop()
    lines = [line for line in live(Line) if line._connection and line._connection._loop is loop]
    told += [{name: await shown(line, name) for name in postgres.SETTINGS} for line in lines]
    names = {name: {one[name] for one in told if name in one} for one in told for name in one}
    return {name: " or ".join(sorted(values)) for name, values in names.items()}


async def shown(line: Line, name: str) -> str:
    return str((await line.run(Statement(f"SHOW {name}", ()), []))[0][0])


def live(kind: type[T]) -> list[T]:
    return [thing for thing in gc.get_objects() if isinstance(thing, kind)]


def pragma(connection: sqlite3.Connection, sql: str) -> object:
    return connection.execute(sql).fetchone()[0]


async def run_chain(client: hf.Client) -> None:
    run = await client.start(chain.bind(STEPS))
    await run.result()


async def w1(task: Task) -> None:
    async with opened(task.store) as client:
        figures = await measure(lambda: run_chain(client), task.size)
        settings = await settings_in_use()
        if task.store != "memory":
            figures["over_raw"] = await over_raw(client, task)
    emit(Row("holdfast", task.store, "w1", "", figures, settings, speed()))


async def over_raw(client: hf.Client, task: Task) -> float:
    """Return the cost of a step in raw commits, the two taking turns of a tenth of a second.

    A disk that others use changes its pace within seconds: only neighbours can be compared.
    """
    ratios = []
    async with raw_turns(task.store) as raw_turn:
        for _ in range(max(3, round(task.size.chain_seconds / TURN))):
            ours = step_figures(await one_after_another(lambda: run_chain(client), TURN))
            limit = step_figures(await raw_turn())
            ratios.append(ours["step_ms"] / limit["step_ms"])
    return median(ratios)


@contextlib.asynccontextmanager
async def raw_turns(
    store: str,
) -> AsyncIterator[Callable[[], Coroutine[object, object, list[float]]]]:
    """Lend a way to run chains of raw commits for a turn."""
    if store == postgres.STORE:
        with postgres.database() as url:
            bare = await Bare.open(url)
            yield lambda: one_after_another(bare.chain, TURN)
            await bare.close()
        return
    with scratch() as directory:
        disk = Disk(directory / "raw.db")

        async def turn() -> list[float]:
            return one_after_another_sync(chain_of(disk.one), TURN)

        yield turn
        disk.close()


async def counted_chains(task: Task, lanes: int) -> None:
    async with opened(task.store) as client:
        before = commits()
        await counted(lambda: run_chain(client), task, lanes)
        each = (commits() - before) / (task.count * STEPS)
    emit(Row("holdfast", task.store, "chain", "", {"commits_step": each}))


def commits() -> int:
    """Return how many transactions (PostgreSQL: round trips) the stores here have made."""
    lines = sum(line.statements for line in live(Line))
    return lines + sum(writer.transactions for writer in live(Writer))


async def w2(task: Task) -> None:
    n = task.size.fan
    async with opened(task.store) as client:
        began = time.perf_counter()
        run = await client.start(fan.bind(n))
        total = await run.result()
        seconds = time.perf_counter() - began
        settings = await settings_in_use()
    if total != n * (n - 1) // 2:
        raise RuntimeError("wrong sum")
    emit(Row("holdfast", task.store, "w2", "", {"fan_s": seconds}, settings, speed()))


async def w3(task: Task) -> None:
    with new_store(task.store) as url, child(MODULE, "worker", url) as worker:
        hear(worker, "ready")
        async with app.open(url, worker=False) as client:
            figures = await pick_up(client, task.size.pickups)
            figures |= await burst(client, task.size.burst)
    emit(Row("holdfast", task.store, "w3", "", figures, {}, speed()))


async def pick_up(client: hf.Client, n: int) -> dict[str, float]:
    times = []
    for i in range(n):
        await asyncio.sleep(0.005)  # the worker is idle again when the next run comes
        began = time.perf_counter()
        await (await client.start(single.bind(i))).result()
        times.append((time.perf_counter() - began) * 1e3)
    return {"pickup_ms": percentile(times, 0.5), "pickup_p99_ms": percentile(times, 0.99)}


async def burst(client: hf.Client, n: int) -> dict[str, float]:
    async def one(i: int) -> None:
        await (await client.start(single.bind(i))).result()

    began = time.perf_counter()
    await asyncio.gather(*(one(i) for i in range(n)))
    return {"runs_s": n / (time.perf_counter() - began)}


async def serve(url: str) -> None:
    async with app.open(url):
        say("ready")
        await asyncio.Event().wait()


async def w4(task: Task) -> None:
    figures: dict[str, float] = {}
    for key, steps in (
        ("resume_ms", task.size.history),
        ("resume_long_ms", task.size.long_history),
    ):
        with new_store(task.store) as url:
            figures[key] = float(killed_and_resumed(MODULE, (url, steps), (url,)))
            figures["replay_us"] = await replay_alone(url)
    emit(Row("holdfast", task.store, "w4", "", figures, {}, speed()))


async def replay_alone(url: str) -> float:
    """Return the microseconds that a step costs whose result is recorded, without any store."""
    async with app.open(url, worker=False) as client:
        history = await client.get("long").history()
    times = []
    for _ in range(5):
        began = time.perf_counter()
        replay(long, history)
        times.append(time.perf_counter() - began)
    return median(times) / (len(history.events) - 1) * 1e6


async def crash(url: str, n: str) -> None:
    Here.on_last_step = lambda: say("reached")
    async with app.open(url) as client:
        await (await client.start(long.bind(int(n)), id="long")).result()


async def resume(url: str, app: hf.App = app) -> None:
    began = time.perf_counter()

    def reach() -> None:
        say("resumed", (time.perf_counter() - began) * 1e3)
        os._exit(0)

    Here.on_last_step = reach
    async with app.open(url):
        await asyncio.Event().wait()


async def w5(task: Task) -> None:
    n = task.size.waiting
    figures = {}
    with new_store(task.store) as url:
        cache = hf.Settings(machines=2 * n)
        async with app.open(url, settings=cache) as client:
            empty = 0 if task.store != postgres.STORE else disk_bytes(url)
            figures["live_kib"] = await memory_each(client, n)
            settings = await settings_in_use()
        if task.store != "memory":
            figures["disk_kib"] = (disk_bytes(url) - empty) / 1024 / (n + WARM_UP)
    if task.store != "memory":
        # In a process of its own: what the live runs left behind would be used again here.
        with child(MODULE, "park", task.store, task.size.parked) as process:
            figures["parked_kib"] = float(hear(process, "parked"))
            figures["parked_disk_kib"] = float(hear(process, "disk"))
            process.wait()
    emit(Row("holdfast", task.store, "w5", "", figures, settings, speed()))


async def park(store: str, n: str) -> None:
    """Let a worker with room for a few live runs park the others, and say what those hold."""
    cache = hf.Settings(machines=WARM_UP // 2)
    with new_store(store) as url:
        async with app.open(url, settings=cache) as client:
            empty = 0 if store != postgres.STORE else disk_bytes(url)
            # Some before, until the database's own bounded caches are full.
            before = min(int(n), FILLED)
            await start_waiting(client, before)
            say("parked", await memory_each(client, int(n)))
        say("disk", (disk_bytes(url) - empty) / 1024 / (before + WARM_UP + int(n)))


async def memory_each(client: hf.Client, n: int) -> float:
    """Return the KiB by which the worker grows for each of `n` more waiting runs."""
    await start_waiting(client, WARM_UP)
    before = rss_bytes()
    await start_waiting(client, n)
    return (rss_bytes() - before) / 1024 / n


async def start_waiting(client: hf.Client, n: int) -> None:
    """Start `n` runs and return when each has asked for its signal."""
    wanted = Here.waiting + n
    for first in range(0, n, BATCH):
        count = min(BATCH, n - first)
        await asyncio.gather(*(client.start(waiter.bind()) for _ in range(count)))
    while Here.waiting < wanted:  # noqa: ASYNC110 - a body cannot set an event of the outer loop
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)  # the last ones have yet to commit that they wait
    gc.collect()


async def w6(task: Task) -> None:
    with new_store(task.store) as url:
        async with graphs.app.open(url) as client:
            figures = await graphs.graph_figures(client, task.size, partial(disk_bytes, url))
            settings = await settings_in_use()
    with new_store(task.store) as url:
        asked = (url, task.size.big)
        told = killed_and_resumed(MODULE, asked, (url,), "graph_")
        figures["graph_resume_ms"] = float(told)
    emit(Row("holdfast", task.store, "w6", "", figures, settings, speed()))


async def graph_crash(url: str, n: str) -> None:
    Here.on_last_step = lambda: say("reached")
    async with graphs.app.open(url) as client:
        await (await client.start(graphs.long.bind(graphs.begun(int(n), BIG)))).result()


async def w8(task: Task) -> None:
    with new_store(task.store) as url:
        figures = await many.figures_of(MODULE, url, task.size.many)
    emit(Row("holdfast", task.store, "w8", "", figures, {}, speed()))


async def w9(task: Task) -> None:
    async with opened(task.store) as client:
        figures = await family.spread_figures(client, task.size.spread)
    emit(Row("holdfast", task.store, "w9", "", figures, {}, speed()))


async def w10(task: Task) -> None:
    async with opened(task.store) as client:
        figures = await family.children_figures(client, task.size.parts, task.size.each)
    emit(Row("holdfast", task.store, "w10", "", figures, {}, speed()))


async def w11(task: Task) -> None:
    async with opened(task.store) as client:
        figures = await exact.exact_figures(client, task.size)
    emit(Row("holdfast", task.store, "w11", "", figures, {}, speed()))


async def w12(task: Task) -> None:
    async with opened(task.store) as client:
        figures = await timers.lateness_figures(client, task.size.asleep, task.size.timers)
    emit(Row("holdfast", task.store, "w12", "", figures, {}, speed()))


async def w13(task: Task) -> None:
    with new_store(task.store) as url, child(MODULE, "farm", url) as other:
        hear(other, "ready")
        async with farm.app.open(url, settings=hf.Settings(queues=["default"])) as client:
            figures = await farm.job_figures(client, task.size.pickups)
    emit(Row("holdfast", task.store, "w13", "", figures, {}, speed()))


async def w14(task: Task) -> None:
    with new_store(task.store) as url:
        async with opened(task.store) as plain, app.open(url, keys=sealed.RING) as client:
            figures = await sealed.sealing_figures(plain, client, task.size.chain_seconds)
    emit(Row("holdfast", task.store, "w14", "", figures, {}, speed()))


def in_loop(piece: Callable[..., Coroutine[object, object, None]]) -> Callable[..., None]:
    return lambda *given: asyncio.run(piece(*given))


PIECES: Mapping[str, Callable[[Task], Coroutine[object, object, None]]] = {
    "w1": w1,
    "w2": w2,
    "w3": w3,
    "w4": w4,
    "w5": w5,
    "w6": w6,
    "w8": w8,
    "w9": w9,
    "w10": w10,
    "w11": w11,
    "w12": w12,
    "w13": w13,
    "w14": w14,
    "chain": partial(counted_chains, lanes=1),
    "crowd": partial(counted_chains, lanes=AT_ONCE),
}
ROLES: Mapping[str, Callable[..., Coroutine[object, object, None]]] = {
    "worker": serve,
    "farm": farm.serve,
    "crash": crash,
    "resume": resume,
    "graph_crash": graph_crash,
    "graph_resume": partial(resume, app=graphs.app),
    "park": park,
    "tick": many.tick,
}

if __name__ == "__main__":
    main(
        {name: in_loop(piece) for name, piece in PIECES.items()},
        {name: in_loop(role) for name, role in ROLES.items()},
    )
