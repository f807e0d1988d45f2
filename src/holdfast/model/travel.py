"""A history at a moment: what counted then, and under which keys its steps were known outside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdfast.model.events import Event


def living(events: Sequence[Event]) -> tuple[Event, ...]:
    """Return the events that count."""
    return tuple(event for event in events if event.superseded_by is None)


def reopening(event: Event) -> dict[str, Any]:
    """Return what a `run.reopened` says of itself: from where, why, with which keys."""
    fields: dict[str, Any] = json.loads(event.payload or b"{}")
    return fields


def keyed_as(events: Sequence[Event], generation: int) -> int:
    """Return the generation that stands in the idempotency keys of a run.

    It is the run's own, unless its last reopening kept the keys of an earlier one.
    """
    last = next((event for event in reversed(events) if event.kind == "run.reopened"), None)
    if last is None or last.generation != generation:
        return generation
    kept: int = reopening(last).get("keys", generation)
    return kept
