"""Waiting for several things at once, in an order that is the same in every replay.

`asyncio.wait` returns sets and `asyncio.as_completed` puts what it is given into one; a coroutine's
place in a set is its address. These two do the same work with lists.
"""

from __future__ import annotations

import asyncio
from asyncio import ALL_COMPLETED, Future
from collections.abc import Awaitable, Coroutine, Iterable, Iterator
from typing import Any, TypeVar

from holdfast.errors import BadDefinition
from holdfast.machine.machine import Machine
from holdfast.machine.primitives import here
from holdfast.machine.tasks import transparent
from holdfast.model.durations import Duration, microseconds

T = TypeVar("T")
Futures = list[Future[T]]


async def wait(
    aws: Iterable[Awaitable[T]], *, timeout: Duration | None = None,
    return_when: str = ALL_COMPLETED,
) -> tuple[Futures[T], Futures[T]]:  # fmt: skip
    """Return which are done and which are not, both in the order given.

    Like `asyncio.wait`, except that the order is fixed and step calls need no task around them.
    """
    here("hf.wait()")
    futures = _futures(aws, "hf.wait")
    seconds = None if timeout is None else microseconds(timeout, field="hf.wait timeout") / 1e6
    done, _ = await asyncio.wait(futures, timeout=seconds, return_when=return_when)
    return [f for f in futures if f in done], [f for f in futures if f not in done]


def as_completed(
    aws: Iterable[Awaitable[T]], *, timeout: Duration | None = None
) -> Iterator[Coroutine[Any, Any, T]]:
    """Return an iterator of awaitables; each gives the result of the next that ends.

    Those that ended in the same turn come in the order in which they ended, and those that had
    ended before in the order given. Awaiting raises `TimeoutError` once `timeout` has passed.
    """
    machine = here("hf.as_completed()")
    futures = _futures(aws, "hf.as_completed")
    finished: asyncio.Queue[Future[T] | None] = asyncio.Queue()
    for future in futures:
        future.add_done_callback(finished.put_nowait)
    if timeout is not None and futures:
        delay = microseconds(timeout, field="hf.as_completed timeout")
        _give_up_after(machine, delay, futures, finished)
    return (_next(finished) for _ in futures)


def _give_up_after(
    machine: Machine, delay: int, futures: Futures[T], finished: asyncio.Queue[Future[T] | None]
) -> None:
    left = len(futures)

    def give_up() -> None:
        for future in futures:
            if future.remove_done_callback(finished.put_nowait):
                finished.put_nowait(None)

    timer = machine.loop.schedule("", machine.now + delay, give_up)

    def count(_: Future[T]) -> None:
        nonlocal left
        left -= 1
        if not left:
            timer.cancel()

    for future in futures:
        future.add_done_callback(count)


@transparent
async def _next(finished: asyncio.Queue[Future[T] | None]) -> T:
    future = await finished.get()
    if future is None:
        raise TimeoutError
    return future.result()


def _futures(aws: Iterable[Awaitable[T]], what: str) -> Futures[T]:
    given = dict.fromkeys(aws)
    if isinstance(aws, set | frozenset) and (calls := list(filter(asyncio.iscoroutine, given))):
        for call in calls:
            call.close()
        told = f"{what} was given a set of calls, which has another order in every process"
        raise BadDefinition(what=told, hint="Give it a list.")
    return [asyncio.ensure_future(aw) for aw in given]
