"""A clock that never goes back and never stands still."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns


class SteadyClock:
    """Microseconds since 1970 by the wall clock, whatever is done to that.

    Set forward, time goes forward: nobody can tell it from a suspended machine. Set back, time goes
    on from where it was at the pace of the monotonic clock, until the wall clock is ahead again: no
    timer waits for what was put back.
    """

    def __init__(
        self, wall: Callable[[], int] = time_ns, ticks: Callable[[], int] = monotonic_ns
    ) -> None:
        self._wall, self._ticks = wall, ticks
        self._latest = 0
        self._ticked = ticks() // 1_000

    def __call__(self) -> int:
        """Return the time, no less than ever before."""
        wall, ticked = self._wall() // 1_000, self._ticks() // 1_000
        if wall < self._latest:
            wall = self._latest + max(ticked - self._ticked, 0)
        self._latest, self._ticked = wall, ticked
        return wall

    def raise_to(self, mark: int) -> None:
        """Go on from `mark` if that is later."""
        self._latest = max(self._latest, mark)
