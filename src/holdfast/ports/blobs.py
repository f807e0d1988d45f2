"""The BlobStore port: where payloads go that are too large for a row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol


class Blob(NamedTuple):
    """What is known of a blob without reading it. `at` is when it was put, in microseconds."""

    name: str
    size: int
    at: int


class BlobStore(Protocol):
    """Keeps bytes under names. A name is put once, and never means other bytes.

    Every method may raise `StoreUnavailable`: then nothing was kept, or it does not matter.
    """

    async def open(self) -> None:
        """Be ready for the other calls. Raises `StoreSettings`."""
        ...

    async def close(self) -> None:
        """Let go of every resource."""
        ...

    async def put(self, name: str, data: bytes) -> None:
        """Keep the bytes, all of them or nothing, durable on return."""
        ...

    async def get(self, name: str) -> bytes | None:
        """Return the bytes; None if there is no such blob."""
        ...

    def list(self) -> AsyncIterator[Sequence[Blob]]:
        """Yield all blobs, some at a time. What is put meanwhile may be missing."""
        ...

    async def delete(self, names: Sequence[str]) -> None:
        """Forget blobs; one that is not there is forgotten already."""
        ...
