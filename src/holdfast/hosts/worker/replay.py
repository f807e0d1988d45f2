"""What a host, not the body, remembers of a history: attempts, cancel, pause, the latest time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.hosts.worker.attempts import Retrying
from holdfast.model.events import Event


class Folded(NamedTuple):
    """The host's side of a history."""

    last_at: int
    retries: dict[str, Retrying]
    cancelled_at: int | None
    paused: bool
    reopened_at: int
    reopened_seq: int


def fold(events: tuple[Event, ...], generation: int) -> Folded:
    """Return what the events left for the host to do. Attempts count within a generation."""
    retries: dict[str, Retrying] = {}
    cancelled_at: int | None = None
    paused = False
    last_at = reopened_at = reopened_seq = 0
    for event in events:
        if event.at > last_at:
            last_at = event.at
        if event.kind == "step.completed":
            continue
        if event.kind == "step.retrying" and event.generation == generation:
            fields = json.loads(event.payload or b"{}")
            error = f"{fields.get('type')}: {fields.get('message')}"[:200]
            retries[event.key] = Retrying(fields["attempt"], fields["retry_at"], error)
        elif event.kind == "cancel.requested":
            cancelled_at = cancelled_at or event.at
        elif event.kind in ("run.paused", "run.resumed"):
            paused = event.kind == "run.paused"
        elif event.kind == "run.reopened":
            reopened_at, reopened_seq = event.at, event.seq
    return Folded(last_at, retries, cancelled_at, paused, reopened_at, reopened_seq)


def reason(signals: tuple[str, ...], retries: Mapping[str, Retrying]) -> str:
    """Say what a parked run waits for, as `why` shows it."""
    parts = [f"signal {name}" for name in signals]
    parts += [
        f"attempt {retrying.attempts + 1} of {key} after {retrying.error}"
        for key, retrying in retries.items()
    ]
    return "; ".join(parts)[:500]
