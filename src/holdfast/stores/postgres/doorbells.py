"""Bells between processes of one machine, beside NOTIFY.

A notice takes the way through the server: four processes have to wake up one after the other until
it is heard. Who is on the same machine gets it at once, in a datagram, and once more by NOTIFY,
which is then no news. Nobody has to be told where the bells are: each process is named after its
machine, its bell after it, and whoever hears a notice knows its neighbour from then on.

As all bells, these are hints: who does not get one hears the notice, and who hears nothing polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

PROC = Path("/proc")
MOST = 256
"""Processes, and rings of each, that are remembered."""
LONGEST = 512
"""Bytes of a notice."""


def new_name() -> str:
    """Return a name for this process that its neighbours recognise."""
    return f"{_machine()}{uuid4().hex}"


class Doorbell:
    """The bell of one process, and what it knows of its neighbours'."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._heard: dict[str, dict[int, None]] = {}
        """By process: which of its rings were heard by bell, and are not told by a notice yet."""
        self._bell: socket.socket | None = None

    def hang(self, hear: Callable[[str], None]) -> None:
        """Have rings of neighbours heard in this loop. Where that cannot be, nothing happens."""
        if not _machine() or self._bell is not None:
            return
        bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            bell.setblocking(False)
            bell.bind(_address(self._name))
            asyncio.get_running_loop().add_reader(bell, self._answer, bell, hear)
        except (OSError, NotImplementedError):
            bell.close()
        else:
            self._bell = bell

    def close(self) -> None:
        """Take it down."""
        bell, self._bell = self._bell, None
        if bell is not None:
            asyncio.get_running_loop().remove_reader(bell)
            bell.close()

    def is_news(self, process: str, number: int, *, by_bell: bool) -> bool:
        """Tell whether a ring of another process was not heard before. It is known from now on."""
        heard = self._heard.setdefault(process, {})
        _shorten(self._heard)
        if by_bell:
            heard[number] = None
            _shorten(heard)
            return True
        return heard.pop(number, 0) == 0

    def ring(self, said: str) -> bool:
        """Ring at all neighbours that are known; tell whether that is everybody who is known.

        Who is not there any more is forgotten.
        """
        bell, is_heard, is_all = self._bell, False, True
        if bell is None:
            return False
        for process in tuple(self._heard):
            if _machine() != process[: len(_machine())]:
                is_all = False
                continue
            try:
                bell.sendto(said.encode(), _address(process))
                is_heard = True
            except (ConnectionRefusedError, FileNotFoundError):
                del self._heard[process]
            except OSError:  # its bell is full: it wakes up anyway
                continue
        return is_heard and is_all

    def _answer(self, bell: socket.socket, hear: Callable[[str], None]) -> None:
        with contextlib.suppress(OSError):  # nothing is left
            while said := bell.recv(LONGEST):
                hear(said.decode(errors="replace"))


def _shorten(kept: dict[Any, Any]) -> None:
    if len(kept) > MOST:
        del kept[next(iter(kept))]


def _address(process: str) -> str:
    """Return where a process's bell is: no file, so nothing is left of who is killed."""
    return f"\0holdfast-{process}"


@cache
def _machine() -> str:
    """Return what processes have in common that reach each other's bells; empty: none do."""
    if sys.platform != "linux":
        return ""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        told = f"{boot} {os.readlink(PROC / 'self/ns/net')} {os.getuid()}"
    except OSError:
        return ""
    return blake2b(told.encode(), digest_size=6).hexdigest()
