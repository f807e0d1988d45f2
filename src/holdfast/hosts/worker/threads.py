"""The threads of sync steps.

`concurrent.futures` waits for its threads when the interpreter ends, so one step that never ends
would keep a worker from leaving. These threads are daemons: a worker that has given its runs back
is gone, whatever they do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Threads:
    """At most `limit` threads, each made when it is first needed."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit, self._name = limit, name
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    def submit(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a call on a thread that is free, or as soon as one is."""
        future: Future[Any] = Future()
        self._calls.put((future, function, args, kwargs))
        if not self._idle.acquire(blocking=False) and self._count < self._limit:
            self._count += 1
            name = f"{self._name}-{self._count}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def stop(self) -> None:
        """Let each thread end after what it does now; nobody waits for that."""
        for _ in range(self._count):
            self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            _carry_out(*call)
            del call  # a waiting thread keeps nothing of its last step alive
            self._idle.release()


def _carry_out(
    future: Future[Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        future.set_exception(crossing(error))
    else:
        future.set_result(result)


def crossing(error: BaseException) -> BaseException:
    """Return an error as it can be raised where the call is awaited.

    There these would mean that a generator has ended or is closed, or that a person interrupts.
    """
    if not isinstance(error, StopIteration | GeneratorExit | KeyboardInterrupt):
        return error
    told = RuntimeError(f"the step raised {type(error).__name__}")
    told.__cause__ = error
    return told
