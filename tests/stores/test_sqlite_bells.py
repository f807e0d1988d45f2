"""What a bell says, and what a dead process left beside the file: it goes when its runs go on."""

import asyncio
import errno
import os
import socket
from contextlib import closing
from pathlib import Path
from socket import AF_UNIX, SOCK_DGRAM
from typing import NoReturn

import pytest

from holdfast.model.writes import Notice
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.doorbell import LONGEST, TICK, WORKER, Doorbell
from holdfast.testing.conformance import Harness
from tests.engine.places import until


def left_by(path: Path, worker: str) -> Path:
    """Leave what a worker leaves that was killed: a file that nobody holds the lock of."""
    left = path / "hf.db-workers" / worker
    left.write_text(f"w@holdfast-{worker}")
    return left


async def test_the_bell_of_the_dead_is_taken_down_a_moment_after_the_claim(tmp_path: Path) -> None:
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        await harness.held("r", worker="A")
        left = left_by(tmp_path, "A")
        claimed = await harness.claim("B", eager=True)
        assert claimed.reaped == (("A", 1),)
        await until(lambda: not left.exists())


async def test_who_closes_before_that_takes_it_down_at_once(tmp_path: Path) -> None:
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        await harness.held("r", worker="A")
        left = left_by(tmp_path, "A")
        await harness.claim("B", eager=True)
    assert not left.exists()


def no_files(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.EMFILE, "Too many open files")


async def test_who_has_no_file_left_to_look_takes_nobody_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        await harness.held("r", worker="A")
        left_by(tmp_path, "A")
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", no_files)
            assert (await harness.claim("B", eager=True)).reaped == ()
        assert (await harness.claim("B", eager=True)).reaped == (("A", 1),)


async def test_who_has_no_file_left_to_ring_has_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        with closing(bell_of(tmp_path)) as bell:
            with monkeypatch.context() as patched:
                patched.setattr(Path, "iterdir", no_files)
                await asyncio.sleep(2 * TICK / 1e9)  # the folder's time says all from here on
                await harness.start("unheard")
            await harness.start("heard")
            assert bell.answer() == [Notice("default", "heard", "ready")]


def bell_of(place: Path) -> Doorbell:
    """Hang a worker's bell beside the file."""
    return Doorbell(place / "hf.db-workers", "W", WORKER)


async def test_a_bell_says_which_one_run_can_be_claimed(tmp_path: Path) -> None:
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        with closing(bell_of(tmp_path)) as bell:
            await harness.start("an order: ünd more")
            assert bell.answer() == [Notice("default", "an order: ünd more", "ready")]
            run = await harness.row("an order: ünd more")
            await harness.signal("s1", run=run.id)
            assert bell.answer() == [Notice("default", run.id, "mail")]
            assert bell.answer() == []


async def test_a_bell_that_rings_for_several_or_for_a_long_name_says_look(tmp_path: Path) -> None:
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        with closing(bell_of(tmp_path)) as bell:
            await asyncio.gather(harness.start("a"), harness.start("b"))
            await harness.start("r" * LONGEST)
            assert {*bell.answer()} == {Notice()}


@pytest.mark.parametrize("said", [b"!", b"\xff", b"sing\0default\0r", b"ready", b"x" * 9_999])
def test_whatever_else_is_said_by_a_bell_means_look(tmp_path: Path, said: bytes) -> None:
    """Anybody on the machine can send to it."""
    (tmp_path / "hf.db-workers").mkdir()
    with closing(bell_of(tmp_path)) as bell, socket.socket(AF_UNIX, SOCK_DGRAM) as stranger:
        stranger.sendto(said, bell.socket.getsockname())
        [notice] = bell.answer()
    assert (notice.ns, notice.run) == ("", "")


async def test_who_is_told_of_a_run_takes_it_without_a_search(tmp_path: Path) -> None:
    """And with its lease still new, no page is written but those of the run."""
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        assert isinstance(harness.store, SqliteStore)
        await harness.held("other", worker="A")
        await harness.start("r")
        asked: list[str] = []
        harness.store._writer._transactions.connection.set_trace_callback(asked.append)
        claimed = await harness.claim("A", hints=("r", "r"), eager=True)
    told = "\n".join(asked[: asked.index("COMMIT")])
    assert [run.id for run in claimed.runs] == ["r"]
    assert "INDEXED BY runs_claim" not in told, "the queue was walked"
    assert "INSERT INTO workers" not in told, "the lease was renewed"
