"""How the store does, as one worker sees it.

A store that refuses writes, because its disk is full or another program holds it, is a state, not a
series of errors: it is told once when it begins and once when it is over. Meanwhile the worker
keeps its runs and the results it holds, starts nothing new, and tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from holdfast.errors import StoreError

log = logging.getLogger("holdfast.worker")


class Health:
    """`trouble` is the error of a store that takes no writes, or None."""

    def __init__(self, healed: Callable[[], None]) -> None:
        self.trouble: StoreError | None = None
        self._healed = healed
        self._since = 0.0
        self._over_at = float("-inf")

    def failed(self, error: StoreError) -> None:
        """Note that the store could not do something."""
        if self.trouble is None:
            self._since = asyncio.get_running_loop().time()
            log.warning(
                "degraded: %s Runs and results are kept, no step is started, and I try again.",
                error,
            )
        self.trouble = error

    def works(self) -> None:
        """Note that the store took a write."""
        if self.trouble is not None:
            self.trouble = None
            self._over_at = asyncio.get_running_loop().time()
            log.warning("the store takes writes again after %.1f s", self._over_at - self._since)
            self._healed()

    def was_ill(self, seconds: float) -> bool:
        """Tell whether others may have been unable to renew within so many seconds."""
        if self.trouble is not None:
            return True
        return asyncio.get_running_loop().time() - self._over_at < seconds
