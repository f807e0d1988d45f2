"""Runs that keep killing their workers: who is set apart, and with which words."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import UNREADABLE
from holdfast.model.commands import QuarantineRun
from holdfast.model.events import Event
from holdfast.model.run import SINCE_START, Run
from holdfast.ports.store import Store


async def history_of(store: Store, run: Run) -> Sequence[Event]:
    """Return what there is to judge by: nothing, if it cannot be read."""
    try:
        loaded = await store.load(run.ns, run.id, SINCE_START)
    except UNREADABLE:
        return ()
    return () if loaded is None else loaded.events


def verdict(run: Run, history: Sequence[Event], at: int) -> QuarantineRun:
    """Return the command that sets `run` apart, unless something gave it new credit meanwhile."""
    last = run.reason or "its last worker is unknown"
    reason = (
        f"Lost with its worker {run.strikes} times in a row without progress; {last}; last step "
        f"known to run: {_last_step(history)}. Mend the crash, then `holdfast runs retry {run.id}`."
    )
    return QuarantineRun(run.ns, run.id, at, reason, run.strikes)


def _last_step(history: Sequence[Event]) -> str:
    """Return the step that began last and was not answered; a quick one leaves no trace."""
    answered = {event.key for event in history if event.kind in ("step.completed", "step.failed")}
    started = [event.key for event in history if event.kind == "step.started"]
    unanswered = [key for key in started if key not in answered]
    return unanswered[-1] if unanswered else "unknown"
