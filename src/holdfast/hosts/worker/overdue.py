"""Runs past their deadline: what they waited for then, and how they end.

The deadline is a column of the run, so that it survives every restart and is due by the store's
clock. When it has passed, the run's holder records `deadline.passed`: the body is cancelled as by a
cancel, may clean up for as long, and the run ends `timed_out` instead of `cancelled`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from holdfast.errors import HoldfastError
from holdfast.hosts.worker.attempts import Retrying
from holdfast.hosts.worker.turn import Draft
from holdfast.machine import Machine
from holdfast.model.asks import Ended
from holdfast.model.events import Event, Failure
from holdfast.model.run import Message, Run

LISTED = 5
"""How many awaited things a reason names."""


def awaited(machine: Machine, retries: Mapping[str, Retrying]) -> str:
    """Say what the body waits for, before the cancel makes it forget."""
    parts = [_step(key, retries.get(key)) for key in machine.asks]
    parts += [f"signal {name}" for name in machine.awaited_signals()]
    parts += [f"child {id}" for id in machine.awaited_children()]
    parts += [f"an answer to {key}" for key in machine.awaited_answers()]
    if not parts and machine.next_timer() is not None:
        parts = ["a timer"]
    if not parts:
        parts = [f"update {name}" for name in machine.awaited_updates()]
    more = f" and {len(parts) - LISTED} more" if len(parts) > LISTED else ""
    return ", ".join(parts[:LISTED]) + more or "nothing"


def _step(key: str, retrying: Retrying | None) -> str:
    if retrying is None:
        return f"step {key}"
    return f"attempt {retrying.attempts + 1} of step {key} after {retrying.error}"


def record(draft: Draft, due: int, waited_for: str) -> Event:
    """Add `deadline.passed` to the turn."""
    fields = {"due": due, "waited_for": waited_for}
    return draft.pass_deadline(due, json.dumps(fields, ensure_ascii=False).encode())


def waited_for(recorded: bytes | None) -> str:
    """Return what the body waited for, from the payload of `deadline.passed`."""
    return str(json.loads(recorded or b"{}").get("waited_for", ""))


def ending(ended: Ended, run: Run, waited: str | None) -> Ended:
    """Return how the run ends: timed out, if it was its deadline that cancelled the body."""
    if waited is None or ended.status != "cancelled":
        return ended
    return ended._replace(status="timed_out", failure=_failure(run, f"it waited for {waited}"))


def set_aside(
    draft: Draft,
    run: Run,
    error: HoldfastError,
    mail: tuple[Message, ...],
    notes: tuple[Event, ...],
    shape: bytes,
) -> None:
    """Block the run; one past its deadline ends instead, and can be retried after the fix."""
    if run.deadline is None or draft.at < run.deadline:
        draft.block(error, mail, notes, shape, run.deadline)
    else:
        why = f"it was blocked by {error.code}: {error.args[0]}"
        draft.expire(error, mail, notes, _failure(run, why), run.deadline)


def _failure(run: Run, why: str) -> Failure:
    due = datetime.fromtimestamp((run.deadline or 0) // 1_000_000, UTC)
    return Failure("RunTimeout", f"not done by {due:%Y-%m-%d %H:%M:%S} UTC; {why}")
