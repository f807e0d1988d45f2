"""W6 of Holdfast: state graphs. LangGraph does the same, see `peers/langgraph.py`.

A chain of ten nodes; a node that goes round; and one that goes round with a large state, of which
it changes a little. What a node stores is the growth of the database by a long run, less that by a
run of one node: what a run stores anyway, its input and its result, is in both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from typing_extensions import TypedDict

import holdfast as hf
from benchmarks.flows import Here
from benchmarks.pace import one_after_another, step_figures
from benchmarks.work import BIG, STEPS, Size, changed, small_result

app = hf.App("bench graphs")


class State(TypedDict, total=False):
    i: int
    out: dict[str, object]


class Large(TypedDict, total=False):
    i: int
    until: int
    body: str
    note: str


async def node(state: State) -> State:
    return {"i": state["i"] + 1, "out": small_result(state["i"])}


async def change(state: Large) -> Large:
    return {"i": state["i"] + 1, "note": changed(state["i"])}


async def last(state: Large) -> None:
    Here.on_last_step()
    await asyncio.Event().wait()


def goes_on(state: Large) -> bool:
    return state["i"] < state["until"]


chain = app.graph("graph_chain", state=State)
for k in range(STEPS):
    chain.add_node(f"n{k}", node)
    chain.add_edge(f"n{k - 1}" if k else hf.START, f"n{k}")
chain.add_edge(f"n{STEPS - 1}", hf.END)

loop = app.graph("graph_loop", state=Large, max_iterations=1_000_000)
loop.add_node("change", change).add_edge(hf.START, "change")
loop.add_edge("change", "change", goes_on).add_edge("change", hf.END)

long = app.graph("graph_long", state=Large, max_iterations=1_000_000)
long.add_node("change", change).add_node("last", last).add_edge(hf.START, "change")
long.add_edge("change", "change", goes_on).add_edge("change", "last").add_edge("last", hf.END)


def begun(until: int, body: str) -> Any:
    return {"i": 0, "until": until, "body": body, "note": ""}


async def graph_figures(client: hf.Client, size: Size, disk: Callable[[], int]) -> dict[str, float]:
    """Return what a node costs in a chain, in a loop, and with a large state."""

    async def one() -> None:
        await (await client.start(chain.bind({"i": 0, "out": {}}))).result()

    chained = step_figures(await one_after_another(one, size.chain_seconds) or [0.0])
    looped = await _node_ms(client, size.rounds, "")
    empty = disk()
    await _node_ms(client, 1, BIG)
    short = disk()
    large = await _node_ms(client, size.big, BIG)
    stored = (disk() - short) - (short - empty)
    return {
        "node_ms": chained["step_ms"],
        "loop_ms": looped,
        "big_ms": large,
        "node_bytes": stored / (size.big - 1),
    }


async def _node_ms(client: hf.Client, nodes: int, body: str) -> float:
    began = time.perf_counter()
    ended = await (await client.start(loop.bind(begun(nodes, body)))).result()
    if (ended["i"], len(ended["body"])) != (nodes, len(body)):
        raise RuntimeError("wrong state")
    return (time.perf_counter() - began) * 1e3 / nodes
