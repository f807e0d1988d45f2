"""The watch: a thread that notices when the worker's event loop stands still, and names the line.

While runs are held it asks the loop for a sign of life now and then. If none comes, it looks at the
stack of the loop's thread, again and again until the loop goes on:

- a body that has been in one turn for `slow_turn` seconds computes too long;
- anything else that has kept the loop for `slow_loop` seconds is a step that blocks it, or code of
  the process around the worker.

Both are told in the log, once and then each time the length has doubled. Nothing is stopped: only
the code's owner knows whether it is right. The lease has a thread of its own, so no run is lost.
But a worker that has been *deaf* for `deaf` seconds is of no use to its other runs: it gives up its
lease, they go on elsewhere, and whatever it commits when it wakes is refused.

A worker without runs is not watched. The thread looks now and then whether it has some: to be woken
by each that comes would take the interpreter from it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from time import monotonic
from types import FrameType
from typing import Any, NamedTuple

from holdfast.fronts.function.context import CURRENT, Attempt
from holdfast.hosts.worker.inside import inside
from holdfast.machine.source import own_line
from holdfast.machine.spin import Spinner
from holdfast.model.settings import Settings

log = logging.getLogger("holdfast.worker")

_TURN = Spinner.drain.__code__
_STEP = inside.__code__
_CALLBACK = getattr(asyncio.Handle, "_run").__code__  # noqa: B009 - where asyncio calls anything
_frames: Callable[[], dict[int, FrameType]] = getattr(sys, "_current_frames")  # noqa: B009


class Busy(NamedTuple):
    """What keeps the loop: a turn of a body or a callback, in whose name, and where it is."""

    frame: FrameType | None
    is_turn: bool
    who: str
    source: str


class Watch:
    """Watches the loop it is started on, from a thread."""

    def __init__(self, settings: Settings, is_needed: Callable[[], bool]) -> None:
        self._slow_turn, self._slow_loop = settings.slow_turn, settings.slow_loop
        self._limit = settings.deaf or float("inf")
        self._is_needed = is_needed
        limits = (settings.slow_turn, settings.slow_loop, settings.deaf)
        self._pause = min(filter(None, limits), default=0) / 2
        self._stopped = threading.Event()
        self.is_deaf = False

    def aim(self) -> None:
        """Have the running loop watched, once `start` is called."""
        self._loop, self._watched = asyncio.get_running_loop(), threading.get_ident()

    def start(self) -> None:
        """Begin to watch, unless no setting asks for it. May be called in any thread."""
        if self._pause and not self._stopped.is_set():
            threading.Thread(target=self._serve, name="holdfast-watch", daemon=True).start()

    def stop(self) -> None:
        """Watch no more. The thread ends by itself."""
        self._stopped.set()

    # --- the thread

    def _serve(self) -> None:
        while not self._stopped.is_set():
            if self._is_needed():
                ticked = threading.Event()
                try:
                    self._loop.call_soon_threadsafe(ticked.set)
                except RuntimeError:  # the loop is closed
                    return
                if not ticked.wait(self._pause):
                    self._follow(ticked)
            self._stopped.wait(self._pause)

    def _follow(self, ticked: threading.Event) -> None:
        """Look until the loop goes on; tell what is too long."""
        began = since = monotonic()
        seen: FrameType | None = None
        told = 0.0
        while not self._stopped.is_set():
            busy, now = busy_of(_frames().get(self._watched)), monotonic()
            if busy.frame is not seen:
                seen, since = busy.frame, now
                told = told if not busy.is_turn else 0.0
            length = now - (since if busy.is_turn else began)
            limit = self._slow_turn if busy.is_turn else self._slow_loop
            if busy.frame is not None and limit and length >= max(limit, 2 * told):
                told = length
                _tell(busy, length)
            self._note_deafness(now - began)
            if ticked.wait(self._pause):
                break
        if self.is_deaf:
            self.is_deaf = False
            log.warning("the event loop goes on after %.1f s", monotonic() - began)

    def _note_deafness(self, length: float) -> None:
        if length >= self._limit and not self.is_deaf:
            self.is_deaf = True
            log.warning(
                "the event loop has stood still for %.1f s (Settings.deaf): the lease is renewed "
                "no more, and other workers will take the runs of this one over",
                length,
            )


def busy_of(innermost: FrameType | None) -> Busy:
    """Return what keeps a loop, from the innermost frame of its thread."""
    frames: list[FrameType] = []
    frame, attempt = innermost, None
    while frame is not None:
        if frame.f_code is _STEP:
            attempt = frame.f_locals["context"].get(CURRENT)
        if frame.f_code is _TURN:
            return Busy(frame, True, _body(frame), own_line(frames))
        if frame.f_code is _CALLBACK:
            # A task that a step made has its context.
            attempt = attempt or frame.f_locals["self"]._context.get(CURRENT)
            return Busy(frame, False, _step(attempt), own_line(frames))
        frames.append(frame)
        frame = frame.f_back
    return Busy(None, False, "", "")


def _body(frame: FrameType) -> str:
    machine: Any = getattr(frame.f_locals["self"], "machine", None)
    return (
        f"the body of run {machine.run} ({machine.body.__name__})" if machine else "a closed body"
    )


def _step(attempt: Attempt | None) -> str:
    if attempt is None:
        return "a callback outside of any step"
    return f"step {attempt.key} of run {attempt.run}"


def _tell(busy: Busy, length: float) -> None:
    if busy.is_turn:
        log.warning(
            "%s has computed for %.1f s without a pause, at %s; nothing else in this worker goes "
            "on meanwhile. Put the work in a step that is a plain `def`: that runs on a thread.",
            busy.who, length, busy.source,
        )  # fmt: skip
    else:
        log.warning(
            "the event loop has been blocked for %.1f s by %s, at %s. Await there, or make the "
            "step a plain `def`: that runs on a thread.",
            length, busy.who, busy.source,
        )  # fmt: skip
