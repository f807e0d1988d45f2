"""The runs in a worker's hands, and those it parked.

A run in hand costs no task while it waits: one is made when something of it has to be awaited. The
machine of a run that was parked is kept for a while; the oldest is closed, never collected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import UNREADABLE, HoldfastError
from holdfast.model.run import SUSPECT, Run

if TYPE_CHECKING:
    from holdfast.hosts.worker.session import Session
    from holdfast.hosts.worker.worker import Worker

log = logging.getLogger("holdfast.worker")


class Hands:
    """What one worker holds."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.sessions: dict[str, Session] = {}
        self.parked: dict[str, Session] = {}
        self.leaving: dict[Session, None] = {}
        """Those that hold their runs no more, and whose tasks have not come round to it yet."""
        self._driving: set[asyncio.Task[None]] = set()
        self._emptied = asyncio.Event()

    def hold(self, session: Session) -> None:
        """Take a run into our hands, and go on with it."""
        self._take(session)
        session.poke()

    def begin(self, session: Session) -> None:
        """Take a run into our hands whose history is at hand, and have it begin."""
        self._take(session)
        self._worker.steps.soon(session.begin)

    def _take(self, session: Session) -> None:
        former = self.sessions.get(session.run.id)
        self.sessions[session.run.id] = session
        if former is not None:
            # We were given the run anew before we heard how its last commit went: that parked it,
            # or our lease was over.
            self.leaving[former] = None
            if former.lose():
                self.release(former)

    def take_parked(self, run: Run) -> Session | None:
        """Return the session of a run that was parked here; it is forgotten."""
        session = self.parked.pop(run.id, None)
        if session is not None and not session.run.is_same_as(run):
            session.machine.close()
            return None
        return session

    def drive(self, session: Session) -> None:
        """Have a task do what has to be awaited of a run in our hands."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._drive(session), name=f"holdfast {session.run.id}")
        self._driving.add(task)
        task.add_done_callback(self._driving.discard)

    async def _drive(self, session: Session) -> None:
        try:
            await session.drive()
        except UNREADABLE as error:
            await self._give_up(session, error)
        except Exception as error:
            log.exception("run %s broke its session", session.run.id)
            told = f"The worker failed on this run: {error!r}. Report it, with its log."
            await self._give_up(session, HoldfastError(told))
        else:
            if session.state != "held":
                self.release(session)

    async def _give_up(self, session: Session, error: HoldfastError) -> None:
        session.let_go()
        try:
            await session.give_up(error)
        finally:
            self.release(session)

    def release(self, session: Session) -> None:
        """Let go of a run that is out of our hands; keep its machine if it was parked."""
        worker, run = self._worker, session.run
        session.let_go()
        self.leaving.pop(session, None)
        if self.sessions.get(run.id) is not session:
            return  # it is in our hands anew
        del self.sessions[run.id]
        if not self.sessions:
            self._emptied.set()
        if worker.observing is not None:
            worker.observing.let_go(run, is_lost=session.state == "lost")
        if session.state == "parked":
            self._keep(session)
        if run.strikes >= SUSPECT or len(self.sessions) == worker.settings.runs - 1:
            worker.look_for_more()

    def _keep(self, session: Session) -> None:
        self.parked[session.run.id] = session
        while len(self.parked) > self._worker.settings.machines:
            self._evict()

    def _evict(self) -> None:
        self.parked.pop(next(iter(self.parked))).machine.close()

    # --- leaving

    def tell(self, what: Callable[[Session], None]) -> None:
        """Say something to every run in our hands."""
        for session in tuple(self.sessions.values()):
            what(session)

    async def empty(self, seconds: float) -> None:
        """Wait until every run is out of our hands, but no longer than that."""
        try:
            async with asyncio.timeout(seconds):
                while self.sessions:
                    self._emptied.clear()
                    await self._emptied.wait()
        except TimeoutError:
            return

    async def drop(self) -> None:
        """Let go of whatever is left, and of every machine."""
        for task in self._driving:
            task.cancel()
        await asyncio.gather(*self._driving, return_exceptions=True)
        self.tell(self.release)
        for session in tuple(self.leaving):
            self.release(session)
        while self.parked:
            self._evict()
