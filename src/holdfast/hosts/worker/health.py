"""How the store does, as one worker sees it.

A store that refuses writes, because its disk is full or another program holds it, is a state, not a
series of errors: it is told once when it begins and once when it is over. Meanwhile the worker
keeps its runs and the results it holds, starts nothing new, and tries again. On a disk that is
nearly full some writes pass and others do not: then only those that do not wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from holdfast.errors import StoreError

log = logging.getLogger("holdfast.worker")


class Health:
    """`trouble` is the error of a store that takes no writes, or None."""

    def __init__(
        self, noticed: Callable[[], None], healed: Callable[[], None], *, jump: float
    ) -> None:
        self.trouble: StoreError | None = None
        self._failing: set[str] = set()
        self._noticed, self._healed = noticed, healed
        self._since = 0.0
        self._over_at = float("-inf")
        self._jump, self._ahead = jump, float("inf")

    @property
    def is_degraded(self) -> bool:
        """Tell whether there is anything that the store did not take when it was tried last."""
        return self.trouble is not None or bool(self._failing)

    def failed(self, error: StoreError, who: str = "") -> None:
        """Note that the store could not do something for a run, or (empty) for the worker."""
        if not self._failing:
            self._since = asyncio.get_running_loop().time()
            log.warning(
                "degraded: %s Runs and results are kept, no step is started, and I try again.",
                error,
            )
        self._failing.add(who)
        if self.trouble is None:
            self._noticed()
        self.trouble = error

    def works(self, who: str = "") -> None:
        """Note that the store took a write of `who`: others may begin again."""
        self.forget(who)
        if self.trouble is not None:
            self.trouble = None
            self._over_at = asyncio.get_running_loop().time()
            self._healed()

    def forget(self, who: str) -> None:
        """Note that `who` waits no more."""
        if who in self._failing:
            self._failing.discard(who)
            if not self._failing:
                took = asyncio.get_running_loop().time() - self._since
                log.warning("no longer degraded: the store takes writes again after %.1f s", took)

    def look_at(self, now: int) -> None:
        """Compare the store's clock with our own: after a jump, leases look over that are not.

        A machine that was suspended looks the same from inside.
        """
        own = asyncio.get_running_loop().time()
        ahead = now / 1e6 - own
        if ahead - self._ahead > self._jump:
            self._over_at = own
        self._ahead = ahead

    def was_ill(self, seconds: float) -> bool:
        """Tell whether others may have been unable to renew within so many seconds."""
        if self.trouble is not None:
            return True
        return asyncio.get_running_loop().time() - self._over_at < seconds
