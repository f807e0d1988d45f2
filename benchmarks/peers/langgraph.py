"""LangGraph with `durability='sync'`, a checkpoint before the next node, on the savers for SQLite
and for PostgreSQL; the latter with a pool, as its documentation has it.

W3 is missing: the open-source library has no queue and no worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import operator
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from benchmarks import postgres
from benchmarks.calibrate import rss_bytes, speed
from benchmarks.driver import (
    Task,
    disk_bytes,
    killed_and_resumed,
    main,
    say,
    scratch,
    sqlite_settings,
)
from benchmarks.pace import (
    counted_sync,
    measure,
    measure_sync,
    one_after_another_sync,
    step_figures,
)
from benchmarks.rows import Row, emit
from benchmarks.work import BIG, STEPS, changed, small_result

MODULE = "benchmarks.peers.langgraph"
DURABILITY = "sync"
POOL = 20
OPTIONS = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


class State(TypedDict):
    i: int
    out: dict[str, object]


class Large(TypedDict):
    i: int
    until: int
    body: str
    note: str


class FanState(TypedDict):
    n: int
    got: Annotated[list[int], operator.add]
    total: int


NEW: State = {"i": 0, "out": {}}


def node(state: State) -> State:
    return {"i": state["i"] + 1, "out": small_result(state["i"])}


async def async_node(state: State) -> State:
    return node(state)


def chain_graph(saver: Any, body: Any) -> Any:
    graph = StateGraph(State)
    for k in range(STEPS):
        graph.add_node(f"n{k}", body)
        graph.add_edge(f"n{k - 1}" if k else START, f"n{k}")
    graph.add_edge(f"n{STEPS - 1}", END)
    return graph.compile(checkpointer=saver)


def fan_graph(saver: Any, body: Any) -> Any:
    graph = StateGraph(FanState)
    graph.add_node("begin", lambda state: {"n": state["n"]})
    graph.add_node("work", body)
    graph.add_node("sum", lambda state: {"total": sum(state["got"])})
    graph.add_edge(START, "begin")
    graph.add_conditional_edges(
        "begin", lambda state: [Send("work", {"i": i}) for i in range(state["n"])], ["work"]
    )
    graph.add_edge("work", "sum")
    graph.add_edge("sum", END)
    return graph.compile(checkpointer=saver)


def long_graph(saver: Any, n: int, on_last_step: Callable[[], None]) -> Any:
    def last(state: State) -> State:
        on_last_step()
        return state

    graph = StateGraph(State)
    graph.add_node("step", node)
    graph.add_node("last", last)
    graph.add_edge(START, "step")
    graph.add_conditional_edges(
        "step", lambda state: "step" if state["i"] < n else "last", ["step", "last"]
    )
    graph.add_edge("last", END)
    return graph.compile(checkpointer=saver)


def waiting_graph(saver: Any) -> Any:
    graph = StateGraph(State)
    graph.add_node("wait", lambda state: {"out": {"go": interrupt("go")}})
    graph.add_edge(START, "wait")
    graph.add_edge("wait", END)
    return graph.compile(checkpointer=saver)


def thread(name: object) -> dict[str, Any]:
    return {"configurable": {"thread_id": str(name)}, "recursion_limit": 1_000_000}


class Names:
    """A new thread id for each run."""

    def __init__(self) -> None:
        self._count = 0

    def next(self) -> dict[str, Any]:
        self._count += 1
        return thread(self._count)


@contextlib.contextmanager
def new_database(store: str) -> Iterator[str]:
    if store == postgres.STORE:
        with postgres.database() as url:
            yield url
        return
    with scratch() as directory:
        yield f"sqlite:///{directory / 'lg.db'}"


@contextlib.contextmanager
def saver_at(url: str, connections: int = POOL) -> Iterator[Any]:
    if url.startswith("sqlite"):
        with SqliteSaver.from_conn_string(path_of(url)) as saver:
            yield saver
        return
    with ConnectionPool(url, min_size=connections, max_size=POOL, kwargs=OPTIONS) as pool:
        yield PostgresSaver(pool)


@contextlib.asynccontextmanager
async def async_saver_at(url: str) -> AsyncIterator[Any]:
    if url.startswith("sqlite"):
        async with AsyncSqliteSaver.from_conn_string(path_of(url)) as saver:
            yield saver
        return
    pool = AsyncConnectionPool(url, min_size=POOL, max_size=POOL, open=False, kwargs=OPTIONS)
    async with pool:
        yield AsyncPostgresSaver(pool)


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


def settings_of(saver: Any) -> dict[str, str]:
    if isinstance(saver, SqliteSaver):
        read = sqlite_settings(lambda sql: saver.conn.execute(sql).fetchone()[0])
        return read | {"durability": DURABILITY}
    with saver.conn.connection() as connection:
        rows = {name: connection.execute(f"SHOW {name}") for name in postgres.SETTINGS}
        read = {name: row.fetchone()[name] for name, row in rows.items()}
    return read | {"durability": DURABILITY}


async def async_settings_of(saver: Any) -> dict[str, str]:
    read: dict[str, Any] = {}
    if isinstance(saver, AsyncSqliteSaver):
        for sql in ("PRAGMA journal_mode", "PRAGMA synchronous"):
            async with saver.conn.execute(sql) as cursor:
                read[sql] = (await cursor.fetchone())[0]
        return sqlite_settings(read.__getitem__) | {"durability": DURABILITY}
    async with saver.conn.connection() as connection:
        for name in postgres.SETTINGS:
            row = await (await connection.execute(f"SHOW {name}")).fetchone()
            read[name] = row[name]
    return read | {"durability": DURABILITY}


def w1(task: Task) -> None:
    names = Names()
    with new_database(task.store) as url, saver_at(url) as saver:
        saver.setup()
        graph = chain_graph(saver, node)
        figures = measure_sync(
            lambda: graph.invoke(NEW, names.next(), durability=DURABILITY), task.size
        )
        settings = settings_of(saver)
    emit(Row("langgraph", task.store, "w1", "sync", figures, settings, speed()))
    asyncio.run(w1_async(task))


async def w1_async(task: Task) -> None:
    names = Names()
    with new_database(task.store) as url:
        async with async_saver_at(url) as saver:
            await saver.setup()
            graph = chain_graph(saver, async_node)
            figures = await measure(
                lambda: graph.ainvoke(NEW, names.next(), durability=DURABILITY), task.size
            )
            settings = await async_settings_of(saver)
    emit(Row("langgraph", task.store, "w1", "async", figures, settings, speed()))


def counted_chain(task: Task) -> None:
    names = Names()
    with new_database(task.store) as url, saver_at(url) as saver:
        saver.setup()
        graph = chain_graph(saver, node)
        counted_sync(lambda: graph.invoke(NEW, names.next(), durability=DURABILITY), task)


def w2(task: Task) -> None:
    # Only the async saver: it is the faster one here, and a second run would not be cold.
    asyncio.run(w2_async(task))


async def w2_async(task: Task) -> None:
    async def body(state: dict[str, int]) -> dict[str, object]:
        return {"got": [small_result(state["i"])["i"]]}

    asked = {"n": task.size.fan, "got": [], "total": 0}
    with new_database(task.store) as url:
        async with async_saver_at(url) as saver:
            await saver.setup()
            graph = fan_graph(saver, body)
            began = time.perf_counter()
            ended = await graph.ainvoke(asked, thread("fan"), durability=DURABILITY)
            seconds = time.perf_counter() - began
            settings = await async_settings_of(saver)
    check_sum(ended, task)
    emit(Row("langgraph", task.store, "w2", "async", {"fan_s": seconds}, settings, speed()))


def check_sum(ended: Any, task: Task) -> None:
    n = task.size.fan
    if ended["total"] != n * (n - 1) // 2:
        raise RuntimeError("wrong sum")


def w4(task: Task) -> None:
    with new_database(task.store) as url:
        asked = (url, task.size.history)
        resumed = float(killed_and_resumed(MODULE, asked, asked))
    figures = {"resume_ms": resumed}
    emit(Row("langgraph", task.store, "w4", "loads the state", figures, {}, speed()))


def crash(url: str, n: str) -> None:
    def reach() -> None:
        say("reached")
        threading.Event().wait()

    with saver_at(url) as saver:
        saver.setup()
        graph = long_graph(saver, int(n), reach)
        graph.invoke(NEW, thread("long"), durability=DURABILITY)


def resume(url: str, n: str) -> None:
    began = time.perf_counter()

    def reach() -> None:
        say("resumed", (time.perf_counter() - began) * 1e3)
        os._exit(0)

    with saver_at(url, connections=1) as saver:
        graph = long_graph(saver, int(n), reach)
        graph.invoke(None, thread("long"), durability=DURABILITY)


def w6(task: Task) -> None:
    names, n = Names(), task.size.big_peer
    with new_database(task.store) as url, saver_at(url) as saver:
        saver.setup()
        chain, loop = chain_graph(saver, node), loop_graph(saver)

        def nodes_ms(count: int, body: str) -> float:
            began = time.perf_counter()
            ended = loop.invoke(large(count, body), names.next(), durability=DURABILITY)
            if (ended["i"], len(ended["body"])) != (count, len(body)):
                raise RuntimeError("wrong state")
            return (time.perf_counter() - began) * 1e3 / count

        one = partial(chain.invoke, durability=DURABILITY)
        chained = one_after_another_sync(lambda: one(NEW, names.next()), task.size.chain_seconds)
        figures = {"node_ms": step_figures(chained)["step_ms"]}
        figures["loop_ms"] = nodes_ms(task.size.rounds, "")
        empty = disk_bytes(url)
        nodes_ms(1, BIG)
        short = disk_bytes(url)
        figures["big_ms"] = nodes_ms(n, BIG)
        figures["node_bytes"] = ((disk_bytes(url) - short) - (short - empty)) / (n - 1)
        settings = settings_of(saver)
    with new_database(task.store) as url:
        asked = (url, n)
        figures["graph_resume_ms"] = float(killed_and_resumed(MODULE, asked, asked, "graph_"))
    emit(Row("langgraph", task.store, "w6", "sync", figures, settings, speed()))


def large(until: int, body: str) -> Large:
    return {"i": 0, "until": until, "body": body, "note": ""}


def change(state: Large) -> dict[str, object]:
    return {"i": state["i"] + 1, "note": changed(state["i"])}


def loop_graph(saver: Any, on_last_step: Callable[[], None] | None = None) -> Any:
    """Return a graph whose one node goes round; with `on_last_step` it comes to another."""

    def last(state: Large) -> dict[str, object]:
        if on_last_step is not None:
            on_last_step()
        return {}

    after = END if on_last_step is None else "last"
    graph = StateGraph(Large)
    graph.add_node("change", change)
    graph.add_node("last", last)
    graph.add_edge(START, "change")
    graph.add_conditional_edges(
        "change",
        lambda state: "change" if state["i"] < state["until"] else after,
        ["change", "last", END],
    )
    graph.add_edge("last", END)
    return graph.compile(checkpointer=saver)


def graph_crash(url: str, n: str) -> None:
    def reach() -> None:
        say("reached")
        threading.Event().wait()

    with saver_at(url) as saver:
        saver.setup()
        graph = loop_graph(saver, reach)
        graph.invoke(large(int(n), BIG), thread("long"), durability=DURABILITY)


def graph_resume(url: str, n: str) -> None:
    began = time.perf_counter()

    def reach() -> None:
        say("resumed", (time.perf_counter() - began) * 1e3)
        os._exit(0)

    with saver_at(url, connections=1) as saver:
        loop_graph(saver, reach).invoke(None, thread("long"), durability=DURABILITY)


def w5(task: Task) -> None:
    n = task.size.waiting
    with new_database(task.store) as url:
        with saver_at(url) as saver:
            saver.setup()
            empty = disk_bytes(url)
            figures = waiting_figures(saver, n)
        figures["disk_kib"] = (disk_bytes(url) - empty) / 1024 / n
        emit(Row("langgraph", task.store, "w5", "rows only", figures, {}, speed()))


def waiting_figures(saver: Any, n: int) -> dict[str, float]:
    """A thread that was interrupted is rows and nothing else: it is parked, never live."""
    names, graph = Names(), waiting_graph(saver)
    for _ in range(20):
        graph.invoke(NEW, names.next(), durability=DURABILITY)
    before = rss_bytes()
    for _ in range(n):
        graph.invoke(NEW, names.next(), durability=DURABILITY)
    return {"parked_kib": (rss_bytes() - before) / 1024 / n}


if __name__ == "__main__":
    main(
        {"w1": w1, "w2": w2, "w4": w4, "w5": w5, "w6": w6, "chain": counted_chain},
        {
            "crash": crash,
            "resume": resume,
            "graph_crash": graph_crash,
            "graph_resume": graph_resume,
        },
    )
