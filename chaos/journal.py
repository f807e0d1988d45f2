"""Executions of steps, counted outside the store: a file that is only appended to.

A line is on disk before the step goes on: it stands for an effect in the world. Nothing that the
engine does can take it back. A process that is killed may leave a torn line, of a step that did
not go on; and a reader may see half of a line that is being written.
"""

from __future__ import annotations

import json
import os
import time
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, cast

import holdfast as hf
from holdfast.fronts.function.context import running
from holdfast.hosts.worker.steps import StepRun

VARIABLE = "HOLDFAST_CHAOS_JOURNAL"
STEP, END, FENCED = "step", "end", "fenced"

TAIL = 1 << 14
MOMENT = 300_000
"""Microseconds."""

_ME = os.urandom(4).hex()
_COUNT = count(1)


class Line(NamedTuple):
    """One execution of a step."""

    run: str
    key: str
    attempt: int
    epoch: int
    """Of the lease under which it was executed: who held the run then, or the job."""
    pid: int
    mark: str
    """Unlike that of any other execution. The step returns it."""
    at: int
    """Microseconds since 1970, by the machine's clock."""


class Refused(NamedTuple):
    """Commits of a host that were refused because others hold the run."""

    pid: int
    times: int


class End(NamedTuple):
    """The end of an execution, of those that say it."""

    mark: str
    at: int


class Pages(NamedTuple):
    """The whole journal."""

    lines: tuple[Line, ...] = ()
    refused: tuple[Refused, ...] = ()
    ends: tuple[End, ...] = ()


def note() -> str:
    """Write down that the running step is executed, bring it to disk, and return its mark."""
    attempt = cast("StepRun", running("note"))
    epoch, mark = attempt.epoch, f"{_ME}.{next(_COUNT)}"
    at = time.time_ns() // 1_000
    _append(STEP, Line(attempt.run, attempt.key, hf.attempt(), epoch, os.getpid(), mark, at))
    return mark


def note_end(mark: str) -> None:
    """Write down that an execution comes to its end, before anybody can know of it."""
    _append(END, End(mark, time.time_ns() // 1_000))


def note_refused(times: int) -> None:
    """Write down that commits of this process were refused."""
    _append(FENCED, Refused(os.getpid(), times))


def _append(kind: str, entry: tuple[Any, ...]) -> None:
    line = f"\n{json.dumps([kind, *entry])}\n"  # apart from one that was torn
    file = os.open(os.environ[VARIABLE], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        os.write(file, line.encode())
        os.fsync(file)
    finally:
        os.close(file)


def busy(path: Path) -> set[int]:
    """Return the processes that have executed a step in the last moment."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        tail = file.read().decode()
    since = time.time_ns() // 1_000 - MOMENT
    return {line.pid for line in _parsed(tail).lines if line.at > since}


def is_taken(path: Path, pid: int, start: int, step: str) -> bool:
    """Tell whether others execute a step that this process had begun, and not recorded.

    Only what is written down after `start`, a place in the file, is looked at.
    """
    with path.open("rb") as file:
        file.seek(max(0, start))
        lines = [each for each in _parsed(file.read().decode()).lines if each.key.startswith(step)]
    mine = {(line.run, line.key): line.epoch for line in lines if line.pid == pid}
    return any(line.epoch > mine.get((line.run, line.key), line.epoch) for line in lines)


def read(path: Path) -> Pages:
    """Return what was written down so far."""
    return _parsed(path.read_text())


def _parsed(text: str) -> Pages:
    """Return the lines that are whole."""
    whole = (line for line in text.splitlines() if line.startswith("[") and line.endswith("]"))
    entries = list(map(json.loads, whole))
    return Pages(
        tuple(Line(*rest) for kind, *rest in entries if kind == STEP),
        tuple(Refused(*rest) for kind, *rest in entries if kind == FENCED),
        tuple(End(*rest) for kind, *rest in entries if kind == END),
    )
