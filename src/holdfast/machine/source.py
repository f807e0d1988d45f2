"""Where in the user's code a body waits, read from the chain of suspended coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import PurePath
from types import CodeType
from typing import Any

_OURS = str(PurePath(__file__).parents[1])
_ASYNCIO = str(PurePath(asyncio.__file__).parent)


def source_of(tasks: Iterable[asyncio.Task[Any]]) -> str:
    """Return `file.py:42 in checkout` for the first task that waits, or "" if none does."""
    for task in tasks:
        if not task.done():
            return _place(task.get_coro())
    return ""


def _place(coro: Any) -> str:
    """Name the innermost frame of the user's own code, or the innermost of all."""
    place = ours = ""
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)
        if frame is None:
            break
        ours = _line(frame.f_code, frame.f_lineno)
        if not frame.f_code.co_filename.startswith((_OURS, _ASYNCIO)):
            place = ours
        coro = getattr(coro, "cr_await", None) or getattr(coro, "gi_yieldfrom", None)
    return place or ours


def _line(code: CodeType, line: int) -> str:
    return f"{PurePath(code.co_filename).name}:{line} in {code.co_name}"
