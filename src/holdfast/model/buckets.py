"""Where a run is: each open run is in exactly one bucket, so that none is ever lost.

The same predicates stand in the stores' `buckets` query. They are written one by one and not as a
chain of else-ifs, because a run that fits two of them, or none, is what the check looks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from holdfast.model.run import CANCEL_REQUESTED, Run
from holdfast.model.status import CLOSED, QUEUED

Bucket = Literal[
    "claimable", "leased", "orphaned", "due", "waiting", "paused", "blocked", "quarantined",
    "closed", "lost",
]  # fmt: skip

Leases = Mapping[str, int]
Test = Callable[[Run, Leases, int], bool]


def _is_queued(run: Run) -> bool:
    return run.status in QUEUED and run.owner is None and run.wake_at is not None


def _is_claimable(run: Run, workers: Leases, now: int) -> bool:
    return _is_queued(run) and (run.wake_at or 0) <= now


def _is_due_later(run: Run, workers: Leases, now: int) -> bool:
    return _is_queued(run) and (run.wake_at or 0) > now


def _is_leased(run: Run, workers: Leases, now: int) -> bool:
    return run.status == "running" and run.owner is not None and workers.get(run.owner, 0) > now


def _is_orphaned(run: Run, workers: Leases, now: int) -> bool:
    return run.status == "running" and run.owner is not None and workers.get(run.owner, 0) <= now


def _is_waiting(run: Run, workers: Leases, now: int) -> bool:
    """Tell whether only a message can wake it. One that came and did not is a lost wake-up."""
    woken = run.has_mail or run.cancel == CANCEL_REQUESTED
    return run.status == "waiting" and run.owner is None and run.wake_at is None and not woken


def _is_paused(run: Run, workers: Leases, now: int) -> bool:
    return run.status == "paused" and run.owner is None


def _is_blocked(run: Run, workers: Leases, now: int) -> bool:
    return run.status == "blocked" and run.owner is None


def _is_quarantined(run: Run, workers: Leases, now: int) -> bool:
    return run.status == "quarantined" and run.owner is None


def _is_closed(run: Run, workers: Leases, now: int) -> bool:
    return run.status in CLOSED and run.owner is None


BUCKETS: Mapping[Bucket, Test] = {
    "claimable": _is_claimable,
    "leased": _is_leased,
    "orphaned": _is_orphaned,
    "due": _is_due_later,
    "waiting": _is_waiting,
    "paused": _is_paused,
    "blocked": _is_blocked,
    "quarantined": _is_quarantined,
    "closed": _is_closed,
}


def buckets_of(run: Run, workers: Leases, now: int) -> tuple[Bucket, ...]:
    """Return every bucket the row fits; a sound row fits exactly one."""
    return tuple(name for name, fits in BUCKETS.items() if fits(run, workers, now))


def bucket_of(run: Run, workers: Leases, now: int) -> Bucket:
    """Return the one bucket of `run`, or `lost` if it fits none or several.

    `claimable`: any worker may take it. `leased`: a living worker has it. `orphaned`: its worker's
    lease is over, so it is claimable once reaped. `due`: a timer or a delay ends at `wake_at`.
    `waiting`: for a message. The others are the statuses of that name.
    """
    found = buckets_of(run, workers, now)
    return found[0] if len(found) == 1 else "lost"
