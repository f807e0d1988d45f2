"""Questions in a body: their keys, their timers, and what replay makes of their answers."""

import asyncio
from typing import Any, Literal

import pytest

import holdfast as hf
from holdfast.errors import ReplayMismatch, Undecodable
from holdfast.machine.questions import Question
from holdfast.model.waits import answered
from tests.machine.driver import SECOND, Driver, replay


def question(driver: Driver, key: str) -> Question:
    assert driver.machine.outside is not None
    return driver.machine.outside.questions[key]


def answer(driver: Driver, key: str, value: bytes) -> None:
    asked = question(driver, key)
    payload = answered("ada", value)
    driver.add("question.answered", key, payload=payload, digest=asked.digest)


def test_an_answer_reaches_whoever_asked() -> None:
    async def body() -> list[Any]:
        both = await asyncio.gather(hf.ask("a?", int), hf.ask("b?", str, name="b"))
        return [*both, await hf.ask("c?")]

    driver = Driver(body)
    assert driver.machine.awaited_answers() == ("ask#1", "b#1")
    assert not driver.machine.is_stuck()
    answer(driver, "b#1", b'"x"')
    answer(driver, "ask#1", b"7")
    answer(driver, "ask#2", b"true")
    assert driver.result == [7, "x", True]


def test_timers_have_keys_of_their_own() -> None:
    async def body() -> str:
        await hf.ask("?", escalate={"boss": 20, "board": 40}, timeout=60, default=False)
        await hf.sleep(1)
        return "slept"

    driver = Driver(body)
    keys = ["ask#1/escalate#1", "ask#1/escalate#2", "ask#1/timeout"]
    assert driver.waits == keys
    assert question(driver, "ask#1").to == ()
    driver.fire()
    assert question(driver, "ask#1").to == ("boss",)
    driver.fire()
    assert question(driver, "ask#1").to == ("boss", "board")
    driver.fire()
    assert driver.waits == ["timer#1"]
    driver.fire()
    assert driver.result == "slept"


def test_an_answer_leaves_no_timer_behind() -> None:
    async def body() -> bool:
        return await hf.ask("?", escalate={"boss": 20}, timeout=60)

    driver = Driver(body)
    answer(driver, "ask#1", b"true")
    assert driver.result is True
    assert driver.machine.next_timer() is None


def test_other_words_do_not_fit_a_recorded_answer() -> None:
    asked = "Refund 90?"

    async def body() -> bool:
        return await hf.ask(asked)

    driver = Driver(body, paranoid=False)
    answer(driver, "ask#1", b"true")
    asked = "Refund 900?"
    with pytest.raises(
        ReplayMismatch, match="answer to ask#1, and the code now asks ask#1 in other"
    ):
        replay(driver)


def test_another_type_may_read_a_recorded_answer() -> None:
    kind: Any = bool

    async def body() -> Any:
        return await hf.ask("?", kind)

    driver = Driver(body, paranoid=False)
    answer(driver, "ask#1", b"true")
    kind = Literal[True, "later"]
    assert replay(driver).ended is not None
    kind = int
    with pytest.raises(Undecodable, match="the answer to ask#1"):
        replay(driver)


def test_an_answer_that_nobody_waits_for_does_not_fit() -> None:
    async def body() -> None:
        await hf.sleep(5)

    driver = Driver(body, paranoid=False)
    with pytest.raises(ReplayMismatch, match="the answer to ask#1"):
        driver.add("question.answered", "ask#1", payload=answered("", b"true"))


def test_a_question_that_is_given_up_is_no_longer_open() -> None:
    async def body() -> str:
        try:
            async with asyncio.timeout(5):
                await hf.ask("?")
        except TimeoutError:
            pass
        return await hf.ask("again?", str)

    driver = Driver(body)
    driver.fire()
    assert driver.machine.awaited_answers() == ("ask#2",)
    assert question(driver, "ask#2").asked_at == driver.at
    assert driver.at % SECOND == 0


def test_a_question_that_is_not_awaited_is_named() -> None:
    async def body() -> None:
        hf.ask("?")  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]

    driver = Driver(body)
    assert driver.machine.unawaited == ("ask#1",)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"question": ""}, "is no question"),
        ({"question": 5}, "is no question"),
        ({"question": "x" * 4_001}, "4,001 characters, and the limit is 4,000"),
        ({"name": "a b"}, "is no name"),
        ({"to": "a\nb"}, "cannot be printed"),
        ({"to": ["a" * 256]}, "256 characters"),
        ({"to": [7]}, "is no text"),
        ({"details": object()}, "object"),
        ({"details": "x" * 70_000}, "the limit is 65,536"),
        ({"timeout": -1}, "no usable duration"),
        ({"escalate": [("boss", 5)]}, "is no mapping"),
        ({"escalate": {"boss": "soon"}}, "no usable duration"),
        ({"escalate": {"": 5}}, "0 characters"),
        ({"default": True}, "a default and no timeout"),
        ({"answer": object()}, "cannot be stored as JSON"),
    ],
)
def test_what_cannot_be_asked_is_refused(given: dict[str, Any], told: str) -> None:
    async def body() -> None:
        asked: Any = {"question": "ok?", "answer": bool, **given}
        await hf.ask(**asked)

    driver = Driver(body)
    ended = driver.machine.ended
    assert ended is not None
    assert ended.failure is not None
    assert told in ended.failure.message
    assert driver.machine.awaited_answers() == ()


def test_questions_are_asked_in_bodies_only() -> None:
    with pytest.raises(hf.NotInBody):
        hf.ask("?")  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
