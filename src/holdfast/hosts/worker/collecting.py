"""Collecting blobs that nobody names, every now and then, by each worker that could put some.

Two that do it at once do no harm: what one has deleted the other finds gone.
"""

from __future__ import annotations

import asyncio
import logging

from holdfast.errors import StoreError
from holdfast.ports.store import Store
from holdfast.stores.sealed import SealedStore

log = logging.getLogger("holdfast.worker")

EVERY = 6 * 3600.0
"""Seconds between two collections of a worker."""


async def collect_for_life(store: Store, every: float = EVERY) -> None:
    """Collect every so many seconds, if the store has blobs."""
    while isinstance(store, SealedStore) and store.blobs is not None:
        await asyncio.sleep(every)
        try:
            collected = await store.collect()
        except StoreError as error:
            log.warning("cannot collect blobs: %s", error)
        else:
            if collected.collected:
                log.info("%d blobs that nobody names are deleted", collected.collected)
