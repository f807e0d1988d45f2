"""Questions and steps that others complete, where runs begin anew, end early, or move."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.machine import Machine
from holdfast.model.commands import ImportRun
from holdfast.testing import replay, virtual
from holdfast.testing.advising import advice
from tests.engine.places import Place, kinds, status_of, until, within

TOKENS: list[str] = []


async def is_open(client: hf.Client, run: str, key: str = "ask#1") -> bool:
    return key in [each.key for each in (await client.questions(run=run)).questions]


async def test_a_rerun_asks_anew(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> list[str]:
        return [await hf.ask("a?", str), await hf.ask("b?", str)]

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        for key in ("ask#1", "ask#2"):
            await until(lambda key=key: is_open(client, "r", key))  # type: ignore[misc]
            await run.answer(key, f"first {key}")
        assert await within(run.result()) == ["first ask#1", "first ask#2"]
        await run.rerun("ask#2")
        await until(lambda: is_open(client, "r", "ask#2"))
        with pytest.raises(hf.AnswerRefused, match="somebody gave one"):
            await run.answer("ask#1", "again")
        await run.answer("ask#2", "second")
        assert await within(run.result()) == ["first ask#1", "second"]


async def test_a_rerun_of_an_open_run_leaves_its_questions_to_be_answered(
    place: Place, app: hf.App
) -> None:
    @app.step
    async def look() -> int:
        return 1

    @app.workflow
    async def flow() -> list[Any]:
        return [*await asyncio.gather(hf.ask("a?", str), look()), await hf.ask("b?", str)]

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await status_of(run, "waiting")
        await run.rerun("look#1")
        assert (await run.describe()).generation == 2
        await status_of(run, "waiting")
        await until(lambda: is_open(client, "r"))
        await run.answer("ask#1", "yes")
        await until(lambda: is_open(client, "r", "ask#2"))
        await run.answer("ask#2", "too")
        assert await within(run.result()) == ["yes", 1, "too"]


async def test_the_next_generation_asks_for_itself(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow(n: int = 1) -> list[Any]:
        left = asyncio.ensure_future(hf.ask(f"{n}?", int, name="left"))
        answer = await hf.ask(f"{n}?", int)
        if n == 1:
            return hf.continue_as_new(flow.bind(2))
        return [n, answer, await left]

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await until(lambda: is_open(client, "r", "left#1"))
        [_, first] = sorted((await client.questions()).questions)
        await run.answer("ask#1", 1)
        await until(lambda: is_open(client, "r"))
        [_, second] = sorted((await client.questions()).questions)
        assert (first.question, second.question) == ("1?", "2?")
        await run.answer("left#1", 7)
        await run.answer("ask#1", 2)
        assert await within(run.result()) == [2, 2, 7]


async def test_a_refusal_undoes_what_was_done(place: Place, app: hf.App) -> None:
    done: list[str] = []

    @app.step
    async def charge() -> int:
        done.append("charge")
        return 1

    @app.step
    async def refund(paid: int | None) -> None:
        done.append(f"refund {paid}")

    @app.workflow
    async def flow() -> None:
        async with hf.saga() as saga:
            await saga.do(charge(), undo=refund)
            if not await hf.ask("ok?"):
                raise ValueError("refused")

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await until(lambda: is_open(client, "r"))
        await run.answer("ask#1", False)
        with pytest.raises(hf.RunFailed, match="refused"):
            await within(run.result())
        assert done == ["charge", "refund 1"]


async def test_a_handler_may_ask_too(place: Place, app: hf.App) -> None:
    raise_limit = hf.Update("raise_limit", int, bool)

    @app.workflow
    async def flow() -> None:
        async def handler(limit: int) -> bool:
            return await hf.ask(f"{limit}?")

        hf.handle(raise_limit, handler)
        await hf.wait_for(hf.Signal("stop", int))
        await hf.handlers_finished()

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        update = await within(run.update(raise_limit, 5, wait="accepted"))
        await until(lambda: _any(client))
        [question] = (await client.questions()).questions
        assert question.question == "5?"
        await run.answer(question.key, True)
        assert await within(update.result()) is True
        await run.signal("stop", 1)
        await within(run.result())


async def _any(client: hf.Client) -> bool:
    return bool((await client.questions()).questions)


async def test_a_child_that_its_parent_ends_asks_no_more(place: Place, app: hf.App) -> None:
    @app.workflow
    async def child() -> bool:
        return await hf.ask("ok?")

    @app.workflow
    async def parent() -> None:
        await hf.start_child(child.bind(), id="child")
        await hf.wait_for(hf.Signal("stop", int))

    async with place.open(app) as client:
        run = await client.start(parent.bind(), id="parent")
        await until(lambda: is_open(client, "child"))
        await run.signal("stop", 1)
        await within(run.result())
        await status_of(client.get("child"), "terminated")
        assert not await _any(client)
        with pytest.raises(hf.AnswerRefused, match="the run was terminated"):
            await client.get("child").answer("ask#1", True)


async def test_an_imported_run_asks_and_defers_anew(
    place: Place, app: hf.App, tmp_path: Path
) -> None:
    @app.step(completes_later=True)
    async def convert() -> int:
        TOKENS.append(hf.completion_token())
        hf.complete_later()

    @app.workflow
    async def flow() -> list[Any]:
        return list(await asyncio.gather(hf.ask("ok?", str), convert()))

    TOKENS.clear()
    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await status_of(run, "waiting")
        engine = client.engine
        export = await engine.export("r")
    (tmp_path / "other").mkdir()
    async with Place("sqlite", tmp_path / "other").open(app) as client:
        await client.engine.do(ImportRun("default", "copy", export, client.engine.store.now()))
        copy = client.get("copy", flow)
        assert (await copy.describe()).status == "paused"
        assert not await _any(client)
        await copy.resume()
        await until(lambda: is_open(client, "copy"))
        await until(lambda: len(TOKENS) == 2)
        with pytest.raises(hf.RunNotFound):
            await client.complete(TOKENS[0], 1)
        await copy.answer("ask#1", "yes")
        await client.complete(TOKENS[1], 7)
        assert await within(copy.result()) == ["yes", 7]
        assert "run.paused" in await kinds(copy)


def test_a_run_past_its_deadline_says_which_answer_it_waited_for(app: hf.App) -> None:
    @app.workflow(timeout=3_600)
    async def flow() -> bool:
        return await hf.ask("ok?")

    async def story(client: hf.Client) -> str:
        run = await client.start(flow.bind(), id="r")
        with pytest.raises(hf.RunTimedOut) as caught:
            await run.result()
        with pytest.raises(hf.AnswerRefused, match="the run is timed out"):
            await run.answer("ask#1", True)
        return caught.value.message

    assert "it waited for an answer to ask#1" in virtual.run(app, story)


async def test_a_replay_tells_what_is_asked_and_what_to_write(place: Place) -> None:
    def made(words: str) -> tuple[hf.App, hf.Workflow[[], bool]]:
        app = hf.App("engine-tests")

        @app.workflow
        async def flow() -> bool:
            if words:
                await hf.ask(words)
            return await hf.ask("sure?", name="sure")

        return app, flow

    app, flow = made("ok?")
    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        await until(lambda: is_open(client, "r"))
        await run.answer("ask#1", True)
        await until(lambda: is_open(client, "r", "sure#1"))
        history = await run.history()
    found = replay(flow, history)
    assert found.questions == ("sure#1",)
    assert str(found) == "waits for an answer to sure#1"
    for words, told in (("Okay?", "in other words"), ("", "have an answer to ask#1")):
        changed = Machine(made(words)[1].function, flow.signature, ns="default", run="r")
        with pytest.raises(hf.ReplayMismatch) as caught:
            changed.feed_all(history.events)
        assert told in advice(caught.value, changed, history.events)[0]
        changed.close()


async def test_a_run_that_is_ended_because_its_code_does_not_fit_asks_no_more(place: Place) -> None:
    app, other = hf.App("engine-tests"), hf.App("engine-tests")

    @app.step
    async def look() -> int:
        return 1

    @app.workflow(timeout=3)
    async def flow() -> bool:
        return await look() == 1 and await hf.ask("ok?")

    @other.workflow(name="flow")
    async def changed() -> bool:
        return await hf.ask("ok?")

    async with place.open(app, keep=0) as client:
        run = await client.start(flow.bind(), id="r")
        await status_of(run, "waiting")
    async with place.open(other, worker=False) as client:
        due = (await client.get("r").describe()).deadline or 0
        await until(lambda: client.engine.store.now() > due)
    # The check of every turn by a second machine would stumble over the same misfit.
    async with place.open(other, paranoid=False) as client:
        await status_of(client.get("r"), "timed_out")
        with pytest.raises(hf.AnswerRefused, match="the run is timed out"):
            await client.get("r").answer("ask#1", True)
