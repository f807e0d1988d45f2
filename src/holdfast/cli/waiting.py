"""Waiting for a run to end, without waiting for what will not come by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.proposing import typed
from holdfast.cli.telling import Failed
from holdfast.model.events import Event

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine

STUCK = ("blocked", "quarantined")
LOOK = 1.0


async def closing(engine: LocalEngine, run: str) -> Event:
    """Return the event that closed the run, when it has come.

    A run that somebody must mend first is not waited for: that ends with exit code 1.
    """
    import asyncio

    waiting = asyncio.ensure_future(engine.closing(run))
    try:
        while not (await asyncio.wait({waiting}, timeout=LOOK))[0]:
            row = (await engine.load(run, 1 << 62)).run
            if row.status in STUCK:
                raise Failed(
                    f"Run {run!r} is {row.status}: {row.reason}. "
                    f"`{typed('runs why', run)}` says what to do next."
                )
        return await waiting
    finally:
        waiting.cancel()
