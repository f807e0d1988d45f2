"""What the factories of an app build with: a logger, the user's own services, and an end."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

log = logging.getLogger("holdfast.runtime")


class Lifecycle:
    """When the app is closed in this process: what is to be done then."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], Awaitable[None] | None]] = []
        self.is_closing = False

    def on_close(self, callback: Callable[[], Awaitable[None] | None]) -> None:
        """Have it called when the worker here has stopped; the last one goes first."""
        self._callbacks.append(callback)

    async def close(self) -> None:
        """Call what is to be called. One that fails does not keep the others from it."""
        self.is_closing = True
        while self._callbacks:
            callback = self._callbacks.pop()
            try:
                called = callback()
                if inspect.isawaitable(called):
                    await called
            except Exception:
                log.exception("what was to be done at the end failed")


@dataclass(frozen=True)
class Runtime:
    """Given to every factory of an app: `app.runtime = hf.Runtime(services={"images": images})`.

    Subclass it to have services as typed fields. Set it before the app is opened: runs that a
    former process left go on at once.
    """

    logger: logging.Logger = log
    services: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
