"""LangGraph with its SQLite savers and `durability='sync'`: a checkpoint before the next node.

W3 is missing: the open-source library has no queue and no worker.
"""

from __future__ import annotations

import asyncio
import operator
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send, interrupt

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
from benchmarks.pace import counted_sync, measure, measure_sync
from benchmarks.rows import Row, emit
from benchmarks.work import STEPS, small_result

MODULE = "benchmarks.peers.langgraph"
DURABILITY = "sync"


class State(TypedDict):
    i: int
    out: dict[str, object]


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


def settings_of(saver: Any) -> dict[str, str]:
    read = sqlite_settings(lambda sql: saver.conn.execute(sql).fetchone()[0])
    return read | {"durability": DURABILITY}


async def async_settings_of(saver: Any) -> dict[str, str]:
    read: dict[str, Any] = {}
    for sql in ("PRAGMA journal_mode", "PRAGMA synchronous"):
        async with saver.conn.execute(sql) as cursor:
            read[sql] = (await cursor.fetchone())[0]
    return sqlite_settings(read.__getitem__) | {"durability": DURABILITY}


def w1(task: Task) -> None:
    names = Names()
    with scratch() as directory, SqliteSaver.from_conn_string(str(directory / "lg.db")) as saver:
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
    with scratch() as directory:
        async with AsyncSqliteSaver.from_conn_string(str(directory / "lg.db")) as saver:
            await saver.setup()
            graph = chain_graph(saver, async_node)
            figures = await measure(
                lambda: graph.ainvoke(NEW, names.next(), durability=DURABILITY), task.size
            )
            settings = await async_settings_of(saver)
    emit(Row("langgraph", task.store, "w1", "async", figures, settings, speed()))


def counted_chain(task: Task) -> None:
    names = Names()
    with scratch() as directory, SqliteSaver.from_conn_string(str(directory / "lg.db")) as saver:
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
    with scratch() as directory:
        async with AsyncSqliteSaver.from_conn_string(str(directory / "lg.db")) as saver:
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
    with scratch() as directory:
        asked = (directory / "lg.db", task.size.history)
        resumed = float(killed_and_resumed(MODULE, asked, asked))
    figures = {"resume_ms": resumed}
    emit(Row("langgraph", task.store, "w4", "loads the state", figures, {}, speed()))


def crash(path: str, n: str) -> None:
    def reach() -> None:
        say("reached")
        threading.Event().wait()

    with SqliteSaver.from_conn_string(path) as saver:
        saver.setup()
        graph = long_graph(saver, int(n), reach)
        graph.invoke(NEW, thread("long"), durability=DURABILITY)


def resume(path: str, n: str) -> None:
    began = time.perf_counter()

    def reach() -> None:
        say("resumed", (time.perf_counter() - began) * 1e3)
        os._exit(0)

    with SqliteSaver.from_conn_string(path) as saver:
        graph = long_graph(saver, int(n), reach)
        graph.invoke(None, thread("long"), durability=DURABILITY)


def w5(task: Task) -> None:
    n = task.size.waiting
    with scratch() as directory:
        figures = waiting_figures(directory, n)
        figures["disk_kib"] = disk_bytes(directory / "lg.db") / 1024 / n
        emit(Row("langgraph", task.store, "w5", "rows only", figures, {}, speed()))


def waiting_figures(directory: Path, n: int) -> dict[str, float]:
    """A thread that was interrupted is rows and nothing else: it is parked, never live."""
    names = Names()
    with SqliteSaver.from_conn_string(str(directory / "lg.db")) as saver:
        saver.setup()
        graph = waiting_graph(saver)
        for _ in range(20):
            graph.invoke(NEW, names.next(), durability=DURABILITY)
        before = rss_bytes()
        for _ in range(n):
            graph.invoke(NEW, names.next(), durability=DURABILITY)
        return {"parked_kib": (rss_bytes() - before) / 1024 / n}


if __name__ == "__main__":
    main(
        {"w1": w1, "w2": w2, "w4": w4, "w5": w5, "chain": counted_chain},
        {"crash": crash, "resume": resume},
    )
