"""The pictures in the docs: the graphs of the examples, each with the way of a run."""

import asyncio
import sys
from pathlib import Path

import holdfast as hf
from holdfast.cli.loading import load_app

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def drawn() -> dict[str, str]:
    """Return the pictures by their paths below `docs/`."""
    research = load_app(str(EXAMPLES / "research.py"))
    marking = load_app(str(EXAMPLES / "classify" / "marking.py"))
    return {
        "pictures/research.svg": research.graphs[0].svg(),
        "pictures/research-run.svg": asyncio.run(_asked(research)),
        "pictures/classify-docs.svg": asyncio.run(_done(marking, "memo")),
    }


async def _asked(app: hf.App) -> str:
    """Draw the way of a research that a person has sent back once, and is asked about again."""
    graph = app.graphs[0]
    async with app.open("memory://") as client:
        run = await client.start(graph.bind(graph.blueprint.shape.cls("why are there tides?")))
        for number in (1, 2):
            while not (found := await _question(client, number)):  # noqa: ASYNC110 - others ask
                await asyncio.sleep(0.01)
            if number == 1:
                await run.answer(found, "what of a storm?")
        return graph.svg((await run.history()).events)


async def _question(client: hf.Client, number: int) -> str:
    """Return the key of the n-th question, once it is asked."""
    found = (await client.questions()).questions
    return next((each.key for each in found if each.key.startswith(f"review[{number}]")), "")


async def _done(app: hf.App, document: str) -> str:
    graph, secret = app.graphs[0], hf.Secret(sys.modules["model"].TOKEN)
    async with app.open("memory://") as client:
        bound = graph.bind(graph.blueprint.shape.cls(document))
        run = await client.start(bound, secrets={"token": secret})
        await run.result()
        return graph.svg((await run.history()).events)
