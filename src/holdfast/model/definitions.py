"""What is kept of the code that ran: which shapes a workflow had, and when."""

from __future__ import annotations

from typing import NamedTuple


def shown(shape: bytes | None) -> str:
    """Return a shape as people see it."""
    return shape.hex()[:8] if shape else "unknown"


class Definition(NamedTuple):
    """One shape of one version of a workflow, as a process had it."""

    ns: str
    workflow: str
    version: str
    shape: bytes
    first_at: int
    last_at: int
    """When a process that has it last began to work on such runs."""
