"""Questions on every store: typed, answered once, timed out, escalated."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Literal

import pytest

import holdfast as hf
from holdfast.testing import virtual
from tests.engine.places import Place, history_when, status_of, until, within, worker_of

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class Decision(Enum):
    YES = "yes"
    NO = "no"


@dataclass
class Verdict:
    ok: bool
    why: str = ""


async def asked(client: hf.Client, count: int = 1, **wanted: Any) -> list[hf.OpenQuestion]:
    """Return the open questions once there are so many."""
    found: list[hf.OpenQuestion] = []

    async def look() -> bool:
        found[:] = (await client.questions(**wanted)).questions
        return len(found) == count

    await until(look)
    return found


async def test_a_question_waits_for_its_answer_and_nothing_before_runs_again(
    place: Place, app: hf.App
) -> None:
    charged: list[int] = []

    @app.step
    async def charge(amount: int) -> int:
        charged.append(amount)
        return amount

    @app.workflow
    async def refund(amount: int) -> str:
        paid = await charge(amount)
        decision = await hf.ask(
            f"Refund {paid} EUR to Ada?", Decision, to="finance", details={"order": 42}
        )
        return decision.value

    async with place.open(app) as client:
        run = await client.start(refund.bind(90), id="r")
        [question] = await asked(client)
        row = await status_of(run, "waiting")
        assert (row.owner, row.reason) == (None, "an answer to ask#1")
        assert question[:5] == ("r", "ask#1", "Refund 90 EUR to Ada?", ("finance",), {"order": 42})
        assert question.schema["enum"] == ["yes", "no"]
        assert question.expires_at is None
    async with place.open(app, machines=0) as client:
        run = client.get("r", refund)
        assert await run.answer("ask#1", Decision.YES, by="ada")
        assert await within(run.result()) == "yes"
        assert charged == [90]
        assert (await client.questions()).questions == []
        told = [e for e in (await run.history()).events if e.key == "ask#1"]
        assert [event.kind for event in told] == ["question.asked", "question.answered"]
        assert told[-1].payload == b'{"by":"ada","value":"yes"}'


async def test_the_first_answer_counts_and_the_second_hears_who_gave_it(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def flow() -> bool:
        return await hf.ask("ok?") and await hf.ask("sure?")

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await asked(client)
        assert await run.answer("ask#1", True, by="ada")
        assert not await run.answer("ask#1", True, by="ada"), "a repeat is harmless"
        with pytest.raises(hf.AnswerRefused, match=r"ada gave one at .* UTC") as caught:
            await run.answer("ask#1", False, by="bob")
        assert caught.value.by == "ada"
        assert caught.value.at is not None
        await asked(client)
        await run.answer("ask#2", False)
        assert await within(run.result()) is False
        with pytest.raises(hf.AnswerRefused, match="somebody gave one"):
            await run.answer("ask#2", True)


async def test_what_does_not_fit_is_refused_at_the_door(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> str:
        verdict = await hf.ask("ok?", Verdict)
        level = await hf.ask("level?", Literal["low", "high"], name="level")
        return f"{verdict.ok} {verdict.why} {level}"

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await asked(client)
        wrongs: list[object] = [True, {"ok": 1}, {"why": "x"}, [], None]
        for wrong in wrongs:
            with pytest.raises(hf.InvalidValue, match="answer to ask#1"):
                await run.answer("ask#1", wrong)
        assert (await run.describe()).inbox_seq == 0
        await run.answer("ask#1", Verdict(True, "fine"))
        await asked(client)
        with pytest.raises(hf.InvalidValue, match='is not one of "low", "high"'):
            await run.answer("level#1", "middle")
        await run.answer("level#1", "high")
        assert await within(run.result()) == "True fine high"


async def test_unknown_questions_and_runs_are_told_apart(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> bool:
        return await hf.ask("ok?")

    async with place.open(app) as client:
        with pytest.raises(hf.RunNotFound):
            await client.get("nobody").answer("ask#1", True)
        run = await client.start(flow.bind(), id="r")
        await asked(client)
        with pytest.raises(hf.AnswerRefused, match="no such question; open are: ask#1"):
            await run.answer("ask#7", True)
        with pytest.raises(hf.InvalidName, match="by"):
            await run.answer("ask#1", True, by="a\nb")
        await run.terminate()
        with pytest.raises(hf.AnswerRefused, match="the run was terminated at"):
            await run.answer("ask#1", True)
        with pytest.raises(hf.RunClosed):
            await run.answer("ask#9", True)
        assert (await client.questions()).questions == []


async def test_several_questions_are_open_at_once_and_each_is_answered_on_its_own(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def flow() -> list[object]:
        async with asyncio.TaskGroup() as group:
            third = group.create_task(hf.ask("c?", str, to="carl"))
            both = await asyncio.gather(
                hf.ask("a?", int, to="ada"), hf.ask("b?", int, to=["ada", "bob"])
            )
        return [*both, third.result()]

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        found = await asked(client, 3)
        keys = {each.question: each.key for each in found}
        assert len(await asked(client, 2, to="ada")) == 2
        assert [each.key for each in await asked(client, 1, to="bob")] == [keys["b?"]]
        assert len(await asked(client, 3, run="r")) == 3
        first = await client.questions(limit=2)
        assert len(first.questions) == 2
        second = await client.questions(limit=2, after=first.next)
        assert [*first.questions, *second.questions] == found
        await run.answer(keys["c?"], "see")
        await asked(client, 2)
        await run.answer(keys["b?"], 2)
        await asked(client, 1)
        await run.answer(keys["a?"], 1)
        assert await within(run.result()) == [1, 2, "see"]


async def test_the_loser_of_a_race_can_no_longer_be_answered(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> list[str]:
        asks = [asyncio.ensure_future(hf.ask(f"{n}?", str)) for n in (1, 2)]
        done, late = await hf.wait(asks, return_when=asyncio.FIRST_COMPLETED)
        for each in late:
            each.cancel()
        return [done[0].result(), await hf.ask("and?", str)]

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await asked(client, 2)
        await run.answer("ask#2", "two")
        await until(lambda: _is_open(client, "ask#3"))
        with pytest.raises(hf.AnswerRefused, match="no longer waits for it"):
            await run.answer("ask#1", "one")
        await run.answer("ask#3", "more")
        assert await within(run.result()) == ["two", "more"]


def test_a_question_escalates_and_times_out_by_durable_timers(app: hf.App) -> None:
    seen: list[tuple[str, ...]] = []

    @app.workflow
    async def flow() -> str:
        try:
            return await hf.ask("ok?", str, to="ada", escalate={"boss": 4 * HOUR}, timeout=2 * DAY)
        except TimeoutError as error:
            return f"{error}"

    async def story(client: hf.Client) -> tuple[str, list[str]]:
        run = await client.start(flow.bind(), id="r")
        await asyncio.sleep(3 * 3_600)
        seen.append((await client.questions()).questions[0].to)
        await asyncio.sleep(2 * 3_600)
        seen.append((await client.questions(to="boss")).questions[0].to)
        told = await run.result()
        with pytest.raises(hf.AnswerRefused, match="it timed out at"):
            await run.answer("ask#1", "late")
        return told, [f"{e.kind} {e.key}" for e in (await run.history()).events]

    told, events = virtual.run(app, story)
    assert told == "nobody answered ask#1 in time"
    assert seen == [("ada",), ("ada", "boss")]
    assert events == [
        "run.started ", "question.asked ask#1", "timer.fired ask#1/escalate#1",
        "question.asked ask#1", "timer.fired ask#1/timeout", "run.completed ",
    ]  # fmt: skip


def test_a_default_stands_for_an_answer_that_does_not_come(app: hf.App) -> None:
    @app.workflow
    async def flow() -> Decision:
        return await hf.ask("ok?", Decision, timeout=DAY, default=Decision.NO)

    async def story(client: hf.Client) -> Decision:
        return await (await client.start(flow.bind())).result()

    assert virtual.run(app, story) is Decision.NO


async def test_the_boss_may_answer_as_well(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> bool:
        return await hf.ask("ok?", to="ada", escalate={"boss": 0.01}, timeout=DAY)

    async with place.open(app, keep=0) as client:
        run = await client.start(flow.bind(), id="r")
        [question] = await asked(client, 1, to="boss")
        assert question.to == ("ada", "boss")
        await run.answer("ask#1", True, by="boss")
        assert await within(run.result()) is True


async def test_a_cancel_closes_the_question(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> bool:
        try:
            return await hf.ask("ok?")
        except asyncio.CancelledError:
            await hf.ask("really stop?", name="stop")
            raise

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await asked(client)
        await run.cancel()
        await until(lambda: _is_open(client, "stop#1"))
        with pytest.raises(hf.AnswerRefused, match="no longer waits"):
            await run.answer("ask#1", True)
        await run.answer("stop#1", True)
        with pytest.raises(hf.RunCancelled):
            await within(run.result())


async def _is_open(client: hf.Client, key: str) -> bool:
    return key in [each.key for each in (await client.questions()).questions]


async def test_an_answer_to_a_paused_run_waits_for_it(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> bool:
        return await hf.ask("ok?")

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await asked(client)
        await run.pause()
        await status_of(run, "paused")
        assert await run.answer("ask#1", True)
        assert (await run.describe()).status == "paused"
        await run.resume()
        assert await within(run.result()) is True


async def test_an_answer_before_a_cancel_that_is_read_after_it_is_kept_in_sight(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def flow() -> bool:
        return await hf.ask("ok?")

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await status_of(run, "waiting")
    async with place.open(app, worker=False) as client:
        run = client.get("r")
        await run.answer("ask#1", True, by="ada")
        await run.cancel()
    async with place.open(app) as client:
        run = client.get("r")
        with pytest.raises(hf.RunCancelled):
            await within(run.result())
        loaded = await run.history()
        assert [event.kind for event in loaded.events[-3:]] == [
            "cancel.requested", "answer.unused", "run.cancelled",
        ]  # fmt: skip
        assert (
            loaded.events[-2].payload == b'{"by": "ada", "why": "the run no longer waits for it"}'
        )


async def test_an_answer_the_code_cannot_read_is_turned_down_and_asked_for_again(
    place: Place, app: hf.App
) -> None:
    from pydantic import BaseModel, field_validator

    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def is_even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("is odd")
            return n

    @app.workflow
    async def flow() -> int:
        return (await hf.ask("which?", Even)).n

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await asked(client)
        assert await run.answer("ask#1", {"n": 1}, by="ada"), "its shape is right"
        loaded = await history_when(run, lambda found: found.run.inbox_read == 1)
        assert "answer.unused" in [event.kind for event in loaded.events]
        await asked(client)
        await run.answer("ask#1", {"n": 2})
        assert await within(run.result()) == 2


async def test_an_answer_survives_that_its_run_is_blocked(place: Place) -> None:
    app, other = hf.App("engine-tests"), hf.App("engine-tests")

    @app.step
    async def look() -> int:
        return 1

    @app.workflow
    async def flow() -> bool:
        return await look() == 1 and await hf.ask("ok?")

    @other.workflow(name="flow")
    async def changed() -> bool:
        return await hf.ask("ok?")

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await status_of(run, "waiting")
    async with place.open(other, worker=False) as client:
        await client.get("r").answer("ask#1", True, by="ada")
    async with place.open(other) as client:
        await status_of(client.get("r"), "blocked")
    async with place.open(app) as client:
        run = client.get("r", flow)
        await run.retry()
        assert await within(run.result()) is True


async def test_a_retried_run_asks_anew_what_it_had_not_been_told(place: Place, app: hf.App) -> None:
    is_broken = True

    @app.step(retry=hf.Retry(max_attempts=1))
    async def check() -> int:
        if is_broken:
            raise ConnectionError("no")
        return 1

    @app.workflow
    async def flow() -> list[object]:
        first = await hf.ask("first?", int)
        return [first, *await asyncio.gather(hf.ask("second?", int), check())]

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await asked(client)
        await run.answer("ask#1", 1)
        with pytest.raises(hf.RunFailed, match="no"):
            await within(run.result())
        with pytest.raises(hf.AnswerRefused, match="the run is failed"):
            await run.answer("ask#2", 2)
        is_broken = False
        await run.retry()
        [question] = await asked(client)
        assert question.key == "ask#2"
        await run.answer("ask#2", 2)
        assert await within(run.result()) == [1, 2, 1]


def test_an_answer_that_is_there_before_the_time_out_is_recorded_counts(app: hf.App) -> None:
    @app.workflow
    async def flow() -> str:
        try:
            return await hf.ask("ok?", str, timeout=DAY)
        except TimeoutError:
            return "late"

    async def story(client: hf.Client) -> str:
        run = await client.start(flow.bind(), id="r")
        await asked(client)
        await run.pause()
        await asyncio.sleep(2 * 86_400)
        assert await run.answer("ask#1", "in time"), "no time-out is recorded of a paused run"
        await run.resume()
        return await run.result()

    assert virtual.run(app, story) == "in time"


async def test_a_parked_question_costs_no_memory_of_the_worker(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> bool:
        return await hf.ask("ok?")

    async with place.open(app, machines=1) as client:
        for n in range(5):
            await client.start(flow.bind(), id=f"r{n}")
        await asked(client, 5)
        await until(lambda: not worker_of(client).sessions)
        for n in range(5):
            await client.get(f"r{n}").answer("ask#1", True)
            assert await within(client.get(f"r{n}").result()) is True
