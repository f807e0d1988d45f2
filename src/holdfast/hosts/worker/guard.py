"""Putting the guard in its place, once a process: see `holdfast.machine.guard`."""

from __future__ import annotations

import functools
import sys
import threading

from holdfast.machine import guard

_installed = threading.Event()


def install() -> None:
    """Have bodies watched from now on. May be called again."""
    if _installed.is_set():
        return
    _installed.set()
    sys.addaudithook(guard.hear)
    start = threading.Thread.start

    @functools.wraps(start)
    def guarded(self: threading.Thread) -> None:
        guard.hear("threading.Thread.start", (self,))  # Python 3.11 has no audit event for it
        start(self)

    threading.Thread.start = guarded  # type: ignore[method-assign]
