"""Signals wait for the body, and the body for signals; none is lost."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast.errors import InvalidName
from holdfast.machine import primitives as hf
from holdfast.machine.signals import Signal
from tests.machine.driver import Driver, work


class Approval(BaseModel):
    by: str


approved = Signal("approved", Approval)
number = Signal("number", int)


async def one() -> str:
    return (await hf.wait_for(approved)).by


async def numbers(count: int) -> list[int]:
    await work()
    return [await hf.wait_for(number) for _ in range(count)]


@pytest.mark.parametrize("name", ["", "a/b", "x" * 256, "a\nb", ".hidden"])
def test_a_name_that_cannot_be_stored_is_refused(name: str) -> None:
    with pytest.raises(InvalidName, match="signal name"):
        Signal(name, int)


def test_a_signal_carries_a_typed_value() -> None:
    driver = Driver(one)
    assert driver.machine.awaited_signals() == ("approved",)
    driver.signal("approved", b'{"by":"Ada"}')
    assert driver.result == "Ada"


def test_signals_that_came_before_are_kept_in_order() -> None:
    driver = Driver(numbers, 3)
    driver.signal("number", b"1")
    driver.signal("number", b"2")
    driver.complete("work#1")
    driver.signal("number", b"3")
    assert driver.result == [1, 2, 3]


def test_waiters_are_served_in_order() -> None:
    async def body() -> list[int]:
        waits = [hf.wait_for(number) for _ in range(3)]
        return await asyncio.gather(*waits)

    driver = Driver(body)
    for n in (b"7", b"8", b"9"):
        driver.signal("number", n)
    assert driver.result == [7, 8, 9]


@pytest.mark.parametrize("is_late", [True, False])
def test_what_does_not_decode_is_dropped_with_a_warning(is_late: bool) -> None:
    driver = Driver(numbers, 1)
    if is_late:
        driver.complete("work#1")
    driver.signal("number", b'"x"')
    if not is_late:
        driver.complete("work#1")
    assert driver.waits == ["number"]
    (warning,) = driver.machine.warnings
    assert warning.startswith("signal number (message m")
    assert "was dropped: " in warning
    driver.signal("number", b"4")
    assert driver.result == [4]


async def patient() -> str:
    try:
        return str(await hf.wait_for(number, timeout=60))
    except TimeoutError:
        return f"late, then {await hf.wait_for(number)}"


def test_waiting_ends_with_the_time() -> None:
    driver = Driver(patient)
    assert driver.waits == ["timer#1", "number"]
    driver.fire()
    assert driver.waits == ["number"]
    driver.signal("number", b"5")
    assert driver.result == "late, then 5"


def test_a_signal_in_time_cancels_the_timer() -> None:
    driver = Driver(patient)
    driver.signal("number", b"5")
    assert driver.result == "5"
    assert driver.machine.next_timer() is None


def test_no_time_at_all_takes_what_is_there() -> None:
    async def body() -> list[Any]:
        seen: list[Any] = []
        for _ in range(2):
            await work()
            try:
                seen.append(await hf.wait_for(number, timeout=0))
            except TimeoutError:
                seen.append("none")
        return seen

    driver = Driver(body)
    driver.complete("work#1")
    driver.signal("number", b"5")
    driver.complete("work#2")
    assert driver.result == ["none", 5]


def test_cancelling_a_waiter_that_was_served_gives_the_signal_to_the_next() -> None:
    async def body() -> list[int]:
        gate = asyncio.Event()

        async def canceller(victim: asyncio.Task[int]) -> None:
            await hf.wait_for(number)
            victim.cancel()

        async def victim() -> int:
            await gate.wait()
            return await hf.wait_for(number)

        target = asyncio.create_task(victim())
        killer = asyncio.create_task(canceller(target))
        await asyncio.sleep(0)
        gate.set()
        await killer
        return [await hf.wait_for(number)]

    driver = Driver(body)
    driver.signal("number", b"1")
    driver.signal("number", b"2")
    assert driver.result == [2]


def test_a_waiter_cancelled_right_after_it_was_served_gives_back_to_the_front() -> None:
    async def body() -> list[int]:
        first = asyncio.create_task(hf.wait_for(number))
        await work()
        # `first` is served by the mailbox here, but has not woken when it is cancelled.
        mailbox = hf.here("test").mailbox
        from holdfast.machine.signals import Letter

        mailbox.put("number", Letter("a", b"1"))
        mailbox.put("number", Letter("b", b"2"))
        first.cancel()
        try:
            await first
        except asyncio.CancelledError:
            return [await hf.wait_for(number), await hf.wait_for(number)]
        return []

    driver = Driver(body)
    driver.complete("work#1")
    assert driver.result == [1, 2]
