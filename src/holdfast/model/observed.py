"""An event as an observer is told of it: the fact, and the run that it is a fact of."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from holdfast.model.events import CLASS_OF, Event, EventKind, Failure
from holdfast.model.failures import EMPTY, decode_failure
from holdfast.model.run import Run

FAILURES: frozenset[EventKind] = frozenset(
    {"step.failed", "run.failed", "run.blocked", "run.timed_out", "run.compensation_failed"}
)
"""The kinds whose payload is a failure, if they have one."""


class ObservedEvent(NamedTuple):
    """One committed event of a run.

    `started_at` is when the run was created, in microseconds by the store's clock, as all times
    are. `latency` is how long a turn and its commit took, on the first event of what this process
    has just committed.
    """

    namespace: str
    run: str
    workflow: str
    version: str
    queue: str
    started_at: int
    event: Event
    latency: int | None = None
    number: int = 1
    """Which attempt of a step has completed, for `step.completed`."""

    @property
    def kind(self) -> EventKind:
        """What happened, as in `step.completed`."""
        return self.event.kind

    @property
    def seq(self) -> int:
        """Its place in the run's history."""
        return self.event.seq

    @property
    def at(self) -> int:
        """When it happened."""
        return self.event.at

    @property
    def key(self) -> str:
        """The key of the step, timer or message; empty for events of the run itself."""
        return self.event.key

    @property
    def step(self) -> str:
        """The name of the step, for events of steps; else empty."""
        if not self.event.kind.startswith("step."):
            return ""
        return self.event.key.rpartition("/")[2].rpartition("#")[0]

    @property
    def closes(self) -> bool:
        """Tell whether the run ends with it."""
        return CLASS_OF[self.event.kind] == "close"

    @property
    def cached(self) -> bool:
        """Tell whether it is the end of a step that did not run: its result is a former call's."""
        return self.event.is_cached

    @property
    def attempt(self) -> int:
        """Which attempt of a step it tells of; 0 if it tells of none."""
        if self.event.kind == "step.completed":
            return 0 if self.event.is_cached else self.number
        if self.event.kind == "step.failed":
            return self.failure.attempts
        if self.event.kind in ("step.started", "step.retrying"):
            return int(self._said().get("attempt", 0))
        return 0

    @property
    def retry_at(self) -> int | None:
        """When the next attempt may begin, for `step.retrying`."""
        return self._said().get("retry_at") if self.event.kind == "step.retrying" else None

    @property
    def due(self) -> int | None:
        """When a timer was to fire, for `timer.fired`."""
        return int(self.event.payload or 0) if self.event.kind == "timer.fired" else None

    @property
    def failure(self) -> Failure:
        """Why it failed, for what failed; else one without a type."""
        if self.event.kind in FAILURES:
            return decode_failure(self.event.payload)
        if self.event.kind != "step.retrying":
            return EMPTY
        told = self._said()
        said = {name: told.get(name, "") for name in ("type", "message", "traceback")}
        return EMPTY._replace(**said, attempts=told["attempt"])

    def _said(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(self.event.payload or b"{}"))


def observed(run: Run, event: Event) -> ObservedEvent:
    """Return an event of this run as observers are told of it."""
    return ObservedEvent(
        run.ns, run.id, run.workflow, run.version, run.queue, run.created_at, event
    )


Retried = dict[tuple[int, str], int]
"""Attempts of steps so far, by generation and key, of those that were tried again."""


def observed_all(
    run: Run, events: Iterable[Event], retried: Retried | None = None
) -> list[ObservedEvent]:
    """Return events of this run, in their order, as observers are told of them.

    They are all there are, or follow those with which `retried` was given before.
    """
    retried = {} if retried is None else retried
    told: list[ObservedEvent] = []
    for event in events:
        each, key = observed(run, event), (event.generation, event.key)
        if event.kind == "step.retrying":
            retried[key] = each.attempt
        elif event.kind == "step.completed" and key in retried:
            each = each._replace(number=retried[key] + 1)
        told.append(each)
    return told
