"""The scenarios of what people answer and others complete."""

import asyncio

import holdfast as hf
from holdfast.model.waits import answer_in
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect

app = hf.App("asking")


@app.step
async def pay(cents: int) -> int:
    effect(cents)
    return cents


@app.step(completes_later=True, retry=hf.Retry(max_attempts=3, initial=1, jitter=False))
async def convert(n: int) -> int:
    effect(n)
    hf.completion_token()
    hf.complete_later()


@app.workflow
async def refund() -> list[object]:
    paid = await pay(90)
    first, second = await asyncio.gather(
        hf.ask(f"Refund {paid}?", str, to="ada", escalate={"boss": 4}, timeout=60),
        hf.ask("Why?", str, to="bob"),
    )
    return [first, second, await pay(10)]


async def run_questions(caller: Caller) -> None:
    await caller.start(refund.bind(), "refund")
    await caller.until_asked("refund", "boss")
    assert await caller.answer("refund", "ask#2", "late", by="bob")
    assert await caller.answer("refund", "ask#1", "yes", by="ada")
    assert not await caller.answer("refund", "ask#1", "no", by="boss")
    assert await caller.result("refund") == ("completed", ["yes", "late", 10])


@app.workflow
async def race() -> str:
    try:
        return await hf.ask("Quick?", str, timeout=3)
    except TimeoutError:
        await pay(1)
        return "nobody"


async def run_race(caller: Caller) -> None:
    await caller.start(race.bind(), "race")
    await caller.sleep(2.5)
    await caller.answer("race", "ask#1", "ada", by="ada")
    await caller.answer("race", "ask#1", "bob", by="bob")
    assert (await caller.result("race")).status == "completed"


def the_answer_that_was_taken_counts(world: World) -> list[str]:
    """Who was told that the answer is stored sees it used, and nobody else is told so."""
    found: list[str] = []
    for (ns, run), events in world.dump.events.items():
        living = [e for e in events if e.superseded_by is None and e.kind == "question.answered"]
        used = {(run, e.key, answer_in(e.payload or b"")[0]) for e in living}
        taken = {each for each in world.told.answers if each[0] == run}
        if ns == "default" and not taken <= used:
            found.append(f"{taken} were told that theirs counts, and {used} counted")
    return found


@app.workflow
async def conversion() -> int:
    return await convert(4) + await pay(1)


async def run_completion(caller: Caller) -> None:
    await caller.start(conversion.bind(), "convert")
    if (await caller.row("convert")).inbox_seq == 0:
        await caller.complete("convert", "convert#1", None, failing="OutOfPaper")
    while not await caller.complete("convert", "convert#1", 41):
        await caller.sleep(0.5)
    assert await caller.result("convert") == ("completed", 42)


async def run_cancelled_question(caller: Caller) -> None:
    await caller.start(race.bind(), "cancelled")
    await caller.sleep(0.5)
    await caller.cancel("cancelled")
    await caller.answer("cancelled", "ask#1", "ada", by="ada")
    assert (await caller.result("cancelled")).status in ("was cancelled", "completed")


ASKING = (
    Scenario("questions", app, run_questions, apart=True, workers=2,
             check=the_answer_that_was_taken_counts),
    Scenario("question-race", app, run_race, either=True, check=the_answer_that_was_taken_counts),
    Scenario("question-cancelled", app, run_cancelled_question, either=True),
    Scenario("completion", app, run_completion, apart=True, workers=2),
)  # fmt: skip
