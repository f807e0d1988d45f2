"""Settings of a step, given at its definition or for one call."""

from __future__ import annotations

from typing import Literal, NamedTuple

from holdfast.model.cache import Cache
from holdfast.model.retry import Retry

Isolate = Literal["process"]


class StepOptions(NamedTuple):
    """How a step is attempted. Times are microseconds; None means no limit."""

    retry: Retry = Retry()
    timeout: int | None = None
    total_timeout: int | None = None
    heartbeat_timeout: int | None = None
    at_most_once: bool = False
    """Whether it is recorded before it begins, and never begun twice."""
    transacts: bool = False
    """Whether it writes to a database of its own in the commit that records it."""
    queue: str | None = None
    """Where it waits for a worker that does it as a job; None: it runs where its run is."""
    queue_timeout: int | None = None
    """How long it may wait there before it begins."""
    queue_key: str = ""
    """Under which it takes turns there, if the queue has limits."""
    isolate: Isolate | None = None
    """Whether it runs in a process of its own."""
    cache: Cache | None = None
    """Which results of earlier calls it may use instead of running."""
