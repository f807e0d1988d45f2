"""A loop in a thread of its own, and the way into it for code that has none.

The client lives in one task of that loop from open to close. A call from outside is put into the
loop and waited for; an interrupt of whoever waits cancels it there.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Generic, TypeVar

from holdfast.errors import HoldfastError, StoreUnavailable, SyncInLoop

T = TypeVar("T")
C = TypeVar("C")
EVERY = 0.5
"""Seconds after which who waits looks for an interrupt."""


class Portal(Generic[C]):
    """Holds what `opened` gives for as long as it is open itself."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[C]]) -> None:
        refuse_in_loop("open_sync")
        self._ready: Future[C] = Future()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._is_closing = False
        self._failure: BaseException | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(
            # A daemon: a program that forgets to close still ends, as if it had crashed.
            target=self._run, args=(opened,), name="holdfast-sync", daemon=True,
        )  # fmt: skip
        self._thread.start()
        try:
            self.inside = self._ready.result()
        except BaseException:
            self.close()
            raise

    def _run(self, opened: Callable[[], AbstractAsyncContextManager[C]]) -> None:
        try:
            asyncio.run(self._serve(opened))
        except BaseException as error:
            if self._ready.done():
                self._failure = error
            else:
                self._ready.set_exception(error)

    async def _serve(self, opened: Callable[[], AbstractAsyncContextManager[C]]) -> None:
        stop = asyncio.Event()
        with self._lock:
            self._loop, self._stop = asyncio.get_running_loop(), stop
            if self._is_closing:  # interrupted before it was open
                stop.set()
        async with opened() as inside:
            self._ready.set_result(inside)
            await stop.wait()
            # Whoever still waits for an answer hears that the door is closed.
            for task in self._calls:
                task.cancel()
            await asyncio.gather(*self._calls, return_exceptions=True)

    async def _carried(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # it runs in one, by `run_coroutine_threadsafe`
        self._calls.add(task)
        try:
            return await work
        finally:
            self._calls.discard(task)

    def call(self, name: str, work: Coroutine[Any, Any, T]) -> T:
        """Do the work in the loop and return what comes of it.

        Raises `SyncInLoop`, or `StoreUnavailable` if the client is closed.
        """
        try:
            refuse_in_loop(name)
            # Under the lock: what is taken here is in the loop before the stop is.
            with self._lock:
                if self._is_closing or self._loop is None:
                    raise _closed()
                future = asyncio.run_coroutine_threadsafe(self._carried(work), self._loop)
        except BaseException:
            work.close()
            raise
        try:
            return _waited_for(future)
        except CancelledError:
            raise _closed() from None
        except BaseException:
            future.cancel()
            raise

    def iterate(self, name: str, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items as they come; leaving early ends them in the loop too."""
        try:
            while True:
                item = self.call(name, _next(items))
                if item is END:
                    return
                yield item
        finally:
            with suppress(HoldfastError):
                self.call(name, _ended(items))

    def close(self) -> None:
        """Close what was opened and end the thread; a second time changes nothing."""
        with self._lock:
            is_first, self._is_closing = not self._is_closing, True
            if is_first and self._loop is not None and self._stop is not None:
                with suppress(RuntimeError):  # it could not be opened, and the loop has ended
                    self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if is_first and self._failure is not None:
            raise self._failure


def _waited_for(future: Future[T]) -> T:
    """Return what comes of it, or raise an interrupt, also one that came right before the wait.

    Python does not see such a one until its thread wakes up, and to wait without end is not to.
    """
    while True:
        try:
            return future.result(EVERY)
        except TimeoutError:
            if future.done():  # then it is its own, if it did not come just now
                return future.result()


END: Any = object()


async def _next(items: AsyncIterator[T]) -> T:
    async for item in items:
        return item
    return END  # type: ignore[no-any-return]


async def _ended(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()


def refuse_in_loop(call: str) -> None:
    """Raise `SyncInLoop` if a loop runs in this thread, unless it is a notebook's.

    A notebook runs every cell inside its loop; nothing else waits there while a cell runs.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if "ipykernel" not in sys.modules:
        raise SyncInLoop(call=call)


def _closed() -> StoreUnavailable:
    return StoreUnavailable("This client is closed. Open another with `app.open_sync(url)`.")
