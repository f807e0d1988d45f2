"""Keys are names: the task's path, the step's name and a count in that task."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.machine import primitives as hf
from holdfast.machine.signals import Signal
from tests.machine.driver import Driver, pack, ship, work

go = Signal("go", int)


async def deliver(n: int) -> int:
    await work(n)
    return await pack(n)


async def outer(n: int) -> int:
    async with asyncio.TaskGroup() as group:
        group.create_task(deliver(n))
    return n


async def one_after_the_other() -> None:
    await work()
    await ship()
    await work()


async def taken_at_the_call() -> None:
    second_first = (work(1), work(2))
    await second_first[1]
    await second_first[0]


async def gather_of_steps() -> None:
    await asyncio.gather(work(1), asyncio.shield(work(2)), asyncio.create_task(ship(3)))


async def gather_of_coroutines() -> None:
    await asyncio.gather(deliver(1), deliver(2))


async def names_do_not_count() -> None:
    await asyncio.gather(
        asyncio.create_task(deliver(1), name="anything"),
        asyncio.create_task(outer(2), name="else"),
        asyncio.create_task(deliver(3), name="at all"),
    )


async def wait_for_is_transparent() -> None:
    await asyncio.wait_for(work(1), 60)
    await asyncio.wait_for(deliver(1), 60)
    await work(2)


async def wait_for_in_a_child() -> None:
    async def child() -> None:
        await asyncio.wait_for(deliver(1), 60)
        await asyncio.sleep(1)

    await asyncio.gather(child())


async def sleeps() -> None:
    await asyncio.gather(hf.sleep(1), hf.sleep(2), asyncio.sleep(3))
    await asyncio.sleep(4)


async def awaited_in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(hf.sleep(1))
        group.create_task(work(1))
        group.create_task(deliver(1))


TABLE: list[tuple[Callable[..., Any], list[str]]] = [
    (one_after_the_other, ["work#1", "ship#1", "work#2"]),
    (taken_at_the_call, ["work#2", "work#1"]),
    (gather_of_steps, ["work#2", "ship#1", "work#1"]),  # gather makes its task last
    (
        gather_of_coroutines,
        ["deliver[1]/work#1", "deliver[2]/work#1", "deliver[1]/pack#1", "deliver[2]/pack#1"],
    ),
    (
        names_do_not_count,
        [
            "deliver[1]/work#1",
            "deliver[2]/work#1",
            "outer[1]/deliver[1]/work#1",
            "deliver[1]/pack#1",
            "deliver[2]/pack#1",
            "outer[1]/deliver[1]/pack#1",
        ],
    ),
    (wait_for_is_transparent, ["work#1", "work#2", "pack#1", "work#3"]),
    (wait_for_in_a_child, ["child[1]/work#1", "child[1]/pack#1", "child[1]/timer#2"]),
    (sleeps, ["timer#1", "timer#2", "sleep[1]/timer#1", "timer#3"]),
    (awaited_in_a_group, ["work#1", "deliver[1]/work#1", "deliver[1]/pack#1", "timer#1"]),
]


@pytest.mark.parametrize(("body", "keys"), TABLE, ids=[body.__name__ for body, _ in TABLE])
def test_keys_come_from_names(body: Callable[..., Any], keys: list[str]) -> None:
    driver = Driver(body)
    driver.finish()
    assert driver.result is None
    assert [event.key for event in driver.history[1:]] == keys


def test_a_branch_keeps_its_keys_when_others_move() -> None:
    async def body(others: int) -> None:
        await asyncio.gather(*(work(n) for n in range(others)), deliver(1))

    assert "deliver[1]/work#1" in Driver(body, 0).given
    assert "deliver[1]/work#1" in Driver(body, 5).given


def test_a_call_that_cannot_be_stored_takes_no_key() -> None:
    async def body() -> None:
        try:
            await work("no number")
        except Exception:
            await work(1)

    assert Driver(body).given == ["work#1"]


def test_an_ask_knows_when_it_was_asked() -> None:
    driver = Driver(one_after_the_other)
    driver.at += 5
    turn = driver.complete("work#1")
    (ask,) = turn.asks
    assert (ask.key, ask.asked_seq, ask.asked_at) == ("ship#1", 2, driver.at)
    assert ask.args == b'{"x":0}'
    assert ask.step is ship
