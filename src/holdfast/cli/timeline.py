"""A history as bars: one line for each step, timer and message, with when it was under way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.model.events import Event
from holdfast.model.family import report_of

Outcome = Literal["done", "failed", "retrying", "open", "waiting"]

TIMES = "\u00d7"
NUMBER = re.compile(r"(#\d+|\[\d+\])")


@dataclass(slots=True)
class Bar:
    """All calls of one step (or timer, or signal) from the first begun to the last ended."""

    name: str
    kind: str
    begun: int
    ended: int
    outcome: Outcome = "open"
    calls: int = 0
    retries: int = 0
    cached: int = 0
    busy: int = 0

    @property
    def label(self) -> str:
        """The name, and how often it was called."""
        return f"{self.name} {TIMES}{self.calls}" if self.calls > 1 else self.name


OPENING = (
    "step.started", "step.deferred", "question.asked", "update.accepted", "child.started",
)  # fmt: skip
"""What has begun, and not ended yet."""


def bars_of(events: Sequence[Event]) -> list[Bar]:
    """Return one bar for each name, in the order in which they began."""
    bars: dict[tuple[str, str], Bar] = {}
    before = events[0].at if events else 0
    for event in events:
        kind = event.kind.partition(".")[0]
        if kind in ("step", "timer", "signal", "update", "cancel", "child", "question"):
            begun = _begun(event, before)
            name = _name(event)
            bar = bars.setdefault((kind, name), Bar(name, kind, begun, begun))
            _extend(bar, event, begun)
        before = event.at
    return sorted(bars.values(), key=lambda bar: bar.begun)


def _extend(bar: Bar, event: Event, begun: int) -> None:
    bar.begun, bar.ended = min(bar.begun, begun), max(bar.ended, event.at)
    bar.busy += event.ran_for or 0
    bar.cached += event.is_cached
    if event.kind in OPENING:
        bar.outcome = "open"
    elif event.kind == "step.retrying":
        bar.outcome = "retrying"
        bar.retries += 1
    else:
        bar.calls += 1
        failed = _is_failure(event) or bar.outcome == "failed"
        bar.outcome = "failed" if failed else "done"


def _is_failure(event: Event) -> bool:
    if event.kind == "child.closed":
        return report_of(event.payload).status != "completed"
    return event.kind == "step.failed"


def _begun(event: Event, before: int) -> int:
    if event.ran_for is not None:
        return event.at - event.ran_for
    # A timer leaves no trace when it starts; it was asked for at the event before, or earlier.
    return before if event.kind == "timer.fired" else event.at


def _name(event: Event) -> str:
    if event.kind == "cancel.requested":
        return "cancel"
    if event.kind == "deadline.passed":
        return "deadline"
    if event.kind == "signal.received":
        return f"signal {signal_in(event)}"
    if event.kind.startswith("update."):
        return f"update {signal_in(event)}"
    return NUMBER.sub("", event.key)


def signal_in(event: Event) -> str:
    """Return the name of the signal or update of an event; its key is `name/id`."""
    return event.key.partition("/")[0]


def steps_in(events: Sequence[Event]) -> int:
    """Return how many steps have ended."""
    return sum(event.kind in ("step.completed", "step.failed") for event in events)
