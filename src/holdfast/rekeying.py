"""Sealing a store anew, as a program asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from holdfast.compose import store_of
from holdfast.errors import StoreSettings
from holdfast.model.rekeying import Rekeyed, RekeySight
from holdfast.ports.blobs import BlobStore
from holdfast.ports.keys import Keys
from holdfast.stores.sealed import SealedStore
from holdfast.stores.sealed.rekeying import rekey as reseal


async def rekey(
    url: str,
    *,
    keys: Keys | None = None,
    blobs: str | BlobStore | None = None,
    dry_run: bool = False,
    tell: Callable[[RekeySight], None] = lambda sight: None,
) -> Rekeyed:
    """Encrypt everything in a store anew that another key of the ring encrypted.

    Workers may go on meanwhile, if they have the same ring. Whoever is stopped on the way asks
    again. `keys` and `blobs` are those of `App.open`; `tell` hears how far it has come. Raises
    `StoreSettings` if there are no keys, or nothing to share the store with.
    """
    if url.startswith("memory:"):
        raise StoreSettings(
            f"{url} lives and dies with its process. Name a file or a database that stays."
        )
    store = cast("SealedStore", store_of(url, keys=keys, blobs=blobs))
    if store.keys is None:
        raise StoreSettings(
            "There are no keys to encrypt with. Set HOLDFAST_KEYS, or pass keys=hf.KeyRing(...)."
        )
    side = store.side()
    await side.open()
    try:
        return await reseal(side, store.keys, side.blobs, only_looks=dry_run, tell=tell)
    finally:
        await side.close()
