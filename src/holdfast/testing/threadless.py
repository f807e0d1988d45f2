"""Virtual time in one thread: what a worker would leave to threads is carried out at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from holdfast.hosts.worker import Worker
from holdfast.hosts.worker.threads import Threads, crossing
from holdfast.testing.loop import VirtualLoop


class ThreadlessLoop(VirtualLoop):
    """All there is happens in one thread, so what is safe for threads is plain here."""

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """Run `callback` after what is ready already."""
        return self.call_soon(callback, *args, context=context)


class Inline(Threads):
    """The threads of sync steps without threads: a call is carried out at once."""

    def submit(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Carry it out."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(crossing(error))
        return future


def without_threads(worker: Worker) -> Worker:
    """Have a worker's sync and isolated steps run where they are called."""
    worker.steps.calls.isolates = False
    worker.steps.calls.pool = Inline(1, "inline")
    return worker
