"""What an event loop offers and a body must not use: each call says what to use instead."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, cast

from holdfast.machine.guard import STEP, THREAD, frames_of_body, violate
from holdfast.machine.source import own_line
from holdfast.machine.spin import Spinner

_ADVICE = {
    "call_soon_threadsafe": "Send the run a signal instead, and await it with hf.wait_for.",
    "run_in_executor": THREAD,
    "set_task_factory": "Tasks of a body are made by Holdfast.",
}


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
        frames = frames_of_body(getattr(sys, "_getframe")(1))  # noqa: B009 - CPython's own
        hint = _ADVICE.get(name, STEP)
        raise violate(cast("Spinner", self), f"loop.{name}()", hint, own_line(frames))

    refuse.__name__ = name
    return refuse


def _async_refusal(name: str) -> Callable[..., Coroutine[Any, Any, NoReturn]]:
    refuse = _refusal(name)

    async def refuse_when_awaited(self: object, *args: object, **kwargs: object) -> NoReturn:
        refuse(self)

    return refuse_when_awaited


def refuse_the_rest(loop: type[asyncio.AbstractEventLoop]) -> None:
    """Give every other method of an event loop a refusal that names the right call."""
    for name, method in vars(asyncio.AbstractEventLoop).items():
        if callable(method) and not name.startswith("_") and getattr(loop, name) is method:
            is_async = inspect.iscoroutinefunction(method)
            setattr(loop, name, (_async_refusal if is_async else _refusal)(name))
