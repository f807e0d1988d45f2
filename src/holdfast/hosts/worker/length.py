"""How long a history may get: named in the log on the way there, and blocked at the limit.

A history is replayed from the run's start, or its last continuation, so what has come since then is
paid for at every restart.
"""

from __future__ import annotations

import logging
from functools import cache

log = logging.getLogger("holdfast.worker")


@cache  # one number for all runs
def noticed_at(limit: int) -> int:
    """Return the length from which on a history is named in the log."""
    return limit // 5


def notice(run: str, events: int, limit: int) -> int:
    """Name a long history in the log, and return the length to look at next: the limit."""
    if events < limit:
        told = "run %s has %d events, and the limit is %d: let its body continue as new before that"
        log.warning(told, run, events, limit)
    return limit
