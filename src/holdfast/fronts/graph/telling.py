"""Telling what a helper does: `parallel.start`, `worker.complete`, `route.select`...

In a body whoever looks at the run is told, and so the observers of its graph, after the commit.
Elsewhere it is the observer that was given, from a task beside the work: one that is slow holds up
the return of the helper, and no item.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

from holdfast.errors import BadDefinition
from holdfast.fronts.graph.tracing import TRACE
from holdfast.fronts.graph.walking import in_short
from holdfast.machine import current
from holdfast.model.executed import ExecutionEvent

log = logging.getLogger("holdfast.observers")

Tell = Callable[..., None]
"""Called with a type and the data of an event."""


class Listener(Protocol):
    """Who is told: an `Observer[ExecutionEvent]`."""

    async def on_event(self, event: ExecutionEvent) -> None:
        """Take one event."""
        ...


def nobody(_type: str, /, **_data: Any) -> None:
    """Tell nobody."""


@asynccontextmanager
async def telling(source: str, observer: Listener | None) -> AsyncGenerator[Tell]:
    """Give what to call to tell of a helper; wait until everything is told, unless cancelled."""
    if current() is not None:
        yield _in_body(source, observer)
        return
    if observer is None:
        yield nobody
        return
    events: asyncio.Queue[ExecutionEvent | None] = asyncio.Queue()
    task = asyncio.create_task(_tell_all(observer, events))
    count = 0

    def tell(type: str, /, **data: Any) -> None:
        nonlocal count
        count += 1
        now = datetime.now(UTC)  # noqa: TID251 - there is no run here, and no store to ask
        events.put_nowait(ExecutionEvent(type, now, source, data, "", count))

    try:
        yield tell
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        events.put_nowait(None)
        if not task.cancelling():
            await task


def problem_of(error: BaseException | None) -> Mapping[str, Any]:
    """Return the data that tell whether something failed, and how."""
    if error is None:
        return {"error": False}
    if isinstance(error, asyncio.CancelledError):
        return {"error": True, "error_message": "cancelled"}
    return {"error": True, "error_message": in_short(error)}


def _in_body(source: str, observer: Listener | None) -> Tell:
    if observer is not None:
        raise BadDefinition(
            what=f"{source} was given an observer in a body",
            hint="Leave it out: the observers of the graph are told, app.observe_graphs(observer).",
        )
    trace = TRACE.get()
    if trace is None:
        return nobody

    def tell(type: str, /, **data: Any) -> None:
        trace.tell(type, source, data)

    return tell


async def _tell_all(observer: Listener, events: asyncio.Queue[ExecutionEvent | None]) -> None:
    failed: set[type[Exception]] = set()
    while (event := await events.get()) is not None:
        try:
            await observer.on_event(event)
        except Exception as error:
            if type(error) not in failed:
                failed.add(type(error))
                told = "observer %s failed on %s; more of its kind are not told"
                log.warning(told, type(observer).__name__, event.type, exc_info=True)
