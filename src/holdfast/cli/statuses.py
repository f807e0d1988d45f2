"""How statuses and events look: a shape, a word and a colour, never a colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.cli.terminal import Cell
from holdfast.model.status import RunStatus

Style = Mapping[str, Any]

BLUE: Style = {"fg": "blue"}
GREEN: Style = {"fg": "green"}
YELLOW: Style = {"fg": "yellow"}
RED: Style = {"fg": "red"}
CYAN: Style = {"fg": "cyan"}
DIM: Style = {"fg": "bright_black"}
DASH = "\u2013"


class Look(NamedTuple):
    """An icon and its colour."""

    icon: str
    style: Style


STATUSES: Mapping[RunStatus, Look] = {
    "pending": Look("○", DIM),
    "running": Look("●", BLUE),
    "waiting": Look("‖", YELLOW),
    "paused": Look("‖", DIM),
    "blocked": Look("!", RED),
    "quarantined": Look("!", RED),
    "completed": Look("✓", GREEN),
    "failed": Look("✗", RED),
    "cancelled": Look(DASH, DIM),
    "terminated": Look(DASH, DIM),
    "timed_out": Look("✗", RED),
    "compensation_failed": Look("✗", RED),
    "moved": Look("→", DIM),
}

EVENTS: Mapping[str, Look] = {
    "run.started": Look("○", DIM),
    "run.continued": Look("○", DIM),
    "step.started": Look("●", BLUE),
    "step.retrying": Look("↻", YELLOW),
    "step.deferred": Look("‖", YELLOW),
    "question.asked": Look("?", YELLOW),
    "question.answered": Look("✓", GREEN),
    "answer.unused": Look("←", DIM),
    "step.completed": Look("✓", GREEN),
    "step.failed": Look("✗", RED),
    "timer.fired": Look("◷", CYAN),
    "signal.received": Look("←", CYAN),
    "cancel.requested": Look("←", YELLOW),
    "deadline.passed": Look("←", YELLOW),
    "update.accepted": Look("←", CYAN),
    "update.completed": Look("✓", GREEN),
    "update.failed": Look("✗", RED),
    "child.started": Look("▸", DIM),
    "child.closed": Look("✓", GREEN),
    "run.paused": Look("‖", YELLOW),
    "run.resumed": Look("●", BLUE),
    "run.blocked": Look("!", RED),
    "run.quarantined": Look("!", RED),
    "run.reopened": Look("●", BLUE),
    "run.forked": Look("●", BLUE),
}


def status_cell(status: RunStatus) -> Cell:
    """Return the icon and the word."""
    look = STATUSES[status]
    return Cell(f"{look.icon} {status}", look.style)


def event_look(kind: str) -> Look:
    """Return how an event looks; a close looks like the status it gave."""
    if kind in EVENTS:
        return EVENTS[kind]
    noun, _, status = kind.partition(".")
    known: Any = status
    return STATUSES.get(known, Look("·", DIM)) if noun == "run" else Look("·", DIM)
