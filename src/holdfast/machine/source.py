"""Where in the user's code a body waits, read from the chain of suspended coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from types import CodeType, FrameType
from typing import Any, NamedTuple

_OURS = str(PurePath(__file__).parents[1])
_ASYNCIO = str(PurePath(asyncio.__file__).parent)
_STDLIB = str(PurePath(asyncio.__file__).parents[1])


class Place(NamedTuple):
    """A line of code: `str` of it is `file.py:42 in checkout`."""

    code: CodeType
    line: int

    def __str__(self) -> str:
        return _line(self.code, self.line)


def source_of(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Return `file.py:42 in checkout` for the first task that waits, or "" if none does."""
    place = place_of(tasks)
    return "" if place is None else str(place)


def place_of(tasks: Iterable[asyncio.Task[Any]]) -> Place | None:
    """Return where the first task that waits does so."""
    for task in tasks:
        if not task.done():
            return _place(task.get_coro())
    return None


def own_line(frames: Sequence[FrameType]) -> str:
    """Return the innermost line of the user's own code; `frames` begin with the innermost.

    If all of it is installed code, the outermost counts: that is the function which was called.
    """
    outside = [frame for frame in frames if not frame.f_code.co_filename.startswith(_OURS)]
    own = (frame for frame in outside if not _is_installed(frame.f_code.co_filename))
    frame = next(own, outside[-1] if outside else None)
    return _line(frame.f_code, frame.f_lineno) if frame is not None else ""


def _is_installed(file: str) -> bool:
    return file.startswith((_STDLIB, "<frozen")) or "site-packages" in file


def _place(coro: Any) -> Place | None:
    """Name the innermost frame of the user's own code, or the innermost of all."""
    place: Place | None = None
    ours: Place | None = None
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)
        if frame is None:
            break
        ours = Place(frame.f_code, frame.f_lineno)
        if not frame.f_code.co_filename.startswith((_OURS, _ASYNCIO)):
            place = ours
        coro = getattr(coro, "cr_await", None) or getattr(coro, "gi_yieldfrom", None)
    return place or ours


def _line(code: CodeType, line: int) -> str:
    return f"{PurePath(code.co_filename).name}:{line} in {code.co_name}"
