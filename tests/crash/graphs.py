"""The scenarios of state graphs: a cycle, a fork, a fan-out, a question, a graph in a graph."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, effect

app = hf.App("graphs")
ONCE = hf.Retry(max_attempts=1)


@dataclass(frozen=True)
class Doc:
    pages: list[int] = field(default_factory=list[int])
    rounds: int = 0
    notes: list[str] = field(default_factory=list[str])


def noted(doc: Doc, note: str) -> Mapping[str, Any]:
    effect(note)
    return {"notes": [*doc.notes, note]}


inner = app.graph("inner", state=Doc)


@inner.node
async def polish(doc: Doc) -> Mapping[str, Any]:
    return noted(doc, f"polish {doc.rounds}")


inner.add_edge(hf.START, polish).add_edge(polish, hf.END)
outer = app.graph("outer", state=Doc)


async def read(page: int) -> int:
    effect(page)
    return page * 10


def unread(doc: Doc) -> Sequence[int]:
    return doc.pages


@outer.node
async def left(doc: Doc) -> Mapping[str, Any]:
    return noted(doc, "left")


@outer.node(body=True)
async def right(doc: Doc) -> Mapping[str, Any]:
    await hf.sleep(2)
    return {"notes": [*doc.notes, "right"], "rounds": doc.rounds + 1}


@app.step
async def summary(notes: list[str]) -> str:
    effect(f"summary of {len(notes)}")
    return notes[-1]


@outer.node(body=True)
async def review(doc: Doc) -> Mapping[str, Any]:
    # The sweep crashes between the two: what was recorded of the call is not called again.
    short = await summary(doc.notes)
    return {"notes": [*doc.notes, short, await hf.ask(f"Is {short} good?", str)]}


def is_good(doc: Doc) -> bool:
    return doc.notes[-1] == "yes"


outer.add_map("read", read, over=unread, into="pages").add_node("polish", inner)
outer.add_edge(hf.START, "read")
outer.add_fork("read", [left, right], join="polish", merge={"notes": "append"})
outer.add_edge(left, "polish").add_edge(right, "polish").add_edge("polish", review)
outer.add_conditional_edge(review, is_good, {True: hf.END, False: "polish"})


async def run_graph(caller: Caller) -> None:
    await caller.start(outer.bind(Doc([1, 2])), "graph")
    for round_, answer in ((1, "no"), (2, "yes")):
        await caller.answer("graph", f"review[{round_}]/ask#1", answer, by="ada")
    notes = ["left", "right", "polish 1", "polish 1", "no", "polish 1", "polish 1", "yes"]
    assert await caller.result("graph") == ("completed", Doc([10, 20], 1, notes))


# --- a node that fails, and the run retried


broken = app.graph("broken")


@broken.node
async def first(state: hf.State) -> hf.State:
    effect("first")
    return state.set("n", 1)


@broken.node(retry=ONCE)
async def second(state: hf.State) -> hf.State:
    effect("second")
    generation = int(hf.idempotency_key().split("/")[2])
    if generation == 1:
        raise ValueError("the first life is hard")
    return state.set("n", generation)


broken.add_edge(hf.START, first).add_edge(first, second, hf.key_equals("n", 1))
broken.add_edge(first, hf.END).add_edge(second, hf.END)


async def run_broken(caller: Caller) -> None:
    await caller.start(broken.bind(hf.State()), "broken")
    if (await caller.row("broken")).generation == 1:
        await caller.until("broken", "failed")
        await caller.retry("broken")
    while (await caller.row("broken")).status == "failed":
        await caller.retry("broken")
    assert await caller.result("broken") == ("completed", hf.State({"n": 2}))


GRAPHS = (
    Scenario("graph", app, run_graph, apart=True, workers=1),
    Scenario("graph-retried", app, run_broken),
)
