"""A look at the keys when a worker begins: one without a key blocks what it takes, run by run."""

from __future__ import annotations

import logging

from holdfast.errors import StoreError
from holdfast.model.status import OPEN
from holdfast.model.writes import Filter, Page
from holdfast.ports.store import Store
from holdfast.stores.sealed import SealedStore
from holdfast.stores.sealed.opening import hidden_in, is_hidden

log = logging.getLogger("holdfast.worker")


async def look_at_keys(store: Store, ns: str) -> None:
    """Warn if the newest open run was encrypted with a key that is not here."""
    if not isinstance(store, SealedStore):
        return
    newest = Filter(ns, statuses=tuple(sorted(OPEN)))
    try:
        found = await store.inner.find(newest, Page(1))
    except StoreError:
        return  # whoever claims tells of it
    digest = found[0].input_digest if found else b""
    if not is_hidden(digest):
        return
    key, ids = hidden_in(digest)[0], () if store.keys is None else store.keys.ids
    if key not in ids:
        log.warning(
            "the newest open run is encrypted with key %r, and this worker has %s: it will block "
            "such runs. Give all workers of the store the same keys=, or HOLDFAST_KEYS.",
            key, ", ".join(ids) or "no keys",
        )  # fmt: skip
