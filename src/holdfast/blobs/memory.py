"""Blobs in memory: for `memory://` and for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from holdfast.ports.blobs import Blob


class MemoryBlobs:
    """Keeps blobs for as long as the object lives."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.kept: dict[str, tuple[bytes, int]] = {}

    async def open(self) -> None:
        """Be ready."""

    async def close(self) -> None:
        """Keep them all: others may use them."""

    async def put(self, name: str, data: bytes) -> None:
        """Keep the bytes."""
        self.kept[name] = (data, self._clock())

    async def get(self, name: str) -> bytes | None:
        """Return the bytes, if they are there."""
        found = self.kept.get(name)
        return None if found is None else found[0]

    async def list(self) -> AsyncIterator[Sequence[Blob]]:
        """Yield all blobs."""
        yield [Blob(name, len(data), at) for name, (data, at) in self.kept.items()]

    async def delete(self, names: Sequence[str]) -> None:
        """Forget blobs."""
        for name in names:
            self.kept.pop(name, None)
