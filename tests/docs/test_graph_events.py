"""The page on events of graphs names every type there is, and all that each tells."""

import ast
import re
from pathlib import Path
from typing import Any, get_args

import holdfast as hf
import holdfast.fronts.graph
from holdfast.model.events import EventKind

PAGE = (Path(__file__).parents[2] / "docs/howto/graph-events.md").read_text("utf-8")
TABLE = PAGE.split("## What is told")[1]
KINDS = "graph|node|edge|fork|cycle|interrupt|checkpoint|parallel|worker|chain|step|route"
WORD = re.compile(rf"({KINDS})\.[a-z]+")
EVERYWHERE = {"within"}


def told_in_code() -> set[str]:
    """Every text in the code of graphs that looks like a type, and is no kind of the history."""
    found = set[str]()
    for file in Path(holdfast.fronts.graph.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {node.value} if WORD.fullmatch(node.value) else set()
    return found - {*get_args(EventKind)}


def rows() -> dict[str, set[str]]:
    """The types on the page, each with every word of its row that may be a field."""
    found = dict[str, set[str]]()
    for types, *rest in re.findall(r"^\| (`.*?) \|(.*)\|$", TABLE, re.MULTILINE):
        fields = set(re.findall(r"`(\w+)`", rest[0]))
        found |= dict.fromkeys(re.findall(r"`([a-z.]+)`", types), fields)
    return found


def test_the_page_has_every_type_and_no_other() -> None:
    assert set(rows()) == told_in_code()


async def test_the_page_has_every_field_that_is_told() -> None:
    app = hf.App("told")
    graph = app.graph("told")

    @app.step
    async def double(n: int) -> int:
        return 2 * n

    async def passes(state: hf.State) -> None:
        return None

    @graph.node(body=True)
    async def many(state: hf.State) -> dict[str, Any]:
        done = await hf.process_parallel([1, 2], double)
        return {"n": sum(done.results)}

    @graph.node(retry=hf.Retry(max_attempts=1))
    async def breaks(state: hf.State) -> None:
        raise ValueError("no paper")

    graph.add_node("left", passes).add_node("right", passes)
    graph.add_edge(hf.START, many).add_fork(many, ["left", "right"], join=breaks)
    graph.add_edge("left", breaks).add_edge("right", breaks).add_edge(breaks, hf.END)
    async with app.open("memory://") as client:
        await client.start(graph.bind(hf.State()), id="r")
        told = [event async for event in hf.graph_events(client, "r")]
    page = rows()
    assert {"fork.join", "parallel.complete", "worker.start", "graph.failed"} <= {
        event.type for event in told
    }
    unknown = {(e.type, field) for e in told for field in {*e.data} - page[e.type] - EVERYWHERE}
    assert unknown == set()
