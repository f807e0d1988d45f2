"""Blobs as files of a directory, in folders by the first two letters of their names.

A file is written under a name that nobody else has, synced, renamed, and its folder is synced: it
is whole and durable before `put` returns, and before anything names it. Two may put one blob at the
same time, and one of them may die; a draft of both would then be named while it is half written.
Work with files is done in a thread, unless `threaded` is False.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from tempfile import mkstemp
from typing import TypeVar

from holdfast.errors import StoreFull, StoreUnavailable
from holdfast.ports.blobs import Blob

T = TypeVar("T")

DRAFT = ".part"
FULL = frozenset({28, 122})  # ENOSPC, EDQUOT


class FileBlobs:
    """Keeps blobs in a directory, which is made when the first one comes."""

    def __init__(self, folder: str | Path, *, threaded: bool = True) -> None:
        self.folder: Path = Path(folder)
        self._threaded = threaded

    def __str__(self) -> str:
        return str(self.folder)

    async def open(self) -> None:
        """Be ready."""

    async def close(self) -> None:
        """Nothing is held."""

    async def put(self, name: str, data: bytes) -> None:
        """Write the file, sync it, and only then give it its name."""
        await self._do(lambda: self._put(name, data))

    async def get(self, name: str) -> bytes | None:
        """Read the file, if it is there."""
        return await self._do(lambda: self._get(name))

    async def list(self) -> AsyncIterator[Sequence[Blob]]:
        """Yield the files of one folder after the other."""
        for folder in await self._do(self._folders):
            yield await self._do(lambda folder=folder: _listed(folder))  # type: ignore[misc]

    async def delete(self, names: Sequence[str]) -> None:
        """Remove files, and drafts that a dead process left."""

        def remove() -> None:
            for name in names:
                self._place(name).unlink(missing_ok=True)

        await self._do(remove)

    def _place(self, name: str) -> Path:
        return self.folder / name[:2] / name

    def _put(self, name: str, data: bytes) -> None:
        place = self._place(name)
        is_new = not place.parent.is_dir()
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened, draft = mkstemp(DRAFT, f"{name}.", place.parent)  # only its owner may read it
        try:
            with open(opened, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, place)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
        _sync(place.parent)
        if is_new:
            _sync(self.folder)
            _sync(self.folder.parent)

    def _get(self, name: str) -> bytes | None:
        try:
            return self._place(name).read_bytes()
        except FileNotFoundError:
            return None

    def _folders(self) -> Sequence[Path]:
        if not self.folder.is_dir():
            return ()
        return sorted(each for each in self.folder.iterdir() if each.is_dir())

    async def _do(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work) if self._threaded else work()
        except OSError as error:
            told = f"The blobs in {str(self.folder)!r} cannot be used: {error}. Try again."
            kind = StoreFull if error.errno in FULL else StoreUnavailable
            raise kind(told) from error


def _listed(folder: Path) -> list[Blob]:
    found: list[Blob] = []
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):  # removed in this very moment
            known = entry.stat()
            found.append(Blob(entry.name, known.st_size, known.st_mtime_ns // 1_000))
    return found


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
