"""A clock that a test moves by hand."""

from __future__ import annotations

BEGINNING = 1_800_000_000_000_000
"""A moment in January 2027, in microseconds since 1970."""
SECOND = 1_000_000
MINUTE = 60 * SECOND


class ManualClock:
    """Give it to a store as `clock=`: time stands still until `advance`."""

    def __init__(self, now: int = BEGINNING) -> None:
        self.now = now

    def __call__(self) -> int:
        """Return the present time in microseconds."""
        return self.now

    def advance(self, microseconds: int = SECOND) -> int:
        """Let time pass (or go back, as a bad clock does) and return the new time."""
        self.now += microseconds
        return self.now
