"""Random sagas, answered, failed and cancelled at random, retried until nothing is owed.

Whatever happens: what a block did before it failed is undone once, the last first, and what a block
did that ended well is not undone at all. Every step on the way is also replayed from the start.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import holdfast as hf
from holdfast.machine.paranoid import check_replay, twin_of
from holdfast.machine.tasks import key_of
from holdfast.model.events import Event
from holdfast.model.keys import undone_by
from tests.machine.driver import Driver, Step, pack, work

RUNS = 400
Block = list[str]


@Step
def undo_work(result: int | None) -> None: ...


class Told:
    """What blocks did and how they ended, as the last replay tells it."""

    failed: list[Block] = []  # noqa: RUF012 - one for the process, emptied before each replay


def program(chance: Random, depth: int = 3) -> Any:
    """Return a tree of calls, gathers, and sagas inside sagas, some of which are caught."""
    kinds = ["do", "do", "gather", "step", "raise"] + ["saga", "caught", "branches"] * (depth > 0)
    tree = []
    for _ in range(chance.randint(1, 3)):
        kind = chance.choice(kinds)
        inner = kind in ("saga", "caught", "branches")
        tree.append((kind, program(chance, depth - 1) if inner else chance.randint(1, 3)))
    return tree


def body_of(tree: Any) -> Callable[[], Any]:
    async def body() -> None:
        await block(tree)

    return body


async def block(tree: Any) -> None:
    did: Block = []
    try:
        async with hf.saga() as saga:
            for kind, what in tree:
                await one(saga, did, kind, what)
    except BaseException:
        Told.failed.append(did)
        raise


async def one(saga: hf.Saga, did: Block, kind: str, what: Any) -> None:
    match kind:
        case "do":
            await call(saga, did)
        case "gather":
            await asyncio.gather(*(call(saga, did) for _ in range(what)))
        case "step":
            await pack()
        case "raise" if what == 3:
            raise ValueError
        case "saga":
            await block(what)
        case "branches":
            async with asyncio.TaskGroup() as group:
                group.create_task(block(what))
                group.create_task(block(what))
        case "caught":
            try:
                await block(what)
            except Exception:
                await pack()
        case _:
            pass


async def call(saga: hf.Saga, did: Block) -> None:
    made = work()
    did.append(key_of(made))
    await saga.do(made, undo=undo_work)


def answer(driver: Driver, chance: Random) -> None:
    asks = driver.machine.asks
    assert not [key for key in asks for done in undone_by(key) if done in asks], "not yet ended"
    key = chance.choice([*asks])
    drawn = chance.random()
    if drawn < 0.04:
        driver.cancel()
    elif drawn < 0.25:
        driver.fail(key)
    else:
        driver.complete(key, None if "undo_work" in key else 1)


def retry(driver: Driver) -> None:
    driver.machine.close()
    seq = len(driver.history) + 1
    driver.history.append(Event("run.reopened", driver.at, "compensation", seq=seq))
    driver.machine = twin_of(driver.machine)
    driver.machine.feed_all(driver.history)
    check_replay(driver.machine, driver.history)


def lived(driver: Driver, chance: Random) -> str:
    """Let the run come to an end at which nothing is owed; return its status."""
    while True:
        while driver.machine.ended is None:
            answer(driver, chance)
        if driver.machine.ended.status != "compensation_failed":
            return driver.machine.ended.status
        retry(driver)


@pytest.mark.parametrize("seed", range(8))
def test_what_failed_is_undone_once_the_last_first_and_nothing_else_is(seed: int) -> None:
    statuses: set[str] = set()
    for number in range(RUNS // 8):
        chance = Random(f"{seed} {number}")
        tree = program(chance)
        driver = Driver(body_of(tree), paranoid=number % 4 == 0)
        statuses.add(lived(driver, chance))
        Told.failed = []
        check_replay(driver.machine, driver.history)
        asked = [done for key in driver.given for done in undone_by(key)]
        done = [e.key for e in driver.history if e.kind == "step.completed"]
        undone = [each for key in done for each in undone_by(key)]
        where = f"seed {seed}, number {number}: {tree}"
        assert sorted(undone) == sorted(key for did in Told.failed for key in did), where
        for did in Told.failed:
            first = [key for key in dict.fromkeys(asked) if key in did]
            assert first == did[::-1], where
        driver.machine.close()
    assert {"completed", "failed"} <= statuses
