"""Who is told of changes in other processes, and how: NOTIFY, outside the write path.

NOTIFY takes one lock for the whole database when its transaction commits, so it is never part of a
commit of ours. After a commit the process rings on a line of its own: at once if it has not just
rung, else a moment later for everything that came meanwhile. A notice says only *look*. Whoever
does not hear it, because it was lost or because a pooler eats it, looks all the same at the next
poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from holdfast.errors import StoreError
from holdfast.model.writes import Notice
from holdfast.stores.postgres.connection import Line
from holdfast.stores.postgres.failures import FAILED, asking
from holdfast.stores.postgres.statements import queries
from holdfast.stores.postgres.target import CONNECT_SECONDS, Connection, Target

log = logging.getLogger("holdfast.store")
SQL = queries()

CHANNEL = "holdfast"
LISTENER = "holdfast worker "
"""What the session of a listening worker is called, with its id: so one sees who is there."""
MOMENT = 0.004
"""Seconds between two rings of one process."""
BACK_OFF = (0.1, 10.0)
"""First and longest wait before listening again, in seconds."""
PROBE = 30.0
"""Seconds after which a listener makes sure that it is still connected."""
EVERYBODY, WAITERS = "w", "c"
"""Whom a ring is for: workers and waiting clients, or only these."""


class Ringer:
    """Tells other processes that there is something to see."""

    def __init__(self, line: Line, me: str) -> None:
        self._line, self._me = line, me
        self._for: set[str] = set()
        self._ringing: asyncio.Task[None] | None = None

    def ring(self, told: list[Notice]) -> None:
        """Have others look soon."""
        for_workers = any(notice.what in ("ready", "mail", "moved") for notice in told)
        self._for.add(EVERYBODY if for_workers else WAITERS)
        if self._ringing is None:
            self._ringing = asyncio.create_task(self._ring(), name="holdfast bells")

    async def close(self) -> None:
        """Ring for what came last, and stop."""
        if self._ringing is not None:
            await asyncio.gather(self._ringing, return_exceptions=True)

    async def _ring(self) -> None:
        try:
            while self._for:
                kind = EVERYBODY if EVERYBODY in self._for else WAITERS
                self._for.clear()
                try:
                    await self._line.fetch(SQL.notify, channel=CHANNEL, payload=kind + self._me)
                except (StoreError, *FAILED) as error:
                    log.debug("nobody could be told: %s", error)  # they poll
                await asyncio.sleep(MOMENT)
        finally:
            self._ringing = None


class Listener:
    """Hears what other processes ring, on a connection of its own, and comes back when it is cut.

    `hear` is called with whether workers are meant. It is also called when listening begins, and
    after each reconnect: what was rung before is lost.
    """

    def __init__(self, target: Target, me: str, hear: Callable[[bool], None]) -> None:
        self._target, self._me, self._hear = target, me, hear
        self.worker = ""
        """Whose ears these are, if a worker's."""
        self.statements = 0
        """How many round trips were made."""
        self._cut = asyncio.Event()
        self._task = asyncio.create_task(self._listen_for_life(), name="holdfast listener")

    async def close(self) -> None:
        """Hear no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen_for_life(self) -> None:
        delay = BACK_OFF[0]
        while not self._target.is_pooled:
            with contextlib.suppress(StoreError, *FAILED), asking():
                name = LISTENER + self.worker if self.worker else "holdfast listener"
                connection = await self._target.connect({"application_name": name})
                try:
                    await self._listen(connection)
                    delay = BACK_OFF[0]
                finally:
                    connection.terminate()
            await asyncio.sleep(delay)
            delay = min(delay * 2, BACK_OFF[1])

    async def _listen(self, connection: Connection) -> None:
        self._cut.clear()
        connection.add_termination_listener(lambda _: self._cut.set())
        if self._target.is_pooled:
            return
        self.statements += 1
        async with asyncio.timeout(CONNECT_SECONDS):
            await connection.add_listener(CHANNEL, self._rung)
        self._hear(True)
        while not self._cut.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBE):
                    await self._cut.wait()
            # A link that swallows everything looks like one on which nothing happens.
            self.statements += 1
            await connection.fetchval(SQL.clock.text, timeout=CONNECT_SECONDS)

    def _rung(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        said = str(payload)
        if said[1:] != self._me:
            self._hear(said.startswith(EVERYBODY))
