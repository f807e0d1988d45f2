"""What every blob store does, on each of them by name."""

import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.blobs.files import FileBlobs
from holdfast.blobs.memory import MemoryBlobs
from holdfast.blobs.s3 import S3Blobs
from holdfast.errors import StoreFull, StoreSettings
from holdfast.ports.blobs import Blob, BlobStore

PREFIXES = itertools.count()
NAME = "ab" * 32 + "-" + "0" * 16
OTHER = "cd" * 32 + "-" + "1" * 16


@pytest.fixture(params=["memory", "files", "s3"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    if request.param == "memory":
        return MemoryBlobs(lambda: 7)
    if request.param == "files":
        return FileBlobs(tmp_path / "blobs")
    server = request.getfixturevalue("s3_server")
    return S3Blobs(server.url(f"suite-{os.getpid()}-{next(PREFIXES)}"))


@asynccontextmanager
async def opened(blobs: BlobStore) -> AsyncIterator[BlobStore]:
    await blobs.open()
    yield blobs
    await blobs.close()


async def listed(blobs: BlobStore) -> list[Blob]:
    return [blob async for page in blobs.list() for blob in page]


@pytest.mark.parametrize("size", [0, 1, 300_000, 3_000_000])
async def test_what_was_put_comes_back(blobs: BlobStore, size: int) -> None:
    data = os.urandom(size)
    async with opened(blobs):
        await blobs.put(NAME, data)
        assert await blobs.get(NAME) == data


async def test_what_is_not_there_is_none(blobs: BlobStore) -> None:
    async with opened(blobs):
        assert await blobs.get(NAME) is None
        assert await listed(blobs) == []
        await blobs.delete([NAME])


async def test_all_blobs_are_listed_with_their_sizes(blobs: BlobStore) -> None:
    async with opened(blobs):
        await blobs.put(NAME, b"12345")
        await blobs.put(OTHER, b"1")
        found = await listed(blobs)
        assert sorted((blob.name, blob.size) for blob in found) == [(NAME, 5), (OTHER, 1)]
        assert all(blob.at > 0 for blob in found)


async def test_only_what_is_named_is_deleted(blobs: BlobStore) -> None:
    async with opened(blobs):
        await blobs.put(NAME, b"1")
        await blobs.put(OTHER, b"2")
        await blobs.delete([NAME])
        assert [blob.name for blob in await listed(blobs)] == [OTHER]
        assert await blobs.get(OTHER) == b"2"


async def test_the_same_name_may_be_put_again(blobs: BlobStore) -> None:
    async with opened(blobs):
        await blobs.put(NAME, b"same")
        await blobs.put(NAME, b"same")
        assert await blobs.get(NAME) == b"same"


async def test_a_directory_is_made_by_the_first_blob_and_for_its_owner(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "blobs")
    await blobs.open()
    assert await listed(blobs) == []
    assert not (tmp_path / "blobs").exists()
    await blobs.put(NAME, b"1")
    [file] = (tmp_path / "blobs").rglob("*-*")
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0


async def test_a_directory_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file is in the way")
    with pytest.raises(hf.StoreUnavailable, match="cannot be used"):
        await FileBlobs(tmp_path / "blobs").put(NAME, b"1")


async def test_a_server_that_is_away_is_named(tmp_path: Path) -> None:
    blobs = S3Blobs("s3://runs/x?endpoint=http://127.0.0.1:9")
    await blobs.open()
    with pytest.raises(hf.StoreUnavailable, match="s3://runs/x"):
        await blobs.put(NAME, b"1")


@pytest.mark.parametrize("url", ["s3://", "s3:///prefix", "s3://bucket?nonsense=1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(StoreSettings, match="s3://bucket/prefix"):
        S3Blobs(url)


async def test_a_writer_that_fails_takes_nothing_from_one_of_the_same_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = FileBlobs(tmp_path / "blobs", threaded=False)
    other = FileBlobs(tmp_path / "blobs", threaded=False)
    sync, failures = os.fsync, iter([OSError(28, "No space left on device")])

    def meanwhile(file: int) -> None:
        """While one writer syncs its file, another begins with the same one, and fails."""
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StoreFull):
            other.put(NAME, b"data").send(None)
        monkeypatch.setattr(os, "fsync", sync)
        sync(file)

    def full(file: int) -> None:
        raise next(failures)

    monkeypatch.setattr(os, "fsync", meanwhile)
    await blobs.put(NAME, b"data")
    assert await blobs.get(NAME) == b"data"
    assert [path.name for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == [NAME]
