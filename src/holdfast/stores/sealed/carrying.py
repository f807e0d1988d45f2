"""Blobs on a move: each is put where the target looks before a row there names it.

So it is as with every write, and a move that goes on after a crash has nothing to remember: what it
copied is there, and what it copies again it puts again.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import MoveRefused
from holdfast.model.moving import Row
from holdfast.ports.blobs import BlobStore
from holdfast.ports.moving import Side
from holdfast.stores.envelope import fits, named_in
from holdfast.stores.sealed.collecting import OURS
from holdfast.stores.sealed.inspection import SealedSide


class Carrier:
    """Carries the blobs that rows name from one side to the other."""

    def __init__(self, source: BlobStore, target: BlobStore) -> None:
        self._source, self._target = source, target

    async def carry(self, rows: Sequence[Row]) -> None:
        """Put the blobs that these rows name. One that is lost in the source is lost: the rows say
        which it was, and the examination of a move does.
        """
        payloads = (value for row in rows for value in row if isinstance(value, bytes))
        for name in sorted(filter(OURS.fullmatch, named_in(payloads))):
            data = await self._source.get(name)
            if data is not None and fits(name, data):
                await self._target.put(name, data)


async def carrier(source: Side, target: Side) -> Carrier | None:
    """Return what carries blobs; None if there are none, or both sides look in one place.

    Raises `MoveRefused` if there are blobs, and the target has no place for them.
    """
    here, there = _blobs_of(source), _blobs_of(target)
    if here is None or str(here) == str(there):
        return None
    if there is not None:
        return Carrier(here, there)
    async for page in here.list():
        if page:
            raise MoveRefused(
                f"{source.place} has large payloads in {here}, and {target.place} has no blob "
                f"store. Say where they go with --blobs, as in --blobs s3://bucket/prefix."
            )
    return None


def _blobs_of(side: Side) -> BlobStore | None:
    return side.blobs if isinstance(side, SealedSide) else None
