"""Forgetting blobs that nobody names.

A blob is put before the commit that names it. So one that nobody names is collected only after a
grace: its commit may be on its way. What is older and not named never will be, because each upload
has a name of its own, and rows that name a blob are only ever copied, inside one transaction. The
blobs are listed first and the names read after, as of one moment: whoever was copied meanwhile is
among them. Who seals rows anew names other blobs in them, and says when: for the grace from then on
nothing is collected, since somebody may have read a row before that, and not yet its blob.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import StoreMoved

if TYPE_CHECKING:
    from holdfast.stores.sealed.inspection import Inspection

GRACE = 24 * 3600 * 1_000_000
"""Microseconds for which a blob is kept that nobody names."""
OURS = re.compile(r"[0-9a-f]{64}-[0-9a-f]{16}((\.\w+)?\.part)?")
"""What a blob of ours is called, or the beginning of one that was never finished."""
AT_ONCE = 1_000


class Collected(NamedTuple):
    """What a collection found: blobs there are, those that went, and their bytes."""

    blobs: int = 0
    collected: int = 0
    freed: int = 0


async def collect(store: Inspection, *, grace: int = GRACE, only_looks: bool = False) -> Collected:
    """Delete blobs that were put longer ago than `grace`, and that no row names.

    Raises `StoreMoved` if the runs went elsewhere: what they name may be in the same place.
    """
    if store.blobs is None:
        return Collected()
    if place := await store.went_to():
        raise StoreMoved(role="source", place=place)
    before = store.inner.now() - grace
    total, old = 0, dict[str, int]()
    async for page in store.blobs.store.list():
        ours = [blob for blob in page if OURS.fullmatch(blob.name)]
        total += len(ours)
        old.update((blob.name, blob.size) for blob in ours if blob.at < before)
    if not old:
        return Collected(total)
    named = await store.named_blobs()
    if await store.rekeyed_at() > before:
        return Collected(total)
    gone = [name for name in old if name not in named]
    for begin in range(0, 0 if only_looks else len(gone), AT_ONCE):
        await store.blobs.store.delete(gone[begin : begin + AT_ONCE])
    return Collected(total, len(gone), sum(old[name] for name in gone))
