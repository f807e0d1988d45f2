"""A call in a context of its own, awaited in a task that others use too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from holdfast.hosts.worker.inside import inside

colour: ContextVar[str] = ContextVar("colour", default="none")


def nothing() -> None:
    """Hear that a call waits."""


async def called(function: Callable[..., Any], *args: Any, waits: Any = nothing) -> Any:
    return await inside(copy_context(), function, args, {}, waits)


async def test_what_a_call_sets_is_seen_by_nobody_else_whenever_it_sets_it() -> None:
    async def paint(name: str) -> str:
        colour.set(name)
        await asyncio.sleep(0)
        seen = colour.get()
        colour.set(f"{name} again")
        return seen

    assert [*await asyncio.gather(called(paint, "red"), called(paint, "blue"))] == ["red", "blue"]
    assert await called(paint, "green") == "green"
    assert colour.get() == "none"


async def test_it_is_told_once_that_a_call_waits_and_never_of_one_that_does_not() -> None:
    told: list[int] = []

    async def wait(times: int) -> int:
        for _ in range(times):
            await asyncio.sleep(0)
        return times

    for times in (0, 1, 3):
        assert await called(wait, times, waits=lambda: told.append(1)) == times
    assert len(told) == 2


async def test_errors_pass_through_before_and_after_a_wait() -> None:
    async def fail(times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(0)
        raise LookupError(times)

    for times in (0, 2):
        with pytest.raises(LookupError, match=str(times)):
            await called(fail, times)


async def test_a_cancel_reaches_the_call_which_may_clean_up_or_go_on() -> None:
    began, cleaned = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        try:
            began.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            cleaned.set()
        return "went on"

    task = asyncio.create_task(called(stubborn))
    await began.wait()
    task.cancel()
    assert await task == "went on"
    assert cleaned.is_set()


async def test_a_time_out_inside_a_call_is_its_own() -> None:
    async def late() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "too late"
        return "in time"

    assert await called(late) == "too late"


async def test_a_call_that_is_closed_ends_where_it_waits() -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    coroutine: Any = called(wait)
    coroutine.send(None)
    coroutine.close()
    assert ended == ["ended"]


async def test_anything_that_can_be_awaited_will_do() -> None:
    class Later:
        def __await__(self) -> Generator[Any, Any, int]:
            yield from asyncio.sleep(0).__await__()
            return 7

    assert await called(Later) == 7
