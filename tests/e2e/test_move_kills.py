"""A move whose process is killed again and again ends, and all is there."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.invariants import check

pytestmark = pytest.mark.proof

app = hf.App("kills")
word = hf.Signal("word", str)
RUNS = 400


@app.workflow
async def listen(name: str) -> str:
    return await hf.wait_for(word)


async def fill(url: str) -> None:
    async with app.open(url, worker=False) as client:
        starts = [client.start(listen.bind(f"{n}"), id=f"run-{n}", tags=["a"]) for n in range(RUNS)]
        await asyncio.gather(*starts)
        await asyncio.gather(*(client.get(f"run-{n}").signal(word, "x") for n in range(RUNS)))


def moving(source: Path, target: Path) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "holdfast", "move", f"sqlite:///{source}", f"sqlite:///{target}"]
    return subprocess.Popen([*words, "--json"], stdout=subprocess.DEVNULL, text=True)


def steps(target: Path) -> Iterator[int]:
    """Yield how many changes have arrived, as often as somebody asks."""
    while True:
        step = 0
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(f"file:{target}?mode=ro", uri=True)) as file,
        ):
            row = file.execute("SELECT step FROM moves").fetchone()
            step = row[0] if row else 0
        yield step


def test_a_move_that_is_killed_again_and_again_ends_with_everything(tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    asyncio.run(fill(f"sqlite:///{source}"))
    killed, seen = 0, 0
    while True:
        process = moving(source, target)
        for step in steps(target):
            if process.poll() is not None:
                break
            if step >= seen + 2:
                process.send_signal(signal.SIGKILL)
                killed, seen = killed + 1, step
                break
        if process.wait() == 0:
            break
        assert process.returncode == -signal.SIGKILL
    assert killed >= 3
    assert asyncio.run(counted(target)) == (RUNS, RUNS, RUNS)


async def counted(path: Path) -> tuple[int, int, int]:
    """Return how many runs, unread messages and tags there are in a sound store."""
    store = SqliteStore(path)
    await store.open()
    dump = await store.dump()
    await store.close()
    assert check(dump) == []
    return len(dump.runs), sum(map(len, dump.inbox.values())), len(dump.labels)
