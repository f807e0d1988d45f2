"""Time, chance and identity are given, and only in a body."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.errors import InvalidDuration, NotInBody
from holdfast.machine import combine, primitives
from holdfast.machine.machine import Machine, current
from holdfast.machine.signals import Signal
from holdfast.machine.values import Signature
from holdfast.model.events import Event
from tests.machine.driver import SECOND, START, Driver, work

hf = primitives


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (hf.now, "hf.now()"),
        (hf.random, "hf.random()"),
        (hf.uuid, "hf.uuid()"),
        (lambda: hf.sleep(1), "hf.sleep()"),
        (lambda: hf.wait_for(Signal("x", int)).send(None), "hf.wait_for()"),
        (lambda: combine.as_completed([]), "hf.as_completed()"),
        (lambda: combine.wait([]).send(None), "hf.wait()"),
    ],
)
def test_outside_of_a_body_primitives_say_so(call: Callable[[], Any], name: str) -> None:
    assert current() is None
    with pytest.raises(NotInBody) as caught:
        call()
    assert caught.value.call == name


def test_now_is_the_time_of_the_event() -> None:
    async def body() -> list[datetime]:
        first = hf.now()
        await hf.sleep(timedelta(hours=1))
        return [first, hf.now()]

    driver = Driver(body)
    driver.fire()
    start = datetime.fromtimestamp(START / SECOND, UTC)
    assert driver.result == [start, start + timedelta(hours=1)]


async def draws() -> list[str]:
    async def child() -> str:
        return f"{hf.random().random()} {hf.uuid()}"

    first = [f"{hf.random().random()}" for _ in range(2)]
    ids = [f"{hf.uuid()}" for _ in range(2)]
    return [*first, *ids, *await asyncio.gather(child(), child())]


def drawn(**identity: Any) -> list[str]:
    names: dict[str, Any] = {"ns": "test", "run": "run-1"} | identity
    machine = Machine(draws, Signature.of(draws), **names)
    machine.feed(Event("run.started", at=START, payload=b"{}", seq=1))
    assert machine.ended is not None
    result: list[str] = machine.signature.result.decode(machine.ended.payload or b"", where="x")
    machine.close()
    return result


def test_chance_is_a_function_of_run_path_and_use() -> None:
    first = drawn()
    assert first == drawn()
    assert len(set(first)) == len(first)
    others = [drawn(run="run-2"), drawn(ns="other")]
    assert not {*first} & {text for other in others for text in other}


def test_drawn_values_never_change_between_releases() -> None:
    assert drawn()[0] == PINNED_RANDOM
    assert drawn()[2] == PINNED_UUID


PINNED_RANDOM = "0.6122402280627482"
PINNED_UUID = "2bacf443-cb69-4280-b57a-6d11b3459266"


@pytest.mark.parametrize("duration", [-1, float("nan"), float("inf"), "5", True])
def test_a_sleep_needs_a_duration(duration: Any) -> None:
    async def body() -> str:
        try:
            await hf.sleep(duration)
        except InvalidDuration as error:
            return str(error.field)
        return "slept"

    assert Driver(body).result == "hf.sleep"


def test_a_sleep_of_nothing_is_no_timer() -> None:
    async def body() -> str:
        await hf.sleep(0)
        await asyncio.sleep(0)
        return "here"

    driver = Driver(body)
    assert driver.result == "here"
    assert len(driver.history) == 1


def test_a_sleep_begins_when_it_is_awaited() -> None:
    async def body() -> None:
        nap = hf.sleep(10)
        await work()
        await nap

    driver = Driver(body)
    assert driver.machine.next_timer() is None
    driver.at += 5 * SECOND
    driver.complete("work#1")
    assert driver.machine.next_timer() == (START + 15 * SECOND, "timer#1")


def test_the_loops_clock_counts_from_the_start() -> None:
    async def body() -> list[float]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        await asyncio.sleep(0.000_001)
        await asyncio.sleep(1.5)
        return [*times, loop.time()]

    driver = Driver(body)
    driver.finish()
    assert driver.result == [0.0, 1.500_001]
