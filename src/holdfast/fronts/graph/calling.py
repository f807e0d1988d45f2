"""Calling what a user gave to a helper: a step, an `async def`, or a plain function.

In a body everything is called where it stands, for a body has no threads; so a step is asked for,
and recorded. Elsewhere a plain function runs on a thread, as a step that is one does.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import copy_context
from typing import Any

from holdfast.errors import BadDefinition
from holdfast.machine import current
from holdfast.machine.afterwards import afterwards, call_safely
from holdfast.machine.tasks import transparent


def runs_on_threads(function: Callable[..., Any]) -> bool:
    """Tell whether calls of `function` need threads here."""
    return current() is None and not inspect.iscoroutinefunction(function)


def begun(
    function: Callable[..., Any], *args: Any, pool: Executor | None = None
) -> Coroutine[Any, Any, Any]:
    """Call `function`, and return a coroutine that waits for what it gives, or raises."""
    if runs_on_threads(function):
        return _on_a_thread(pool, function, args)
    try:
        made = function(*args)
    except Exception as error:
        return _raised(error)
    return made if inspect.iscoroutine(made) else _given(made)


async def _on_a_thread(pool: Executor | None, function: Callable[..., Any], args: Any) -> Any:
    within: Callable[..., Any] = copy_context().run
    loop = asyncio.get_running_loop()
    made = await loop.run_in_executor(pool, within, function, *args)
    return await made if inspect.isawaitable(made) else made


@transparent
async def _given(made: Any) -> Any:
    return await made if inspect.isawaitable(made) else made


@transparent
async def _raised(error: Exception) -> Any:
    raise error


def check_progress(progress: object) -> None:
    """Refuse what cannot be called to tell of progress. Raises `BadDefinition`."""
    if progress is not None and (not callable(progress) or inspect.iscoroutinefunction(progress)):
        raise BadDefinition(
            what=f"progress={progress!r:.60} is no plain function",
            hint="Give a `def` that returns at once; what takes time belongs into a queue.",
        )


def tell(progress: Callable[..., object] | None, *args: Any) -> None:
    """Tell of progress: at once, or, in a body, when it is stored."""
    if progress is None:
        return
    machine = current()
    if machine is None:
        call_safely(progress, *args)
    else:
        afterwards(machine, progress, *args)
