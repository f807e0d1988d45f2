"""Sealing a store anew that has blobs, while workers use it."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.compose import open_client, store_of
from holdfast.model import sizes
from holdfast.model.run import Loaded
from holdfast.stores.sealed import SealedStore
from holdfast.testing.invariants import check
from tests.engine.places import FAST, history_when, within

app = hf.App("films")
go = hf.Signal("go", str)
LONG = "x" * (sizes.INLINE + 1)
OLD, NEW = hf.KeyRing.new_key(), hf.KeyRing.new_key()
STILL = hf.KeyRing({"former": OLD, "current": NEW}, current="former")
BOTH = hf.KeyRing({"former": OLD, "current": NEW})
AFTER = hf.KeyRing({"current": NEW})


@app.step
async def render(text: str) -> str:
    return text + LONG


@app.step
async def mix(text: str) -> str:
    return text.upper()


@app.workflow
async def cut(text: str) -> str:
    return await render(text)


@app.workflow
async def film(text: str) -> int:
    seen = len(text) + len(await cut(text))
    for _ in range(5):
        await mix("a")
    return seen + len(await hf.wait_for(go)) + len(await mix("b"))


class Studio:
    """A store with a directory for its blobs."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder

    @property
    def blobs(self) -> str:
        return f"file://{self.folder}"

    def store(self, ring: hf.KeyRing) -> SealedStore:
        return cast("SealedStore", store_of(self.url, keys=ring, blobs=self.blobs))

    def open(self, ring: hf.KeyRing) -> Any:
        settings = hf.Settings(**cast("Any", {**FAST, "keep": 0.1}))
        return open_client(app, self.store(ring), settings=settings)

    async def rekey(self) -> hf.Rekeyed:
        return await hf.rekey(self.url, keys=BOTH, blobs=self.blobs)

    def files(self) -> set[str]:
        return {file.name for file in self.folder.rglob("*-*") if file.is_file()}


@pytest.fixture(params=["sqlite", "postgres"])
def studio(request: pytest.FixtureRequest, tmp_path: Path) -> Studio:
    url = f"sqlite:///{tmp_path / 'films.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    return Studio(url, tmp_path / "blobs")


def _is_cut(loaded: Loaded) -> bool:
    return len([event for event in loaded.events if event.kind == "step.completed"]) == 5


async def test_a_blob_is_put_anew_and_the_old_one_is_collected_after_the_grace(
    studio: Studio,
) -> None:
    async with studio.open(STILL) as client:
        run = await client.start(film.bind("up"), id="up")
        await history_when(run, _is_cut)
        await run.fork(id="fork")
    before = studio.files()
    done = await studio.rekey()
    assert (done.unused, done.lost) == (("former",), 0)
    put = studio.files() - before
    assert len(put) == len(before) > 0  # rows that named one blob name one again
    store = studio.store(AFTER)
    await store.open()
    try:
        assert (await store.collect()).collected == 0
        assert (await store.collect(grace=0)).collected == len(before)
        dump = await store.dump()
    finally:
        await store.close()
    assert (studio.files(), check(dump), dump.unread) == (put, [], ())
    async with studio.open(AFTER) as client:
        for id in ("up", "fork"):
            await client.get(id).signal(go, "now")
            assert await within(client.get(id).result()) == len(LONG) + 2 + 2 + 3 + 1


async def test_a_blob_that_is_lost_is_counted(studio: Studio) -> None:
    async with studio.open(STILL) as client:
        await within((await client.start(cut.bind("up"))).result())
    next(file for file in studio.folder.rglob("*-*") if file.is_file()).unlink()
    assert (await studio.rekey()).lost >= 1


async def test_workers_go_on_and_none_of_their_runs_is_blocked(studio: Studio) -> None:
    async with studio.open(STILL) as client:
        ids = [f"run-{n}" for n in range(12)]
        for id in ids:
            await client.start(film.bind(id), id=id)
        for id in ids:
            await studio.rekey()
            await client.get(id).signal(go, "now")
        ends = await asyncio.gather(*(within(client.get(id).result()) for id in ids))
    assert ends == [len(LONG) + 2 * len(id) + 4 for id in ids]
    done = await studio.rekey()
    assert (set(done.used), done.unused) == ({"current"}, ("former",))
