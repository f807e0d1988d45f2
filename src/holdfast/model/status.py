"""Statuses of runs and steps, and the legal moves between them.

The tables are the truth: the kernel's guards are built from them, a test walks them, and the
diagrams in docs/design are drawn from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

RunStatus = Literal[
    "pending", "running", "waiting", "paused", "blocked", "quarantined",
    "completed", "failed", "cancelled", "terminated", "timed_out", "compensation_failed", "moved",
]  # fmt: skip

StepStatus = Literal["asked", "running", "retrying", "completed", "failed", "dropped"]

_CLOSING: frozenset[RunStatus] = frozenset(
    {"completed", "failed", "cancelled", "timed_out", "compensation_failed", "moved"}
)

RUN_MOVES: Mapping[RunStatus, frozenset[RunStatus]] = {
    "pending": frozenset(
        {"pending", "running", "paused", "quarantined", "terminated", "timed_out"}
    ),
    "running": frozenset[RunStatus]({"pending", "waiting", "paused", "blocked", "terminated"})
    | _CLOSING,
    "waiting": frozenset({"pending", "running", "paused", "quarantined", "terminated"}),
    "paused": frozenset({"pending", "running", "waiting", "terminated"}),
    "blocked": frozenset({"pending", "running", "waiting", "terminated"}),
    "quarantined": frozenset({"pending", "waiting", "terminated"}),
    "completed": frozenset({"pending"}),
    "failed": frozenset({"pending"}),
    "cancelled": frozenset({"pending"}),
    "terminated": frozenset({"pending"}),
    "timed_out": frozenset({"pending"}),
    "compensation_failed": frozenset({"pending"}),
    "moved": frozenset(),
}

STEP_MOVES: Mapping[StepStatus, frozenset[StepStatus]] = {
    "asked": frozenset({"running", "dropped"}),
    "running": frozenset({"retrying", "completed", "failed", "dropped"}),
    "retrying": frozenset({"running", "failed", "dropped"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "dropped": frozenset(),
}

OPEN: frozenset[RunStatus] = frozenset(
    {"pending", "running", "waiting", "paused", "blocked", "quarantined"}
)
CLOSED: frozenset[RunStatus] = frozenset(RUN_MOVES) - OPEN
QUEUED: frozenset[RunStatus] = frozenset({"pending", "waiting"})
ASIDE: frozenset[RunStatus] = frozenset({"paused", "blocked", "quarantined"})
"""Set aside until a person acts: a cancel puts such a run back into the queue."""
CLAIMABLE: frozenset[RunStatus] = QUEUED | frozenset[RunStatus]({"paused", "blocked"})
"""A paused or blocked run has a `wake_at` only if it has a deadline, and is claimed then."""


def movable_to(status: RunStatus) -> frozenset[RunStatus]:
    """Return the statuses from which a run may become `status`."""
    return frozenset(origin for origin, moves in RUN_MOVES.items() if status in moves)
