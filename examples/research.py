"""A research agent as a graph: it reads until it knows enough, and a person reviews what it wrote.

Run it: python examples/research.py
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import holdfast as hf

app = hf.App("research")
LIBRARY = {"tides": "the moon pulls the sea", "moon": "it goes round", "storm": "it lifts the sea"}


@dataclass(frozen=True)
class Paper:
    question: str
    open: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    report: str = ""
    remark: str = ""


graph = app.graph("research", state=Paper, max_iterations=50)


@graph.node(retry=hf.Retry(max_attempts=8), timeout=120)
async def plan(paper: Paper) -> Mapping[str, Any]:
    """Stands for a language model. Its paid answer is stored, and never asked for again."""
    text = " ".join([paper.question, paper.remark, *paper.notes.values()])
    return {"open": [word for word in LIBRARY if word in text and word not in paper.notes]}


@app.step
async def look_up(word: str) -> str:
    return LIBRARY[word]


@graph.node(body=True)
async def read(paper: Paper) -> Mapping[str, Any]:
    texts = await hf.map(look_up, paper.open)
    return {"notes": paper.notes | dict(zip(paper.open, texts, strict=True))}


@graph.node
async def write(paper: Paper) -> Mapping[str, Any]:
    return {"report": "; ".join(f"{word}: {text}" for word, text in paper.notes.items())}


@graph.node(body=True)
async def review(paper: Paper) -> Mapping[str, Any]:
    return {"remark": await hf.ask(f"{paper.report}. Is something missing?", str, to="editor")}


def is_accepted(paper: Paper) -> bool:
    return paper.remark == "no"


graph.add_edge(hf.START, plan)
graph.add_edge(plan, write, hf.key_equals("open", [])).add_edge(plan, read)
graph.add_edge(read, plan).add_edge(write, review)
graph.add_conditional_edge(review, is_accepted, {True: hf.END, False: plan})


async def main() -> None:
    async with app.open("memory://") as client:
        run = await client.start(graph.bind(Paper("why are there tides?")))
        for remark in ("what of a storm?", "no"):
            while not (asked := (await client.questions(to="editor")).questions):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            print(asked[0].question)
            await run.answer(asked[0].key, remark, by="ada")
        print("published:", (await run.result()).report)


if __name__ == "__main__":
    asyncio.run(main())
