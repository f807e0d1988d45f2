"""The virtual loop: time that jumps, lives that end without a word."""

import asyncio

import pytest

from holdfast.testing.clock import BEGINNING
from holdfast.testing.loop import Deadlock, Life, VirtualLoop


def new_loop(seed: int | None = None) -> VirtualLoop:
    return VirtualLoop(seed=seed)  # type: ignore[abstract]


def test_a_day_passes_at_once() -> None:
    loop = new_loop()
    loop.run(asyncio.sleep(86_400))
    assert loop.time() == 86_400
    assert loop.clock() == BEGINNING + 86_400_000_000


def test_a_deadlock_names_who_waits() -> None:
    async def main() -> None:
        asyncio.current_task().set_name("the waiter")  # type: ignore[union-attr]
        await asyncio.get_running_loop().create_future()

    loop = new_loop()
    with pytest.raises(Deadlock, match="the waiter"):
        loop.run(main())
    loop.abandon()


def test_timers_go_by_time_and_then_by_age() -> None:
    seen: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for n, delay in enumerate((2, 1, 1)):
            loop.call_later(delay, seen.append, n)
        loop.call_later(1, seen.append, 9).cancel()
        await asyncio.sleep(3)

    new_loop().run(main())
    assert seen == [1, 2, 0]


async def steady(seen: list[str]) -> None:
    try:
        while True:
            await asyncio.sleep(1)
            seen.append("tick")
    finally:
        seen.append("clean-up")


def test_a_killed_life_runs_no_clean_up() -> None:
    seen: list[str] = []

    async def main() -> None:
        life = Life("one")
        life.spawn(steady(seen))
        await asyncio.sleep(2.5)
        life.kill()
        await asyncio.sleep(10)

    loop = new_loop()
    loop.run(main())
    assert seen == ["tick", "tick"]
    loop.abandon()


def test_a_frozen_life_goes_on_where_it_was() -> None:
    seen: list[str] = []

    async def main() -> None:
        life = Life("one")
        life.spawn(steady(seen))
        await asyncio.sleep(1.5)
        life.freeze()
        await asyncio.sleep(60)
        assert seen == ["tick"]
        life.thaw()
        await asyncio.sleep(1.6)
        life.kill()

    loop = new_loop()
    loop.run(main())
    assert seen == ["tick"] * 3
    loop.abandon()


def test_what_a_life_begets_dies_with_it() -> None:
    seen: list[str] = []

    async def parent() -> None:
        child = asyncio.create_task(steady(seen))
        await child

    async def main() -> None:
        life = Life("one")
        life.spawn(parent())
        await asyncio.sleep(1.5)
        life.kill()
        await asyncio.sleep(10)

    loop = new_loop()
    loop.run(main())
    assert seen == ["tick"]
    loop.abandon()


def orders(seed: int | None) -> list[str]:
    seen: list[str] = []

    async def walk(name: str) -> None:
        for n in range(3):
            seen.append(f"{name}{n}")
            await asyncio.sleep(0)

    async def main() -> None:
        for name in "abc":
            Life(name).spawn(walk(name))
        await asyncio.sleep(1)

    new_loop(seed).run(main())
    return seen


def test_a_seed_draws_who_goes_first_and_draws_it_again() -> None:
    assert orders(5) == orders(5)
    assert len({tuple(orders(seed)) for seed in range(20)}) > 10
    for seed in range(20):
        assert [each for each in orders(seed) if each[0] == "a"] == ["a0", "a1", "a2"]


def test_there_is_one_thread() -> None:
    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="one thread"):
        new_loop().run(main())


def test_a_set_of_tasks_has_one_order_in_every_world() -> None:
    async def walk(gap: int) -> list[str]:
        between: list[bytearray] = []
        tasks: set[asyncio.Task[None]] = set()
        for n in range(40):
            tasks.add(asyncio.create_task(asyncio.sleep(1), name=str(n)))
            between.extend(bytearray(48 * (n % (gap + 2))) for _ in range(gap))
        await asyncio.wait(tasks)
        return [task.get_name() for task in tasks]

    orders = {tuple(new_loop().run(walk(gap))) for gap in range(4)}
    assert len(orders) == 1
