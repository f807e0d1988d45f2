"""What one attempt of a step says, from whichever thread it does so, and its silence."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.machine.spin import running_loop
from holdfast.model.annotations import MAX_LINES, LogLine, Progress

if TYPE_CHECKING:
    from holdfast.hosts.worker.session import Session
    from holdfast.hosts.worker.steps import StepRun


class Voice:
    """Takes lines and heartbeats to the run's notebook. Made when an attempt first speaks."""

    __slots__ = (
        "_epoch", "_is_called", "_loop", "_said", "_session", "beat_at", "earlier", "key", "said",
        "step", "unsaid",
    )  # fmt: skip

    def __init__(self, step: StepRun, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self.step, self.key = step, step.key
        self._session = session
        notebook = session.notebook
        self.earlier: Progress | None = notebook.known.get(step.key) if notebook else None
        self.said = self.unsaid = 0
        self._loop = loop
        self.beat_at = loop.time()
        self._epoch = session.run.epoch
        self._said: deque[LogLine | Voice | bytes | None] = deque()
        self._is_called = False

    def beat(self, details: bytes | None) -> None:
        """Say that the attempt is alive, and how far it is."""
        self.beat_at = self._loop.time()
        self._said.append(details)
        self._call()

    def say(self, line: LogLine) -> None:
        """Leave a line in the run's log, if the attempt has not left too many."""
        if self.said < MAX_LINES:
            self.said += 1
            self._said.append(line._replace(key=self.key, attempt=self.step.number))
        else:
            self.unsaid += 1
            if self.unsaid > 1:
                return
            self._said.append(self)
        self._call()

    def _call(self) -> None:
        if running_loop() is self._loop:
            self._arrive()
        elif not self._is_called:
            self._is_called = True
            with suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        """Hand over what was said, in the loop's thread. A result comes after it, as it was sent
        after it."""
        self._is_called = False
        session, step = self._session, self.step
        is_heard = session.state == "held" and session.run.epoch == self._epoch
        notebook = session.notes() if is_heard else None
        while self._said:
            said = self._said.popleft()
            if notebook is None:
                continue
            if isinstance(said, LogLine):
                notebook.add(said)
            elif isinstance(said, Voice):
                notebook.crowd(said)
            elif session.running.get(self.key) is step:
                notebook.beat(self.key, step.number, said)


class Silence:
    """Ends an attempt that sends no heartbeat for so many `seconds`, by way of its time-out."""

    __slots__ = ("_due", "_loop", "_timeout", "_timer", "_voice", "is_over", "seconds")

    def __init__(self, voice: Voice, timeout: asyncio.Timeout, seconds: float) -> None:
        self._voice, self._timeout, self.seconds = voice, timeout, seconds
        self._loop = asyncio.get_running_loop()
        self.is_over = False
        voice.beat_at = self._loop.time()
        self._wait_until(voice.beat_at + seconds)

    def stop(self) -> None:
        """Listen no more: the attempt has ended."""
        self._timer.cancel()

    def _wait_until(self, due: float) -> None:
        self._due = due
        self._timer = self._loop.call_at(due, self._listen)

    def _listen(self) -> None:
        now, due = self._loop.time(), self._voice.beat_at + self.seconds
        if now < due:
            self._wait_until(due)
        elif now - self._due > self.seconds / 2:
            # The loop itself stood still, so the step may have had no chance to speak.
            self._wait_until(now + self.seconds)
        elif not self._timeout.expired():
            self.is_over = True
            self._timeout.reschedule(now)
