"""What every reopening of a run has in common: a retry's, and a rerun's."""

from __future__ import annotations

import json
from collections.abc import Sequence

from holdfast.model.events import Event, EventKind

ATTEMPTS: frozenset[EventKind] = frozenset({
    "step.retrying", "step.started", "step.deferred", "child.started",
})  # fmt: skip
"""What comes before the answer to a key, and stops counting with it."""

TIMED: frozenset[EventKind] = frozenset({"run.started", "run.reopened", "run.forked"})
"""From these on a run has all of its time. A continuation leaves the deadline where it is."""


def length_of(history: Sequence[Event]) -> int:
    """Return how long a history is, superseded events counted: the number of its last event."""
    return max((event.seq for event in history), default=0)


def told(**fields: object) -> bytes | None:
    """Return what a reopening says of itself, without what is empty."""
    said = {name.rstrip("_"): value for name, value in fields.items() if value}
    return json.dumps(said).encode() if said else None


def deadline_of(history: Sequence[Event], deadline: int | None, at: int) -> int | None:
    """Give a run as long again as it had from its start, or from its last reopening or fork."""
    if deadline is None or not history:
        return None
    began = max(event.at for event in history if event.kind in TIMED)
    # The store stamps the reopening no earlier than the last event.
    return max(at, history[-1].at) + deadline - began
