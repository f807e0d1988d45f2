"""A human approval: the boss is asked too if there is no answer, and silence means no.

Run it: python examples/approval.py
"""

import asyncio
from datetime import timedelta
from typing import Literal

import holdfast as hf
from holdfast.testing import virtual

app = hf.App("approval")
Verdict = Literal["yes", "no", "ask me later"]


@app.step
async def pay(item: str) -> str:
    return f"{item} is bought"


@app.workflow
async def purchase(item: str, cents: int) -> str:
    verdict: Verdict = await hf.ask(
        f"Buy {item} for {cents / 100:.2f} EUR?",
        Verdict,
        to="ada",
        details={"item": item, "cents": cents},
        escalate={"boss": timedelta(hours=4)},
        timeout=timedelta(days=2),
        default="no",
        name="approve",
    )
    return await pay(item) if verdict == "yes" else f"{item}: {verdict}"


async def story(client: hf.Client) -> None:
    """Three days in virtual time: Ada answers at once, the boss later, and nobody at all."""
    runs = {}
    for item, cents in (("lamp", 4_900), ("piano", 490_000), ("organ", 990_000)):
        runs[item] = await client.start(purchase.bind(item, cents), id=item)
    await asyncio.sleep(60)
    await runs["lamp"].answer("approve#1", "yes", by="ada")
    await asyncio.sleep(5 * 3_600)
    for question in (await client.questions(to="boss")).questions:
        if question.run == "piano":
            await runs["piano"].answer(question.key, "yes", by="boss")
    for run in runs.values():
        print(await run.result())


if __name__ == "__main__":
    virtual.run(app, story)
