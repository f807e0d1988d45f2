"""The answer of a store that is on its way: awaited, or heard of the moment it is there.

A session hears of each of its commits. A future would take one more turn of the event loop to tell
it, which is as much work as the rest of what asyncio does for a step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, ClassVar, Generic, Protocol, TypeVar

_on_their_way: set[asyncio.Future[Any]] = set()
"""The event loop itself holds on to no task, and nobody else has these."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Answered(Protocol[T_co]):
    """An answer that is there."""

    def result(self) -> T_co:
        """Return it, or raise what went wrong."""
        ...


class Reply(Generic[T]):
    """An answer that its maker settles, in the loop of whoever asked."""

    is_pushable: ClassVar[bool] = False
    """Whether `push` may have something to do."""

    # In the class, so that nothing has to be set for an answer that comes at once.
    error: Exception | None = None
    _value: Any = None
    _is_settled = False
    _future: asyncio.Future[None] | None = None
    _hearer: Callable[[Answered[T]], None] | None = None

    def settle(self, value: T | None) -> None:
        """Give the answer, or `error` if that is set."""
        self._value, self._is_settled = value, True
        if self._hearer is not None:
            self._hearer(self)
        elif self._future is not None and not self._future.done():
            self._future.set_result(None)

    def result(self) -> T:
        """Return the answer, or raise what went wrong."""
        if self.error is not None:
            raise self.error
        value: T = self._value
        return value

    def call(self) -> None:
        """Have its maker bring the answer about; one who waits for nobody has done so before."""

    def push(self) -> Coroutine[Any, Any, None] | None:
        """Return what brings it about in the caller's own task, to spare turns of the event loop.

        None if its maker has to do it. Whoever means to push tells with `hear` instead of `tell`.
        """
        return None

    def __await__(self) -> Generator[Any, None, T]:
        if not self._is_settled:
            self.call()
            self._future = asyncio.get_running_loop().create_future()
            yield from self._future
        return self.result()

    def tell(self, hearer: Callable[[Answered[T]], None]) -> None:
        """Call `hearer` when the answer is there, which may be now."""
        if self._is_settled:
            hearer(self)
        else:
            self._hearer = hearer
            self.call()

    def hear(self, hearer: Callable[[Answered[T]], None]) -> None:
        """As `tell`, of somebody who will `push`."""
        if self._is_settled:
            hearer(self)
        else:
            self._hearer = hearer


def tell(answer: Awaitable[T], hearer: Callable[[Answered[T]], None]) -> None:
    """Have `hearer` called in this loop when the answer is there, at once if its maker can."""
    if isinstance(answer, Reply):
        answer.tell(hearer)
    else:
        future = asyncio.ensure_future(answer)
        _on_their_way.add(future)
        future.add_done_callback(_come)
        future.add_done_callback(hearer)


def _come(answer: asyncio.Future[Any]) -> None:
    """Let go of an answer, also one that failed: its hearer may not care for it any more."""
    _on_their_way.discard(answer)
    if not answer.cancelled():
        answer.exception()
