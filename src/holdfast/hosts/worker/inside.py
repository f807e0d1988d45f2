"""Awaiting a call in a context of its own, within a task that others use too."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextvars import Context
from typing import Any, TypeVar, cast

T = TypeVar("T")


@types.coroutine
def inside(
    context: Context,
    function: Callable[..., Awaitable[T]],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    waits: Callable[[], None],
) -> Generator[Any, Any, T]:
    """Return what the call comes to. `waits` is called if it has to be waited for, before that."""
    run: Callable[..., Any] = context.run
    call = run(function, *args, **kwargs)
    if not hasattr(call, "send"):
        call = cast("Any", _coroutine(call))
    try:
        awaited = run(call.send, None)
    except StopIteration as ended:
        value: T = ended.value  # a cast would be one more call
        return value
    waits()
    while True:
        # As `yield from` does it, but for the context.
        try:
            given = yield awaited
        except GeneratorExit:
            run(call.close)
            raise
        except BaseException as error:
            resume, given = call.throw, error
        else:
            resume = call.send
        try:
            awaited = run(resume, given)
        except StopIteration as ended:
            return cast("T", ended.value)
        finally:
            given = resume = None  # an error knows this frame


async def _coroutine(awaitable: Awaitable[T]) -> T:
    return await awaitable
