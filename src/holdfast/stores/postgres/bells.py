"""Who is told of changes in other processes, and how: NOTIFY, outside the write path.

NOTIFY takes one lock for the whole database when its transaction commits, so it is never part of a
commit of ours. After a commit the process rings on a line of its own: at once if it has not just
rung, else a moment later for everything that came meanwhile. That a run only goes on is told a
while later: else a quick run would ring for every few of its steps. A notice says
only *look*, and what for, if it is one thing: who hears of a job need not look for runs. If it is
one run that can be claimed, it is named, so that it can be taken without a search; but only by an
id that we made, which tells nothing: everybody in the database can listen.
Whoever does not hear it, because it was lost or because a pooler eats it, looks all
the same at the next poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from typing import Any
from uuid import UUID

from holdfast.errors import StoreError
from holdfast.model.writes import Notice
from holdfast.stores.notices import FOR_WORKERS
from holdfast.stores.postgres.connection import Line
from holdfast.stores.postgres.doorbells import Doorbell
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
WHILE = 0.04
"""Seconds until others are told that a run goes on: nobody waits for that but who watches it."""
SOON = 0.05
"""Seconds after which a worker begins to listen, if it has something to do at once."""
BACK_OFF = (0.1, 10.0)
"""First and longest wait before listening again, in seconds."""
PROBE = 30.0
"""Seconds after which a listener makes sure that it is still connected."""
EVERYBODY, WAITERS = "w", "c"
"""Whom a ring is for: workers and waiting clients, or only these."""


NIL = str(UUID(int=0))
HEX = str.maketrans("123456789abcdef", "0" * 15)
"""To tell whether a text looks like an id that we made."""


class Ringer:
    """Tells other processes that there is something to see."""

    def __init__(self, line: Line, me: str, bell: Doorbell | None = None) -> None:
        self._line, self._me, self._bell = line, me, bell
        self._rings = 0
        self.is_told = False
        """Whether there is something that others have not heard of, and will."""
        self._for_workers: set[str] = set()
        self._ready: list[str] = []
        """Which runs can be claimed, of those that are named to others."""
        self._rang = self._due = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._ringing: asyncio.Task[None] | None = None

    def ring(self, told: list[Notice]) -> None:
        """Have others look: at once, or a while later if a run only goes on."""
        is_first, is_urgent = not self.is_told, False
        self.is_told = True
        for notice in told:
            if notice.what != "events":
                is_urgent = True
                self._note(notice)
        if is_urgent:
            due = self._rang + MOMENT
        elif is_first:
            due = asyncio.get_running_loop().time() + WHILE
        else:
            return
        if is_first or due < self._due:
            self._due = due
            if self._ringing is None:
                self._aim()

    def _note(self, notice: Notice) -> None:
        if notice.what in FOR_WORKERS:
            self._for_workers.add(notice.what)
            if notice.what == "ready":
                self._ready.append(_named(notice))

    async def close(self) -> None:
        """Ring for what came last, and stop."""
        while self.is_told or self._ringing is not None:
            self._due = -math.inf
            if self._ringing is None:
                self._aim()
            await asyncio.gather(*filter(None, [self._ringing]), return_exceptions=True)

    def _aim(self) -> None:
        """Ring when it is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        if self._due <= loop.time():
            self._begin()
        else:
            self._timer = loop.call_at(self._due, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._ringing = asyncio.create_task(self._ring(), name="holdfast bells")

    async def _ring(self) -> None:
        payload = self._payload()
        self.is_told = False
        self._for_workers.clear()
        self._ready.clear()
        self._rang = asyncio.get_running_loop().time()
        try:
            if self._bell is not None and self._bell.ring(payload):
                # Who is near goes on at once. To wake everybody up now, them and the server, would
                # take the processors from that. Who is far away would wait for nothing.
                await asyncio.sleep(MOMENT)
            await self._line.fetch(SQL.notify, channel=CHANNEL, payload=payload)
        except (StoreError, *FAILED) as error:
            log.debug("nobody could be told: %s", error)  # they poll
        finally:
            self._ringing = None
        if self.is_told:
            self._aim()

    def _payload(self) -> str:
        """Return whom a ring is for, of whom and which it is, and what workers should look for."""
        self._rings += 1
        me = self._me if self._bell is None else f"{self._me}.{self._rings}"
        whats = self._for_workers
        what = f" {min(whats)}" if len(whats) == 1 else ""
        if whats == {"ready"} and len(self._ready) == 1:
            what += self._ready[0]
        return (EVERYBODY if whats else WAITERS) + me + what


def _named(notice: Notice) -> str:
    """Return how a run is named to other processes; nothing if a person gave it its name."""
    is_ours = len(notice.run) == len(NIL) and notice.run.translate(HEX) == NIL
    return f" {notice.ns} {notice.run}" if is_ours else ""


class Listener:
    """Hears what other processes ring, on a connection of its own, and comes back when it is cut.

    `hear` is called with what workers should look for; None, if they are not meant. It is also
    called when listening begins, and after each reconnect: what was rung before is lost.
    """

    def __init__(
        self,
        target: Target,
        me: str,
        hear: Callable[[Notice | None], None],
        bell: Doorbell,
        worker: str = "",
    ) -> None:
        self._target, self._me, self._hear, self._bell = target, me, hear, bell
        self.worker = worker
        """Whose ears these are, if a worker's."""
        self.statements = 0
        """How many round trips were made."""
        self._cut = asyncio.Event()
        self._is_connecting = self._is_over = False
        self._idle = asyncio.Event()
        self._task = asyncio.create_task(self._listen_for_life(), name="holdfast listener")

    def hurry(self) -> None:
        """Begin now: the worker has nothing to do, and waits for what it will hear."""
        self._idle.set()

    async def close(self) -> None:
        """Hear no more."""
        self._is_over = True
        self._bell.close()
        # The driver leaves something behind if it is stopped while it connects.
        if not self._is_connecting:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen_for_life(self) -> None:
        delay = BACK_OFF[0]
        if self.worker:
            # It looks at the queue by itself first, and what it takes needs the server and the
            # interpreter more.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SOON):
                    await self._idle.wait()
        while not (self._target.is_pooled or self._is_over):
            with contextlib.suppress(StoreError, *FAILED), asking():
                connection = await self._connected()
                try:
                    await self._listen(connection)
                    delay = BACK_OFF[0]
                finally:
                    connection.terminate()
            if self._is_over:
                return
            await asyncio.sleep(delay)
            delay = min(delay * 2, BACK_OFF[1])

    async def _connected(self) -> Connection:
        name = LISTENER + self.worker if self.worker else "holdfast listener"
        self._is_connecting = True
        try:
            return await self._target.connect({"application_name": name})
        finally:
            self._is_connecting = False

    async def _listen(self, connection: Connection) -> None:
        self._cut.clear()
        connection.add_termination_listener(lambda _: self._cut.set())
        if self._target.is_pooled or self._is_over:
            return
        self.statements += 1
        async with asyncio.timeout(CONNECT_SECONDS):
            await connection.add_listener(CHANNEL, self._notified)
        self._bell.hang(lambda said: self._rung(said, by_bell=True))
        self._hear(Notice())
        while not self._cut.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBE):
                    await self._cut.wait()
            # A link that swallows everything looks like one on which nothing happens.
            self.statements += 1
            await connection.fetchval(SQL.clock.text, timeout=CONNECT_SECONDS)

    def _notified(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        self._rung(str(payload), by_bell=False)

    def _rung(self, said: str, *, by_bell: bool) -> None:
        sender, _, told = said[1:].partition(" ")
        process, _, number = sender.partition(".")
        if process == self._me:
            return
        if number.isdigit() and not self._bell.is_news(process, int(number), by_bell=by_bell):
            return
        if not said.startswith(EVERYBODY):
            self._hear(None)
            return
        what, ns, run = (*told.split(" ", 2), "", "", "")[:3]
        self._hear(Notice(ns, run, what) if what else Notice())
