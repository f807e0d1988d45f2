"""Which security marking does a document bear? Pages are read side by side, and again if faded.

Run it: python examples/classify/marking.py    (with a model that is a few lines of Python)
"""

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import model
from rules import (
    WEIGHTS,
    Classification,
    Confidence,
    Detection,
    merged,
    needs_enhancement,
    parsed,
    recommended,
    totals,
)

import holdfast as hf

app = hf.App("marking", secrets=hf.EnvSecrets(prefix="MARKING_"))
A = TypeVar("A")
R = TypeVar("R")
PROMPTS = {
    "detect": "Find every security marking of this page, with location and legibility, as JSON.",
    "classify": "Which classification does the document bear, as JSON?",
    "score": f"How sure is this, as JSON? Weights: {WEIGHTS}",
}


@dataclass(frozen=True)
class Page:
    document_id: str
    number: int
    contrast: int = 0

    @property
    def image_id(self) -> str:
        return f"{self.document_id}/{self.number}@{self.contrast}"


@dataclass(frozen=True)
class Paper:
    document_id: str
    pages: list[Page] = field(default_factory=list)
    detections: list[Detection] = field(default_factory=list)
    enhancement_applied: bool = False
    classification: Classification | None = None
    confidence: Confidence | None = None


def extract_document_id(params: Mapping[str, object]) -> str:
    """Return the document that is asked for. Raises `ValueError` before anything is stored."""
    given = params.get("document_id")
    if not isinstance(given, str) or not given:
        raise ValueError(f"document_id={given!r:.60} names no document. Give its id, a text.")
    return given


Body = Callable[[A], Coroutine[Any, Any, R]]


def timed(function: Body[A, R]) -> Body[A, R]:
    """Log how long each call of a node took; the line is kept with its run."""

    @functools.wraps(function)
    async def call(given: A) -> R:
        began = time.perf_counter()
        try:
            return await function(given)
        finally:
            took = (time.perf_counter() - began) * 1e3
            hf.log.info("%s took %.1f ms", function.__name__, took)

    return call


graph = app.graph("classify-docs", state=Paper)


@graph.node
@timed
async def init(paper: Paper) -> Mapping[str, Any]:
    if paper.document_id not in model.DOCUMENTS:
        raise hf.NonRetryable(f"there is no document {paper.document_id!r}")
    count = len(model.DOCUMENTS[paper.document_id])
    if not count:
        raise hf.NonRetryable(f"document {paper.document_id!r} has no pages")
    return {"pages": [Page(paper.document_id, n + 1) for n in range(count)]}


@timed
async def detect(page: Page) -> Detection:
    picture = model.data_uri(model.render(page.document_id, page.number, page.contrast))
    text = await model.vision(PROMPTS["detect"], picture, hf.secret("token").reveal())
    ours = {"page_number": page.number, "original_image_id": page.image_id}
    return parsed(text, Detection).model_copy(update=ours)


def pages_of(paper: Paper) -> Sequence[Page]:
    return paper.pages


detect_page = app.step(name="detect", secrets=["token"], retry=hf.Retry(max_attempts=5))(detect)
graph.add_map("detect", detect_page, over=pages_of, into="detections", limit=16)


def is_hard_to_read(paper: Paper) -> bool:
    return any(map(needs_enhancement, paper.detections))


@graph.node(body=True)
async def enhance(paper: Paper) -> Mapping[str, Any]:
    """Look again at each page that is hard to read, through the filter suggested for it."""
    pages = [
        Page(paper.document_id, each.page_number, each.filter_suggestion.contrast)
        for each in paper.detections
        if each.filter_suggestion and needs_enhancement(each)
    ]
    again = {each.page_number: each for each in await hf.map(detect_page, pages)}
    for number, each in again.items():
        again[number] = each.model_copy(update={"enhanced_image_id": each.original_image_id})
    found = [merged(e, again[e.page_number]) if e.page_number in again else e
             for e in paper.detections]  # fmt: skip
    return {"detections": found, "enhancement_applied": bool(pages)}


@graph.node(secrets=["token"])
@timed
async def classify(paper: Paper) -> Mapping[str, Any]:
    lines = [PROMPTS["classify"], f"{paper.document_id}, {len(paper.pages)} pages"]
    for page in paper.detections:
        lines.append(f"Page {page.page_number}, clarity {page.clarity_score:.2f}:")
        lines += [f"- {m.text} ({m.location}, {m.legibility:.2f})" for m in page.markings_found]
    text = await model.chat("\n".join(lines), hf.secret("token").reveal())
    return {"classification": parsed(text, Classification)}


@graph.node(secrets=["token"])
@timed
async def score(paper: Paper) -> Mapping[str, Any]:
    assert paper.classification is not None
    facts = {
        "classification": paper.classification.classification,
        "alternatives": len(paper.classification.alternative_readings),
        "enhanced": paper.enhancement_applied,
        **totals(paper.detections),
    }
    prompt = "\n".join([PROMPTS["score"], *(f"{key}: {value}" for key, value in facts.items())])
    text = await model.chat(prompt, hf.secret("token").reveal())
    return {"confidence": recommended(parsed(text, Confidence))}


graph.add_edge(hf.START, init).add_edge(init, "detect")
graph.add_edge("detect", enhance, is_hard_to_read).add_edge("detect", classify)
graph.add_edge(enhance, classify).add_edge(classify, score).add_edge(score, hf.END)


def told(paper: Paper) -> str:
    assert paper.classification is not None
    assert paper.confidence is not None
    sure = f"{paper.confidence.recommendation} at {paper.confidence.overall_score:.2f}"
    enhanced = ", enhanced" if paper.enhancement_applied else ""
    return f"{paper.document_id}: {paper.classification.classification}, {sure}{enhanced}"


async def main() -> None:
    async with app.open("memory://") as client:
        for params in ({"document_id": "treaty"}, {"document_id": "memo"}):
            bound = graph.bind(Paper(extract_document_id(params)))
            run = await client.start(bound, secrets={"token": hf.Secret(model.TOKEN)})
            print(told(await run.result()))
            print(*[line.message.split(" took ")[0] async for line in run.logs()])


if __name__ == "__main__":
    asyncio.run(main())
