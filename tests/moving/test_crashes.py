"""A move that dies at any of its transactions, on either side, is finished by moving again."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import OutcomeUnknown, StoreMoved
from holdfast.hosts.mover import Mover
from holdfast.model.dump import Dump
from holdfast.model.moving import Change, Close, Move, Release, Row, Standing, Table
from holdfast.ports.moving import Side
from tests.moving import shop
from tests.moving.places import Urls, examine, move, rows_of, sides

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]
MODES = ("before", "after", "unknown, did not happen", "unknown, happened")


class Died(Exception):
    """The process was killed."""


class Dying:
    """A side whose mover dies at the n-th change that both sides make."""

    def __init__(self, side: Side, count: Callable[[], int], at: int, mode: str) -> None:
        self._side, self._count, self._at, self._mode = side, count, at, mode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._side, name)

    async def change(self, change: Change) -> bool:
        if self._count() != self._at:
            return await self._side.change(change)
        if self._mode in ("after", "unknown, happened"):
            await self._side.change(change)
        raise OutcomeUnknown("Nobody knows.") if "unknown" in self._mode else Died


async def died(urls: Urls, at: int, mode: str) -> bool:
    """Move, and die at a change; tell whether there was one of that number."""
    changes = iter(range(1_000))
    async with sides(*urls) as opened:
        here, there = (Dying(side, lambda: next(changes), at, mode) for side in opened)
        try:
            await Mover(here, there, id=f"{mode} {at}", examine=examine).move()
        except (Died, OutcomeUnknown):
            return True
    return False


@pytest.mark.parametrize("mode", MODES)
async def test_a_move_that_died_at_any_change_is_finished_by_the_same_command(
    kept: Path, tmp_path: Path, mode: str
) -> None:
    at = 0
    while True:
        source, target = tmp_path / f"a{at}.db", tmp_path / f"b{at}.db"
        shutil.copy(kept, source)
        urls = f"sqlite:///{source}", f"sqlite:///{target}"
        wanted = await rows_of_reaped(urls[0])
        has_died = await died(urls, at, mode)
        await move(*urls, id="the-second")
        assert await rows_of(urls[1]) == await rows_of(urls[0])
        assert ids(await rows_of(urls[1])) == wanted
        await _must_be_over(urls)
        if not has_died:
            break
        at += 1
    assert at > 20


async def rows_of_reaped(url: str) -> dict[str, list[Any]]:
    return ids(await rows_of(url))


def ids(rows: dict[str, list[Row]]) -> dict[str, list[Any]]:
    """Return what no reaping changes: all of it, and of runs and jobs their names and lengths."""
    runs = [(row[:2], row[8], row[11], row[12]) for row in rows["runs"]]
    return {**rows, "runs": runs, "jobs": [row[:6] for row in rows["jobs"]]}


async def _must_be_over(urls: Urls) -> None:
    async with sides(*urls) as (here, there):
        states = [(await side.standing()).move for side in (here, there)]
    assert [state and state.state for state in states] == ["moved", "filled"]
    store = shop.store_at(urls[1])
    await store.open()
    await store.close()


@pytest.mark.parametrize("mode", ["after", "unknown, happened"])
async def test_on_both_kinds_of_stores(full: Urls, mode: str) -> None:
    """Every third change, one after the other: each time the move goes on a bit."""
    for _ in range(100):
        if not await died(full, 3, mode):
            break
    assert await rows_of(full[1]) == await rows_of(full[0])
    await _must_be_over(full)


class Fenceless:
    """A side that is copied while others write: the planted bug."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._move: Move | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._side, name)

    async def standing(self) -> Standing:
        return (await self._side.standing())._replace(move=self._move)

    async def change(self, change: Change) -> bool:
        if isinstance(change, Close):
            self._move = change.move
        return True


class Talking:
    """A side during whose copy a client sends a signal, and keeps what it was told."""

    def __init__(self, side: Side, url: str) -> None:
        self._side, self._url = side, url
        self.told: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._side, name)

    async def read(self, table: Table, after: Row, limit: int) -> list[Row]:
        if table.name == "progress" and not self.told:
            async with shop.opened(self._url, worker=False) as client:
                try:
                    self.told.append(await client.get("trip").signal(shop.word, "no", id="late"))
                except StoreMoved as error:
                    self.told.append(error)
        return await self._side.read(table, after, limit)


@pytest.mark.parametrize("has_fence", [True, False])
async def test_what_a_client_was_told_is_stored_is_there_after_the_move(
    full: Urls, has_fence: bool
) -> None:
    async with sides(*full) as (here, there):
        for worker, known_dead in (await here.standing()).dead:
            await here.change(Release(worker, known_dead))
        source: Any = Talking(here if has_fence else Fenceless(here), full[0])
        try:
            await Mover(source, there, id="m", examine=None).move()
            lost = await _lost(there, source.told)
        except Exception as error:  # the copy does not fit what the source holds
            lost = str(error)
    assert [type(told) for told in source.told] == [StoreMoved if has_fence else bool]
    assert bool(lost) is not has_fence


async def _lost(target: Side, told: list[Any]) -> str:
    dump: Dump = await target.dump()
    sent = any(told is True for told in told)
    got = any(message.id == "late" for message in dump.inbox["default", "trip"])
    return "the signal" if sent and not got else ""
