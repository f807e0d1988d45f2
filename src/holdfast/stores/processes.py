"""Which processes of this machine have ended: known at once, where a lease would take its time.

A process is named by the machine's boot, its namespace of process ids, its id and the moment it
started. Whoever shares the first two can tell whether that very process still runs. Others, and
systems without `/proc`, cannot: to them nobody has ended.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

PROC = Path("/proc")
ENDED = frozenset({"Z", "X"})  # a state: dead, though its parent has not asked yet


def this() -> str:
    """Return the name of this process, or nothing where it cannot be told."""
    return _kept(os.getpid())


def name_of(pid: int) -> str:
    """Return the name of a process that runs on this machine now."""
    started = _stat(pid)[1]
    return f"{_here()} {pid} {started}" if _here() and started else ""


def has_ended(name: str) -> bool:
    """Tell whether the process of that name is known not to run any more."""
    parts = name.split(" ")
    if len(parts) != 4 or " ".join(parts[:2]) != _here() or not parts[2].isdigit():
        return False
    pid, started = int(parts[2]), parts[3]
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # it runs as somebody else
        return False
    state, since = _stat(pid)
    return state in ENDED or (since != "" and since != started)


_kept = cache(name_of)  # by id: a fork is another process


@cache
def boot() -> str:
    """Return the name of the machine's present life, or nothing where it cannot be told."""
    try:
        file = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(file, 100).decode().strip()
    finally:
        os.close(file)


@cache
def _here() -> str:
    """Return what all processes that see each other have in common."""
    try:
        return f"{boot()} {os.readlink(PROC / 'self/ns/pid')}" if boot() else ""
    except OSError:
        return ""


def _stat(pid: int) -> tuple[str, str]:
    """Return a process's state and when it started, in ticks since the boot."""
    try:
        # The second field is the program's name, in brackets, and may hold anything.
        fields = (PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]
