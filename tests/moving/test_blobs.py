"""Large payloads on a move: they are where the target looks before a row there names them."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.compose import open_client, store_of
from holdfast.errors import MoveRefused, StoreMoved
from holdfast.hosts.mover import Mover
from holdfast.model import sizes
from holdfast.model.moving import Change, Fill
from holdfast.ports.moving import Side
from holdfast.stores.sealed import SealedStore
from holdfast.stores.sealed.carrying import carrier
from tests.engine.places import FAST, status_of, within
from tests.moving.places import Urls, examine

app = hf.App("films")
go = hf.Signal("go", str)
LONG = "x" * (sizes.INLINE + 1)
RING = hf.KeyRing({"k": bytes(32)})


@app.step
async def render(text: str) -> str:
    return text + LONG


@app.workflow
async def cut(text: str) -> str:
    return await render("y")


@app.workflow
async def film(text: str) -> int:
    return len(text) + len(await render("z")) + len(await cut(text)) + len(await hf.wait_for(go))


class Studio:
    """Two stores, each with a directory for its blobs."""

    def __init__(self, urls: Urls, folder: Path) -> None:
        self.urls = urls
        self.folders = (folder / "here", folder / "there")

    def store(self, n: int) -> SealedStore:
        blobs = f"file://{self.folders[n]}"
        return cast("SealedStore", store_of(self.urls[n], keys=RING, blobs=blobs))

    def open(self, n: int, **more: Any) -> Any:
        settings = hf.Settings(**cast("Any", {**FAST, "keep": 0.1}))
        return open_client(app, self.store(n), settings=settings, **more)

    @asynccontextmanager
    async def sides(self) -> AsyncIterator[tuple[Side, Side]]:
        here, there = self.store(0).side(), self.store(1).side()
        await here.open()
        await there.open()
        try:
            yield here, there
        finally:
            await here.close()
            await there.close()

    async def move(self, wrap: Any = lambda side: side) -> None:
        async with self.sides() as (here, there):
            carries = await carrier(here, there)
            assert carries is not None
            await Mover(here, wrap(there), id="m", examine=examine, carry=carries.carry).move()


async def filled(made: Studio) -> None:
    async with made.open(0) as client:
        await status_of(await client.start(film.bind(LONG), id="r"), "waiting")
        await client.get("r").signal(hf.Signal("other", str), LONG)


@pytest.fixture
def studio(urls: Urls, tmp_path: Path) -> Studio:
    made = Studio(urls, tmp_path)
    asyncio.run(filled(made))
    return made


async def test_large_payloads_are_carried_and_runs_go_on_with_them(studio: Studio) -> None:
    await studio.move()
    shutil.rmtree(studio.folders[0])
    async with studio.open(1) as client:
        run = client.get("r", film)
        await run.signal(go, "!")
        assert await within(run.result()) == 3 * len(LONG) + 3


async def test_a_blob_is_there_before_a_row_names_it_and_again_after_a_crash(
    studio: Studio,
) -> None:
    class Died(Exception):
        pass

    class Dying:
        """Dies when rows with blobs are to be written: each time before, or after."""

        def __init__(self, side: Side) -> None:
            self._side = side

        def __getattr__(self, name: str) -> Any:
            return getattr(self._side, name)

        async def change(self, change: Change) -> bool:
            if not isinstance(change, Fill) or change.table.name not in ("events", "inbox"):
                return await self._side.change(change)
            if change.rows:
                assert (await self._side.dump()).unread == ()
                seen.append(change.table.name)
            if len(seen) % 2:
                await self._side.change(change)
            raise Died

    seen: list[str] = []
    for _ in range(4):
        with pytest.raises(Died):
            await studio.move(Dying)
        assert list(studio.folders[1].rglob("*-*")) != []
    await studio.move()
    assert seen[0] == "events"
    async with studio.sides() as (here, there):
        assert (await here.dump()).unread == (await there.dump()).unread == ()


async def test_a_target_without_a_place_for_them_is_refused_before_anything_is_changed(
    studio: Studio,
) -> None:
    async with studio.sides() as (here, _):
        bare = cast("SealedStore", store_of(studio.urls[1], keys=RING, blobs="")).side()
        with pytest.raises(MoveRefused, match=r"no blob store. Say where they go with --blobs"):
            await carrier(here, bare)
        assert (await here.standing()).move is None


async def test_two_sides_that_look_in_one_place_carry_nothing(studio: Studio) -> None:
    studio.folders = (studio.folders[0], studio.folders[0])
    async with studio.sides() as (here, there):
        assert await carrier(here, there) is None
        await Mover(here, there, id="m", examine=examine).move()
    store = studio.store(0)
    await store.open()
    with pytest.raises(StoreMoved):
        await store.collect(grace=-1)
    await store.close()
