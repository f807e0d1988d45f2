"""Sealing a store anew: beside workers, killed at any point, until an old key is needed nowhere."""

import asyncio
import re
import shutil
from base64 import b64decode
from pathlib import Path
from typing import cast

import pytest

import holdfast as hf
from holdfast.compose import store_of
from holdfast.errors import OutcomeUnknown, StoreSettings
from holdfast.model.dump import Dump
from holdfast.model.moving import SEALED, TABLES, Change, Reseal, Row, Value
from holdfast.stores.envelope import Place
from holdfast.stores.sealed import SealedStore, rekeying
from holdfast.stores.sealed.inspection import SealedSide
from holdfast.stores.sealed.opening import Opener
from holdfast.stores.sealed.rekeying import Resealer
from holdfast.stores.sealed.rekeying import rekey as reseal
from holdfast.stores.sealed.sealing import SEALED_TEXT, Sealer
from holdfast.testing.invariants import check
from tests.moving import shop
from tests.moving.places import move, rows_of
from tests.moving.test_crashes import MODES

RUNS = SEALED[0]
OLD, NEW = hf.KeyRing.new_key(), hf.KeyRing.new_key()
BEFORE = hf.KeyRing({"former-key": OLD})
BOTH = hf.KeyRing({"former-key": OLD, "current-key": NEW})
AFTER = hf.KeyRing({"current-key": NEW})
EXPECTED = {**shop.EXPECTED, "priced-again": "default/priced-again/1/rate#1"}
"""A kept result is under a key that the former one tells: it is made anew."""


@pytest.fixture(scope="session")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with something of everything in it, encrypted with the former key."""
    file = tmp_path_factory.mktemp("sealed") / "sealed.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shop, "RING", BEFORE)
        asyncio.run(shop.fill(f"sqlite:///{file}"))
    return file


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, sealed: Path, tmp_path: Path) -> str:
    """A store of its own with the same in it."""
    copy = f"sqlite:///{tmp_path / 'a.db'}"
    shutil.copy(sealed, tmp_path / "a.db")
    if request.param == "sqlite":
        return copy
    postgres: str = request.getfixturevalue("postgres_url")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shop, "RING", BEFORE)
        asyncio.run(move(copy, postgres, id="before"))
    return postgres


@pytest.fixture
def file(sealed: Path, tmp_path: Path) -> str:
    shutil.copy(sealed, tmp_path / "b.db")
    return f"sqlite:///{tmp_path / 'b.db'}"


async def dumped(url: str, ring: hf.KeyRing) -> Dump:
    """Return everything that is in a store, opened with a ring."""
    store = cast("SealedStore", store_of(url, keys=ring))
    await store.open()
    try:
        return await store.dump()
    finally:
        await store.close()


def store_of_both(url: str) -> SealedStore:
    return cast("SealedStore", store_of(url, keys=BOTH))


async def traces(url: str, id: str) -> set[str]:
    """Return the columns in which the id of a key stands."""
    rows, found = await rows_of(url), set[str]()
    for table in TABLES:
        for row in rows[table.name]:
            named = zip(table.columns, map(bytes_in, row), strict=True)
            found |= {f"{table.name}.{name}" for name, value in named if id.encode() in value}
    return found


def bytes_in(value: Value) -> bytes:
    """Return what a value holds, also inside of Base64 and hexadecimal digits."""
    if isinstance(value, bytes):
        return value
    text = str(value)
    if text[:1] == SEALED_TEXT:
        return b64decode(text[1:])
    digits = re.findall(r"(?:[0-9a-f]{2})+", text)
    return b"".join([text.encode("utf-8", "surrogatepass"), *map(bytes.fromhex, digits)])


async def test_an_old_key_is_needed_nowhere_afterwards(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    everywhere = {f"{table.name}.{name}" for table in SEALED for name in table.rest}
    # A heartbeat and a kept answer are not in the shop, and a secret tells its key beside it.
    rare = {"run_secrets.sealed", "progress.details", "waits.answer"}
    assert await traces(url, "former-key") == everywhere - rare
    seen = await hf.rekey(url, keys=BOTH, dry_run=True)
    assert (seen.unused, set(seen.used), seen.forgotten) == ((), {"former-key"}, 1)
    assert await traces(url, "current-key") == set()
    done = await hf.rekey(url, keys=BOTH)
    assert (done.rewritten, done.forgotten) == (seen.rewritten, 1)
    assert done.used == {"current-key": seen.used["former-key"] - 1}
    assert (done.unused, done.unread, done.lost) == (("former-key",), {}, 0)
    assert await traces(url, "former-key") == set()
    again = await hf.rekey(url, keys=BOTH)
    assert (again.rewritten, again.forgotten, again.used) == (0, 0, done.used)
    dump = await dumped(url, AFTER)
    assert (check(dump), dump.unread) == ([], ())
    monkeypatch.setattr(shop, "RING", AFTER)
    assert await shop.finish(url) == EXPECTED


@pytest.mark.parametrize("name", ["events", "inbox", "progress", "logs", "waits", "jobs"])
async def test_each_sealed_value_of_a_row_opens_with_the_current_key(name: str) -> None:
    [table] = [each for each in SEALED if each.name == name]
    before, after = Sealer(BEFORE, 1_000, None), Opener(AFTER, {})
    key: Row = ("ns", "run", 7)
    values = [before.seal(b'{"n":1}', "ns", "run", name) for name in table.rest]
    new = await Resealer(BOTH, None).row(table, (*key, *values))
    assert new is not None
    for name, value in zip(table.rest, new[3:], strict=True):
        assert isinstance(value, bytes)
        assert after.open(value, Place("ns", "run", name)) == b'{"n":1}'


class Dying:
    """A store whose rekeyer dies at the n-th change."""

    def __init__(self, side: SealedSide, at: int, mode: str) -> None:
        self._side, self._left, self._mode = side, at, mode
        self.read = side.read

    async def change(self, change: Change) -> bool:
        self._left -= 1
        if self._left != -1:
            return await self._side.change(change)
        if self._mode in ("after", "unknown, happened"):
            await self._side.change(change)
        raise OutcomeUnknown("Nobody knows.") if "unknown" in self._mode else Died


class Died(Exception):
    """The process was killed."""


async def died(url: str, at: int, mode: str) -> bool:
    """Seal anew, and die at a change; tell whether there was one of that number."""
    side = cast("SealedStore", store_of(url, keys=BOTH)).side()
    await side.open()
    dying = Dying(side, at, mode)
    try:
        done = await reseal(dying, BOTH, side.blobs, tell=lambda _: None)
    except Died:
        return True
    finally:
        await side.close()
    assert (done.unused, set(done.used)) == (("former-key",), {"current-key"})
    return dying._left < 0  # an unknown outcome is found out without help


@pytest.mark.parametrize("mode", MODES)
async def test_who_died_at_any_change_begins_again_and_all_can_be_read_meanwhile(
    file: str, sealed: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rekeying, "BATCH", 12)
    path, at = Path(file.removeprefix("sqlite:///")), 0
    while await died(file, at, mode):
        assert (await dumped(file, BOTH)).unread == ()
        done = await hf.rekey(file, keys=BOTH)
        assert (done.unused, done.unread) == (("former-key",), {})
        assert (await dumped(file, AFTER)).unread == ()
        for old in path.parent.glob("b.db*"):
            if old.is_file():
                old.unlink()
        shutil.copy(sealed, path)
        at += 1
    assert at > 10


async def test_a_row_that_others_changed_meanwhile_is_left_to_the_next_sweep(url: str) -> None:
    side = store_of_both(url).side()
    await side.open()
    [row, other, *_] = await side.read(RUNS, (), 10)
    stale = (*row[:2], "another reason", row[3])
    new = [(stale, (*row[:2], "mine", b"")), (other, (*other[:2], "mine", other[3]))]
    assert await side.change(Reseal(RUNS, new)) is False
    found = await side.read(RUNS, (), 2)
    await side.close()
    assert [each[2] for each in found] == [row[2], "mine"]


async def test_a_key_that_is_not_on_the_ring_is_named_and_its_payloads_stay(file: str) -> None:
    before = await rows_of(file)
    done = await hf.rekey(file, keys=hf.KeyRing({"other": NEW}))
    assert (done.rewritten, set(done.unread), done.unused) == (0, {"former-key"}, ())
    after = await rows_of(file)
    del before["step_cache"], after["step_cache"]  # which nobody could find
    assert before == after
    wrong = hf.KeyRing({"former-key": NEW, "other": NEW})
    assert set((await hf.rekey(file, keys=wrong)).unread) == {"former-key"}


async def test_without_keys_there_is_nothing_to_do(file: str) -> None:
    with pytest.raises(StoreSettings, match="no keys to encrypt with"):
        await hf.rekey(file)
    with pytest.raises(StoreSettings, match="lives and dies"):
        await hf.rekey("memory://", keys=BOTH)
