"""Opening a store that may be away.

Whoever is started together with the database, or during an outage of it, waits: a process that
ends instead has to be started again by somebody, and each time it would only end again. What
waiting does not mend (a wrong password, a schema of another release) is raised at once.
"""

from __future__ import annotations

import asyncio
import logging

from holdfast.errors import StoreUnavailable
from holdfast.ports.store import Store

log = logging.getLogger("holdfast.worker")

PATIENCE = (0.1, 5.0)
"""First and longest wait between two tries, in seconds."""
REMINDER = 60.0
"""Seconds after which the same trouble is told again."""


async def open_unless(stopping: asyncio.Event, store: Store) -> bool:
    """Open the store, however long that takes; return False if it was stopped before.

    Raises `StoreSettings` and `StoreVersion`.
    """
    opening = asyncio.ensure_future(_open(store))
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait((opening, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        opening.cancel()
        stopped.cancel()
        await asyncio.gather(opening, stopped, return_exceptions=True)
    return not opening.cancelled() and opening.result()


async def _open(store: Store) -> bool:
    loop, delay = asyncio.get_running_loop(), PATIENCE[0]
    began, said, again_at = loop.time(), "", 0.0
    while True:
        try:
            await store.open()
        except StoreUnavailable as error:
            trouble = str(error)
            if trouble != said or loop.time() >= again_at:
                log.warning("the store is away, and I wait for it: %s", trouble)
                said, again_at = trouble, loop.time() + REMINDER
        else:
            if said:
                log.warning("the store is there, after %.1f s", loop.time() - began)
            return True
        await asyncio.sleep(delay)
        delay = min(delay * 2, PATIENCE[1])
