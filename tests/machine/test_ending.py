"""How bodies end: result, failure, cancel; and what is left over then."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import StepFailed
from holdfast.model.asks import Ended
from tests.machine.driver import Driver, Step, pack, ship, work


class CardDeclined(Exception):
    pass


def _charge() -> None: ...


charge = Step(_charge, raises=CardDeclined)


def ended(driver: Driver) -> Ended:
    assert driver.machine.ended is not None
    return driver.machine.ended


def test_a_result_is_encoded_by_its_annotation() -> None:
    async def body(n: int) -> list[int]:
        return [n, await work(n)]

    driver = Driver(body, 4)
    turn = driver.complete("work#1", 5)
    assert turn.ended == Ended("completed", b"[4,5]")


def test_a_result_that_would_come_back_different_fails_the_run() -> None:
    async def body() -> Any:
        return (1, 2)

    failure = ended(Driver(body)).failure
    assert failure is not None
    assert failure.type == "UnserialisableResult"


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError("x")]
)
def test_any_error_out_of_a_body_fails_the_run(error: BaseException) -> None:
    async def body() -> None:
        await work()
        raise error

    driver = Driver(body)
    driver.complete("work#1")
    assert ended(driver).status == "failed"
    failure = ended(driver).failure
    assert failure is not None
    assert failure.type == type(error).__name__


async def plain_failure() -> None:
    await work()


async def wrapped() -> None:
    try:
        await work()
    except StepFailed as error:
        raise ValueError("wrapped") from error


async def in_the_context() -> None:
    try:
        await work()
    except StepFailed:
        raise ValueError("another") from None


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(work())


async def after_another() -> None:
    try:
        await work()
    except StepFailed:
        await pack()


@pytest.mark.parametrize(
    ("body", "causes"),
    [
        (plain_failure, ("work#1",)),
        (wrapped, ("work#1",)),
        (in_the_context, ("work#1",)),
        (in_a_group, ("work#1",)),
        (after_another, ("pack#1", "work#1")),
    ],
)
def test_a_failure_names_the_steps_it_came_from(
    body: Callable[..., Any], causes: tuple[str, ...]
) -> None:
    driver = Driver(body)
    while not driver.machine.ended:
        driver.fail(next(iter(driver.machine.asks)))
    failure = ended(driver).failure
    assert failure is not None
    assert failure.cause == causes


def test_a_class_that_crosses_as_itself_names_its_step_too() -> None:
    async def body() -> None:
        await charge()

    driver = Driver(body)
    driver.fail("_charge#1", type="CardDeclined")
    failure = ended(driver).failure
    assert failure is not None
    assert (failure.type, failure.cause) == ("CardDeclined", ("_charge#1",))


def test_a_body_may_catch_a_failed_step() -> None:
    async def body() -> str:
        try:
            await work()
        except StepFailed as error:
            return f"{error.step} {error.type} {error.message}"
        return "fine"

    driver = Driver(body)
    driver.fail("work#1", type="Boom", message="no")
    assert driver.result == "work#1 Boom no"


# --- cancel


async def cleans_up() -> None:
    try:
        await work()
    finally:
        await pack()


def test_cancel_lets_the_body_clean_up() -> None:
    driver = Driver(cleans_up)
    turn = driver.cancel()
    assert (turn.dropped, [ask.key for ask in turn.asks]) == (["work#1"], ["pack#1"])
    driver.complete("pack#1")
    assert ended(driver) == Ended("cancelled")


def test_a_second_cancel_does_nothing() -> None:
    driver = Driver(cleans_up)
    driver.cancel()
    driver.cancel()
    assert driver.waits == ["pack#1"]


def test_a_body_that_swallows_the_cancel_is_completed() -> None:
    async def body() -> str:
        try:
            await work()
        except asyncio.CancelledError:
            return "swallowed"
        return "not cancelled"

    driver = Driver(body)
    driver.cancel()
    assert driver.result == "swallowed"


def test_a_shielded_step_goes_on() -> None:
    async def body() -> int:
        task = asyncio.ensure_future(work())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            return await task

    driver = Driver(body)
    turn = driver.cancel()
    assert (turn.dropped, driver.waits) == ([], ["work#1"])
    driver.complete("work#1", 3)
    assert driver.result == 3


def test_a_cancelled_child_fails_a_run_nobody_cancelled() -> None:
    async def body() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        task.cancel()
        await task

    failure = ended(Driver(body)).failure
    assert failure is not None
    assert failure.type == "CancelledError"


def test_an_ask_that_was_never_given_out_is_not_dropped() -> None:
    async def body() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        task.cancel()
        await ship()

    driver = Driver(body)
    assert driver.given == ["ship#1"]
    assert driver.waits == ["ship#1"]


# --- what is left over


def test_left_over_tasks_are_cancelled_and_named() -> None:
    seen = list[str]()

    async def background(n: int) -> None:
        try:
            await work(n)
        except asyncio.CancelledError:
            seen.append(f"cancelled {n}")
            raise

    async def body() -> str:
        tasks = [asyncio.create_task(background(n)) for n in range(2)]
        tasks.append(asyncio.create_task(pack()))
        await ship()
        return "done"

    driver = Driver(body, paranoid=False)
    turn = driver.complete("ship#1")
    assert turn.ended is not None
    assert turn.ended.leftovers == ("background[1]", "background[2]", "pack#1")
    assert seen == ["cancelled 1", "cancelled 0"]
    assert turn.dropped == ["pack#1", "background[2]/work#1", "background[1]/work#1"]
    assert driver.waits == []


def test_messages_to_an_ended_body_are_ignored() -> None:
    async def body() -> None: ...

    driver = Driver(body)
    driver.cancel()
    driver.signal("go", b"1")
    assert ended(driver).status == "completed"
    driver.machine.close()


# --- stuck


def test_a_body_that_waits_for_nothing_is_stuck() -> None:
    async def helper(event: asyncio.Event) -> None:
        await event.wait()

    async def body() -> None:
        await work()
        await helper(asyncio.Event())

    driver = Driver(body)
    assert not driver.machine.is_stuck()
    driver.complete("work#1")
    assert driver.machine.is_stuck()
    line = helper.__code__.co_firstlineno + 1
    assert driver.machine.source() == f"test_ending.py:{line} in helper"
    driver.machine.close()
    assert not driver.machine.is_stuck()
