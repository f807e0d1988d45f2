"""A thread with an event loop and a connection of its own, for writes of other loops.

The renewal of a lease comes from a thread, so that a blocked event loop does not hold it up. A
connection belongs to one loop; this is the loop of theirs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from holdfast.model.writes import Notice, Outcome, Write
from holdfast.stores.postgres.connection import Line
from holdfast.stores.postgres.target import BY_KEY, Target
from holdfast.stores.postgres.writer import Writer


class Heartbeat:
    """Writes for whoever is not in the store's own loop. The thread starts with the first."""

    def __init__(self, target: Target, clock: Callable[[], int | None]) -> None:
        self._target, self._clock = target, clock
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._line: Line | None = None

    @property
    def statements(self) -> int:
        """How many round trips were made from here."""
        return 0 if self._line is None else self._line.statements

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        """Write the batch, over there."""
        written = asyncio.run_coroutine_threadsafe(self._write(batch), self._running())
        return await asyncio.wrap_future(written)

    async def close(self) -> None:
        """Hang up and end the thread."""
        if self._loop is not None and self._thread is not None:
            ended = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
            await asyncio.wrap_future(ended)
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join)
            self._loop.close()

    async def _close(self) -> None:
        await self._writer.close()
        if self._line is not None:
            await self._line.close()

    async def _write(self, batch: Sequence[Write]) -> list[Outcome]:
        return await self._writer.submit(batch)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._line = Line(self._target, {**BY_KEY, "application_name": NAME})
                self._writer = Writer(self._line, self._clock, _nobody)
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=NAME.replace(" ", "-"), daemon=True
                )
                self._thread.start()
            return self._loop


NAME = "holdfast heartbeat"


def _nobody(notices: list[Notice]) -> None:
    """Tell nobody: a renewal changes nothing that others wait for."""
