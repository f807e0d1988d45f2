"""The database's clock, as well as it is known here: never ahead of it, and it never goes back.

Each answer that tells the time bounds it: the server read its clock after the question was sent
and before the answer was heard. In between the estimate goes on by the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns


class DatabaseClock:
    """Microseconds since 1970 by the database's clock."""

    def __init__(self, ticks: Callable[[], int] = monotonic_ns) -> None:
        self._ticks = ticks
        self._offset: int | None = None
        self._latest = 0

    def __call__(self) -> int:
        """Return the time: no later than the database's, no less than ever before."""
        if self._offset is not None:
            self._latest = max(self._latest, self._ticks() // 1_000 + self._offset)
        return self._latest

    def ticked(self) -> int:
        """Return when a question is sent, for `learn`."""
        return self._ticks() // 1_000

    def learn(self, told: int, sent: int) -> None:
        """Take an answer into account whose question was `sent`: the database said it is `told`."""
        at_least, at_most = told - self._ticks() // 1_000, told - sent
        known = at_least if self._offset is None else self._offset
        self._offset = min(max(known, at_least), at_most)
