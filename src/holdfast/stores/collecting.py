"""A pause of Python's garbage collector while many rows are made into events.

Rows that stay make the collector look at every object of the process, several times, and find
nothing: for 10,000 events that takes as long as a fifth of their replay.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

MANY = 1_000
"""From so many events on it is worth while."""


@contextmanager
def paused() -> Generator[None]:
    """Collect nothing inside the block, which must not wait for anything."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
