"""A worker as operators see it."""

from __future__ import annotations

from typing import NamedTuple


class WorkerRow(NamedTuple):
    """A worker as its store knows it: by its lease, and by whether its process listens."""

    id: str
    lease_until: int | None
    started_at: int | None
    is_listening: bool
    info: str = ""
    """What it says of itself, as JSON: app, host, process, release, workflows."""
    runs: int = 0
    """How many runs it holds."""
    jobs: int = 0
    """How many jobs of others' runs it has begun."""
