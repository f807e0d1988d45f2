"""Who is alive on this file, and how to wake them.

Each listening process holds `flock` on a file of its own in `<file>-workers/` for life, so a dead
one is known at once. The file names a Unix datagram socket, where hints to look are sent, and the
machine's life in which the process began.
Workers are rung when work or mail may have come for them, and told what it is if it is one thing:
then they need not search. Clients are rung on every change.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import monotonic, time_ns

from holdfast.model.writes import Notice
from holdfast.stores.notices import FOR_WORKERS
from holdfast.stores.processes import boot

WORKER, CLIENT = "w", "c"
TICK = 50_000_000
"""Nanoseconds after which a later change of a folder surely shows in its time."""
ANYTHING = b"!"
LONGEST = 512
"""Bytes of what is said by a bell; what is longer is not said."""
MOMENT = 0.01
"""Seconds for which a street that was empty is taken for empty, by those who only have news of a
run that goes on. Whoever hangs a bell looks once more after that."""


class Doorbell:
    """One process's bell: its lock file and its socket, for as long as it is open."""

    def __init__(self, folder: Path, name: str, kind: str) -> None:
        _make(folder)
        self._path = f"{folder}/{name}"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.address = _address(name)
        self.socket.bind(_wire(self.address))
        # Locked and written before it has its name: nobody sees half a bell.
        draft = f"{folder}/.{name}"
        self._lock = os.open(draft, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.write(self._lock, f"{kind}{self.address}\n{boot()}".encode())
        os.rename(draft, self._path)

    def answer(self) -> list[Notice]:
        """Read away what was rung, and return what it says."""
        heard: list[Notice] = []
        with contextlib.suppress(BlockingIOError):
            while said := self.socket.recv(LONGEST):
                heard.append(_told(said))
        return heard

    def close(self) -> None:
        """Take the bell down."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        self.socket.close()
        os.close(self._lock)
        if not self.address.startswith("@"):
            Path(self.address).unlink(missing_ok=True)


class Street:
    """The bells of all processes on one file, as seen from one of them."""

    def __init__(self, folder: Path) -> None:
        _make(folder)
        self._folder = folder
        self._handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._seen = -1
        self._empty_until = 0.0
        self._bells: list[tuple[str, str]] = []
        self._lives: dict[str, str] = {}
        """In which life of the machine those began that were found dead."""
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self.own: set[str] = set()

    def ring(self, kinds: Iterable[str], told: Sequence[Notice] = ()) -> None:
        """Wake the other processes of these kinds; a bell that cannot be rung is passed over.

        They are told what it is about, if that is one thing.
        """
        said = _said(told)
        # The folder was removed, or no file is left to look into it: what was written counts.
        with contextlib.suppress(OSError):
            for kind, address in self._others():
                if kind in kinds:
                    with contextlib.suppress(OSError):
                        self._sender.sendto(said, _wire(address))

    def seems_empty(self) -> bool:
        """Tell whether nobody else was here a moment ago. To be sure takes a system call."""
        return monotonic() < self._empty_until

    def is_dead(self, name: str) -> bool:
        """Tell whether the process of that name is gone for sure."""
        if name in self.own:
            return False
        try:
            file = os.open(f"{self._folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            # It took its bell down, or never had one here, or we have no file left to look: then
            # only its lease can tell.
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._lives[name] = os.read(file, 500).decode().partition("\n")[2]
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            os.close(file)

    def has_outlived(self, name: str) -> bool:
        """Tell whether this machine has been up ever since a process began that is dead.

        Then all that it wrote is there, on the disk or on its way. False where it cannot be told.
        """
        return boot() != "" and self._lives.get(name) == boot()

    def bury(self, name: str) -> None:
        """Remove what a dead process left; one that was only frozen keeps its bell."""
        if self.is_dead(name):
            (self._folder / name).unlink(missing_ok=True)
        self._lives.pop(name, None)

    def close(self) -> None:
        """Let go of the folder and the sending socket."""
        os.close(self._handle)
        self._sender.close()

    def _others(self) -> list[tuple[str, str]]:
        # By its handle, not by name: this is asked after every commit.
        changed = os.stat(self._handle).st_mtime_ns
        if changed != self._seen:
            # Within one tick of the file system's clock another bell may still be hung unnoticed.
            settled = time_ns() - changed > TICK
            self._bells = [bell for bell in map(_read, self._folder.iterdir()) if bell[0]]
            self._seen = changed if settled else -1
        others = [bell for bell in self._bells if bell[1] not in self.own]
        self._empty_until = 0.0 if others else monotonic() + MOMENT
        return others


def _make(folder: Path) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, mode=0o700)


def _read(path: Path) -> tuple[str, str]:
    """Return a bell's kind and address, or two empty strings if there is none in this file."""
    if path.name.startswith("."):
        return "", ""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return "", ""
    address = text.partition("\n")[0]
    return address[:1], address[1:]


def _said(told: Sequence[Notice]) -> bytes:
    """Return how the one thing is said that workers should hear of, or that there is something."""
    mattering = [notice for notice in told if notice.what in FOR_WORKERS]
    if len(mattering) != 1:
        return ANYTHING
    said = "\0".join((mattering[0].what, mattering[0].ns, mattering[0].run)).encode()
    return said if len(said) <= LONGEST else ANYTHING


def _told(said: bytes) -> Notice:
    """Return what was said. Who knows nothing of it, or says what nobody says, says: look."""
    what, _, place = said.decode(errors="replace").partition("\0")
    ns, _, run = place.partition("\0")
    return Notice(ns, run, what) if what in FOR_WORKERS else Notice()


def _address(name: str) -> str:
    """Return a socket address short enough everywhere: abstract on Linux, else a temporary file."""
    if sys.platform == "linux":
        return f"@holdfast-{name}"
    return str(Path(tempfile.gettempdir()) / f"holdfast-{name[:40]}.sock")


def _wire(address: str) -> str:
    return "\0" + address[1:] if address.startswith("@") else address
