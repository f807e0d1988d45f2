"""The scenario of items that are done side by side, and of a chain, with somebody who watches."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import holdfast as hf
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Process, Scenario, World, effect
from holdfast.testing.loop import LIFE

app = hf.App("crash-processing")
TOLD: list[tuple[str, int]] = []
"""What was told of progress, and how many results were stored by then."""


@dataclass(frozen=True)
class Book:
    pages: list[int] = field(default_factory=list[int])
    texts: list[str] = field(default_factory=list[str])
    unread: list[int] = field(default_factory=list[int])
    total: int = 0


@app.step(retry=hf.Retry(max_attempts=1))
async def read(page: int) -> str:
    effect(page)
    if page == 2:
        raise ValueError("torn")
    return f"page {page}"


@app.step
async def add(page: int, total: int) -> int:
    effect(page)
    return total + page


def watch(kind: str) -> Any:
    def told(done: int, total: int, result: object) -> None:
        process = LIFE.get()
        assert isinstance(process, Process)
        if not process.is_dead:
            TOLD.append((kind, done))

    return told


graph = app.graph("processing", state=Book)


@graph.node(body=True)
async def read_all(book: Book) -> Mapping[str, Any]:
    config = hf.ParallelConfig(fail_fast=False)
    found = await hf.process_parallel(book.pages, read, config, watch("read"))
    return {"texts": list(found.results), "unread": [each.item for each in found.errors]}


@graph.node(body=True)
async def add_all(book: Book) -> Mapping[str, Any]:
    return {"total": (await hf.process_chain(book.pages, 0, add, progress=watch("add"))).final}


graph.add_edge(hf.START, read_all).add_edge(read_all, add_all).add_edge(add_all, hf.END)


async def run_processing(caller: Caller) -> None:
    await caller.start(graph.bind(Book([1, 2, 3])), "processing")
    done = Book([1, 2, 3], ["page 1", "page 3"], [2], 6)
    assert await caller.result("processing") == ("completed", done)


def progress_is_told_of_what_is_stored(world: World) -> list[str]:
    """Nothing is told twice or out of order; all of it is told where nothing fails."""
    whole = [("read", 1), ("read", 2), ("add", 1), ("add", 2), ("add", 3)]
    if not world.faults and whole != TOLD:
        return [f"told was {TOLD}"]
    # A commit in doubt that did happen is told by nobody.
    if [each for each in whole if each in TOLD] != TOLD:
        return [f"told was {TOLD}, which is twice or out of order"]
    return []


PROCESSING = (
    Scenario(
        "processing", app, run_processing, prepare=TOLD.clear,
        check=progress_is_told_of_what_is_stored,
    ),
)  # fmt: skip
