"""The open timers of a body.

A timer is asked for by `call_later` or `call_at`, directly or through sleep, timeout and wait_for.
Nothing is recorded when it starts: its due time is a function of replayed time. It ends when
`timer.fired` is fed, or without a trace when the body cancels it. The earliest is found in a heap;
cancelled entries stay there until they outnumber the open ones.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any

Callback = Callable[..., object]


class Timer(asyncio.TimerHandle):
    """A callback that waits for its due time; `cancel` forgets it."""

    __slots__ = ("args", "asked_seq", "callback", "context", "due", "key", "owner", "seconds")

    def __init__(
        self, key: str, due: int, seconds: float, callback: Callback, args: tuple[Any, ...]
    ) -> None:
        # The base class keeps a loop and a source traceback we have no use for.
        self.key, self.due, self.seconds = key, due, seconds
        self.callback: Callback | None = callback
        self.args = args
        self.context: Context
        self.asked_seq = 0
        self.owner: Timers | None = None

    def when(self) -> float:
        """Return the due time by the loop's clock."""
        return self.seconds

    def cancel(self) -> None:
        """Make sure that the callback never runs; the timer is no longer open."""
        if self.owner is not None:
            self.owner.discard(self)
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        """Tell whether `cancel` was called."""
        return self.callback is None

    def __repr__(self) -> str:
        return f"<Timer {self.key} due {self.due}>"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class Timers:
    """All open timers of one machine, by key, and the earliest of them."""

    __slots__ = ("_born", "_heap", "open")

    def __init__(self) -> None:
        self.open: dict[str, Timer] = {}
        """By their keys; empty if there is none."""
        self._heap: list[tuple[int, int, str]] = []
        self._born = 0

    def add(self, timer: Timer) -> None:
        """Open `timer`; of two with one due time, the one added first fires first."""
        self._born += 1
        timer.owner = self
        self.open[timer.key] = timer
        heapq.heappush(self._heap, (timer.due, self._born, timer.key))

    def discard(self, timer: Timer) -> None:
        """Forget `timer`, if it is open."""
        if self.open.pop(timer.key, None) is not None and len(self._heap) > 64:
            self._compact()

    def pop(self, key: str) -> Timer | None:
        """Take out the open timer of that key, if there is one."""
        timer = self.open.pop(key, None)
        if timer is not None:
            timer.owner = None
        return timer

    def earliest(self) -> tuple[int, str] | None:
        """Return due time and key of the timer that fires next."""
        heap = self._heap
        while heap and heap[0][2] not in self.open:
            heapq.heappop(heap)
        return (heap[0][0], heap[0][2]) if heap else None

    def asked_seq(self, key: str) -> int:
        """Return the last event fed before the open timer of that key was asked for."""
        return self.open[key].asked_seq

    def _compact(self) -> None:
        if len(self._heap) > 2 * len(self.open):
            self._heap = [entry for entry in self._heap if entry[2] in self.open]
            heapq.heapify(self._heap)

    def __contains__(self, key: object) -> bool:
        return key in self.open

    def __iter__(self) -> Iterator[Timer]:
        return iter(self.open.values())

    def __len__(self) -> int:
        return len(self.open)


NO_TIMERS = Timers()
"""What a body has before it opens its first; shared, so nothing is ever added to it."""
