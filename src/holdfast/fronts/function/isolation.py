"""Which steps can run in a process of their own."""

from __future__ import annotations

from typing import Any

from holdfast.errors import BadDefinition


def check_isolated(function: Any, isolate: object) -> None:
    """Refuse what no process could find. Raises `BadDefinition`."""
    name = str(getattr(function, "__name__", function))
    if isolate != "process":
        raise BadDefinition(
            what=f"isolate={isolate!r:.60} of step {name!r}", hint='Give isolate="process".'
        )
    qualname = str(getattr(function, "__qualname__", ""))
    if "<" in qualname or not qualname:
        raise BadDefinition(
            what=f"Step {name!r} is isolated, and is defined inside a function",
            hint="Define it at the top of its module: another process imports it from there.",
        )
