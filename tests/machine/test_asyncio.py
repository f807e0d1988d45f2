"""Plain asyncio is durable in a body: each primitive, run to the end, with replay checked."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.machine.combine import as_completed, wait
from tests.machine.driver import SECOND, START, Driver, pack, ship, work


async def sleeps() -> str:
    await asyncio.sleep(0)
    return await asyncio.sleep(3600, "woken")


async def gathers() -> list[int]:
    return await asyncio.gather(work(1), pack(2), work(3))


async def gathers_nothing() -> list[int]:
    return await asyncio.gather()


async def gathers_errors() -> str:
    async def fails() -> int:
        await asyncio.sleep(1)
        raise KeyError("x")

    results = await asyncio.gather(work(1), fails(), return_exceptions=True)
    return f"{results[0]} {results[1]!r}"


async def groups() -> list[int]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work(n)) for n in range(3)]
    return [task.result() for task in tasks]


async def groups_fail() -> str:
    async def fails() -> None:
        await work(1)
        raise KeyError("x")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            group.create_task(asyncio.sleep(1000))
    except ExceptionGroup as error:
        return repr(error.exceptions[0])
    return "no error"


async def times_out() -> str:
    try:
        async with asyncio.timeout(5):
            await asyncio.sleep(10)
    except TimeoutError:
        return "late"
    return "in time"


async def in_time() -> str:
    async with asyncio.timeout(5) as scope:
        await work()
        scope.reschedule(asyncio.get_running_loop().time() + 20)
        await asyncio.sleep(10)
    return "in time"


async def times_out_at_once() -> str:
    try:
        async with asyncio.timeout(0):
            await work()
    except TimeoutError:
        return "late"
    return "in time"


async def waits_for() -> str:
    try:
        await asyncio.wait_for(asyncio.sleep(10), 5)
    except TimeoutError:
        return f"late, then {await asyncio.wait_for(work(), 60)}"
    return "in time"


async def waits_for_without_time() -> str:
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0)
    except TimeoutError:
        return "late"
    return "in time"


async def waits() -> list[int]:
    tasks = [asyncio.create_task(work(n)) for n in range(3)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    rest, none = await asyncio.wait(pending, timeout=5)
    return [len(done), len(pending), len(rest), len(none)]


async def locks() -> list[int]:
    lock, order = asyncio.Lock(), list[int]()

    async def use(n: int) -> None:
        async with lock:
            await work(n)
            order.append(n)

    await asyncio.gather(*(use(n) for n in range(3)))
    return order


async def events() -> str:
    event = asyncio.Event()

    async def sets() -> None:
        await work()
        event.set()

    setter = asyncio.create_task(sets())
    await event.wait()
    await setter
    return "set"


async def conditions() -> list[int]:
    condition, items = asyncio.Condition(), list[int]()

    async def produces() -> None:
        for n in range(2):
            await work(n)
            async with condition:
                items.append(n)
                condition.notify()

    producer = asyncio.create_task(produces())
    async with condition:
        await condition.wait_for(lambda: len(items) == 2)
    await producer
    return items


async def queues() -> list[int]:
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)

    async def produces() -> None:
        for n in range(3):
            await queue.put(n)
            await work(n)

    producer = asyncio.create_task(produces())
    taken = [await queue.get() for _ in range(3)]
    await producer
    return taken


async def semaphores() -> list[int]:
    semaphore, order = asyncio.Semaphore(2), list[int]()

    async def use(n: int) -> None:
        async with semaphore:
            order.append(n)
            await work(n)

    await asyncio.gather(*(use(n) for n in range(5)))
    return order


async def barriers() -> list[int]:
    barrier = asyncio.Barrier(2)

    async def meets(n: int) -> int:
        await work(n)
        return await barrier.wait()

    return sorted(await asyncio.gather(meets(1), meets(2)))


async def shields() -> str:
    task = asyncio.create_task(work(1))
    try:
        async with asyncio.timeout(5):
            await asyncio.shield(task)
    except TimeoutError:
        return f"late, then {await task}"
    return "in time"


async def calls_later() -> list[str]:
    loop, said = asyncio.get_running_loop(), list[str]()
    loop.call_soon(said.append, "soon")
    loop.call_later(2, said.append, "later")
    loop.call_later(1, said.append, "never").cancel()
    loop.call_at(loop.time() + 1, said.append, "at")
    loop.call_later(0, said.append, "at once")
    await asyncio.sleep(3)
    return said


async def ordered_wait() -> list[list[int]]:
    tasks = [asyncio.ensure_future(sleeper(n)) for n in (3, 1, 2)]
    done, pending = await wait(tasks, timeout=2.5)
    late = [await task for task in pending]
    return [[task.result() for task in done], late]


async def ordered_completion() -> list[int]:
    return [await each for each in as_completed([sleeper(n) for n in (3, 1, 2)])]


async def completion_in_time() -> list[int]:
    return [await each for each in as_completed([sleeper(1), sleeper(2)], timeout=9)]


async def completion_too_late() -> list[str]:
    seen = list[str]()
    for each in as_completed([sleeper(3), sleeper(1)], timeout=2):
        try:
            seen.append(str(await each))
        except TimeoutError:
            seen.append("late")
    return seen


async def completion_of_the_done() -> list[int]:
    tasks = [asyncio.create_task(sleeper(n)) for n in (2, 1)]
    await asyncio.gather(*tasks)
    return [await each for each in as_completed(tasks)]


async def sleeper(n: int) -> int:
    await asyncio.sleep(n)
    return n


TABLE: list[tuple[Callable[..., Any], Any]] = [
    (sleeps, "woken"),
    (gathers, [0, 0, 0]),
    (gathers_nothing, []),
    (gathers_errors, "0 KeyError('x')"),
    (groups, [0, 0, 0]),
    (groups_fail, "KeyError('x')"),
    (times_out, "late"),
    (in_time, "in time"),
    (times_out_at_once, "late"),
    (waits_for, "late, then 0"),
    (waits_for_without_time, "late"),
    (waits, [1, 2, 2, 0]),
    (locks, [0, 1, 2]),
    (events, "set"),
    (conditions, [0, 1]),
    (queues, [0, 1, 2]),
    (semaphores, [0, 1, 2, 3, 4]),
    (barriers, [0, 1]),
    (shields, "in time"),
    (calls_later, ["soon", "at once", "at", "later"]),
    (ordered_wait, [[1, 2], [3]]),
    (ordered_completion, [1, 2, 3]),
    (completion_in_time, [1, 2]),
    (completion_too_late, ["1", "late"]),
    (completion_of_the_done, [2, 1]),
]


@pytest.mark.parametrize(("body", "result"), TABLE, ids=[body.__name__ for body, _ in TABLE])
def test_plain_asyncio_is_durable(body: Callable[..., Any], result: Any) -> None:
    driver = Driver(body)
    driver.finish()
    assert driver.result == result
    assert driver.machine.warnings == ()
    driver.machine.close()


def test_a_shield_keeps_the_step_when_the_time_is_over() -> None:
    driver = Driver(shields)
    assert driver.waits == ["work#1", "timer#1"]
    driver.fire()
    assert driver.waits == ["work#1"]
    driver.complete("work#1", 7)
    assert driver.result == "late, then 7"


def test_timers_fire_by_due_time_and_then_in_the_order_asked() -> None:
    async def body() -> list[int]:
        order = list[int]()
        loop = asyncio.get_running_loop()
        for n, delay in enumerate((2, 1, 2, 1)):
            loop.call_later(delay, order.append, n)
        await asyncio.sleep(2)
        return order

    driver = Driver(body)
    assert driver.machine.next_timer() == (START + SECOND, "timer#2")
    driver.finish()
    assert driver.result == [1, 3, 0, 2]
    fired = [event.key for event in driver.history if event.kind == "timer.fired"]
    assert fired == ["timer#2", "timer#4", "timer#1", "timer#3", "timer#5"]


def test_a_cancelled_timer_leaves_no_trace_and_no_memory() -> None:
    async def body() -> str:
        for n in range(500):
            async with asyncio.timeout(60):
                await work(n)
        return "done"

    driver = Driver(body, paranoid=False)
    for n in range(1, 400):
        driver.complete(f"work#{n}")
    assert driver.machine.next_timer() == (START + 60 * SECOND, "timer#400")
    assert len(driver.machine.loop.timers._heap) < 100
    driver.finish()
    assert driver.result == "done"


def gathered_steps() -> Any:
    return asyncio.as_completed([work(1), ship(2)])


def user_coroutines() -> Any:
    return asyncio.as_completed([sleeper(1), sleeper(2)])


def tasks() -> Any:
    return asyncio.as_completed([asyncio.create_task(sleeper(1))])


def futures() -> Any:
    return asyncio.as_completed([asyncio.gather(work(1), work(2))])


@pytest.mark.parametrize("name", ["wait", "as_completed"])
@pytest.mark.parametrize("kind", [set, frozenset])
def test_a_set_of_calls_is_refused(name: str, kind: Callable[[Any], Any]) -> None:
    """Its order is that of addresses, and so would the paths of the tasks be."""

    async def body() -> None:
        given = kind([sleeper(1), sleeper(2)])
        if name == "wait":
            await wait(given)
        list(as_completed(given))

    ended = Driver(body).machine.ended
    assert ended is not None
    assert ended.failure is not None
    assert ended.failure.message == (
        f"hf.{name} was given a set of calls, which has another order in every process. "
        "Give it a list."
    )


@pytest.mark.parametrize("given", [gathered_steps, user_coroutines, tasks, futures])
def test_asyncio_as_completed_is_refused(given: Callable[[], Any]) -> None:
    async def body() -> None:
        for each in given():
            await each

    driver = Driver(body)
    ended = driver.machine.ended
    assert ended is not None
    assert ended.failure is not None
    assert ended.failure.message == (
        "asyncio.as_completed has no fixed order in a workflow body. "
        "Use hf.as_completed, which takes the same arguments."
    )
    driver.machine.close()


@pytest.mark.parametrize(
    "made",
    [
        lambda n: asyncio.gather(work(n)),
        lambda n: asyncio.shield(asyncio.ensure_future(work(n))),
    ],
    ids=["gather", "shield"],
)
def test_a_set_of_futures_has_one_order(made: Callable[[int], Any]) -> None:
    async def body() -> list[int]:
        futures = [made(n) for n in range(20)]
        done, _ = await asyncio.wait(futures)
        return [futures.index(future) for future in done]

    orders = set[tuple[int, ...]]()
    kept: list[Any] = []
    for n in range(5):
        # Holes of other sizes each time, so that what is made next gets other addresses.
        loop = asyncio.new_event_loop()
        kept.append([asyncio.Future[None](loop=loop) for _ in range(n * 300)][:: n + 2])
        loop.close()
        driver = Driver(body, paranoid=False)
        driver.finish()
        kept.append(driver)
        orders.add(tuple(driver.result))
    assert orders == {tuple(range(20))}
