"""What the promises say of a full disk, a clock that jumps, a blocked loop and a killed upgrade."""

import asyncio
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.compose import open_client
from holdfast.stores.clock import SteadyClock
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.connection import APPLICATION_ID
from holdfast.stores.sqlite.statements import migrations
from tests.e2e.processes import ROOT, Yard
from tests.e2e.shop import app, blocking, order, result_of_order

pytestmark = pytest.mark.proof

Record = Callable[[str, object], None]


@pytest.mark.timeout(90)
@pytest.mark.parametrize("how", ["pages", "file"])
async def test_a_full_disk_is_a_state_that_heals(
    how: str, yard: Yard, record_property: Record
) -> None:
    command = [sys.executable, "-m", "tests.e2e.full", str(yard.path), how]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=80, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    record_property("e2e", f"disk full ({how}): refused {told['late']}, then {told['healed']}")
    assert told["during"] == {"status": "running", "executions": ["first"]}
    assert told["executions"] == ["first", "second"], "the result in hand was kept"
    assert told["result"] == 400_003
    assert len(told["logged"]) == 1, "told once, not once a try"
    assert len(told["healed"]) == 1
    refused = [kind for kind in told["late"] if kind != "accepted"]
    assert set(refused) == {"StoreFull"}
    assert "late-0" not in told["listed"] or told["late"][0] == "accepted"
    held = await yard.dump()
    stored = {run.id for run in held.runs} - {"r"}
    assert stored == {f"late-{n}" for n in range(3) if told["late"][n] == "accepted"}


# --- clocks

HOUR = 3_600_000_000_000
jumpy = hf.App("jumpy")
ran: list[str] = []
may_end = asyncio.Event()


@jumpy.step
async def long(name: str) -> str:
    ran.append(name)
    await may_end.wait()
    return name


@jumpy.workflow
async def busy(name: str) -> str:
    return await long(name)


@jumpy.workflow
async def sleeps(seconds: float) -> float:
    began = hf.now()
    await hf.sleep(seconds)
    return (hf.now() - began).total_seconds()


class Wall:
    """A wall clock that somebody sets."""

    offset = 0

    def __call__(self) -> int:
        return time.time_ns() + self.offset


@pytest.mark.timeout(90)
async def test_a_clock_that_jumps_an_hour_fires_nothing_early_and_loses_nothing(
    yard: Yard, record_property: Record
) -> None:
    ran.clear()
    may_end.clear()
    wall, settings = Wall(), hf.Settings(lease=2.0, renew=0.5, poll=0.05, keep=0.05)

    @asynccontextmanager
    async def opened() -> AsyncIterator[hf.Client]:
        store = SqliteStore(yard.path, clock=SteadyClock(wall))
        async with open_client(jumpy, store, settings=settings) as client:
            yield client

    async with opened() as one, opened() as two:
        runs = [await (one, two)[n % 2].start(busy.bind(f"r{n}"), id=f"r{n}") for n in range(10)]
        early = await one.start(sleeps.bind(5400), id="early")
        for jump in (HOUR, -HOUR, -HOUR, 0):
            wall.offset += jump
            short = await two.start(sleeps.bind(0.3))
            async with asyncio.timeout(10):
                assert await short.result() >= 0.3, "time goes on, also after a jump back"
            await asyncio.sleep(0.7)  # more than a renewal
            assert (await early.describe()).status in ("waiting", "running")
        held = [(await run.describe()).epoch for run in runs]
        assert held == [1] * len(runs), "no living worker lost a run"
        may_end.set()
        assert [await run.result() for run in runs] == [f"r{n}" for n in range(10)]
        wall.offset += 3 * HOUR
        async with asyncio.timeout(10):
            assert await early.result() >= 5400
    assert Counter(ran) == {f"r{n}": 1 for n in range(10)}
    record_property("e2e", "clock: +1 h, -1 h, -1 h: no timer early or lost, no run taken away")
    await yard.dump()


# --- a blocked loop


BLOCKED = [
    pytest.param(4.0, 0.8, id="4s"),
    pytest.param(60.0, hf.Settings().lease, id="60s", marks=pytest.mark.slow),
]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("seconds", "lease"), BLOCKED)
async def test_a_step_that_blocks_the_loop_past_its_lease_loses_nothing(
    any_yard: Yard, record_property: Record, seconds: float, lease: float
) -> None:
    leased = {"lease": lease, "renew": lease / 4, "poll": 0.05, "runs": 20}
    async with app.open(any_yard.url, worker=False) as client:
        run = await client.start(blocking.bind(seconds), id="blocks")
        others = [await client.start(order.bind(n), id=f"order-{n}") for n in range(20)]
        with any_yard.worker(**leased), any_yard.worker(**leased):
            pid = await run.result()
            assert [await each.result() for each in others] == [
                result_of_order(n) for n in range(20)
            ]
        row = await run.describe()
    assert [line.pid for line in any_yard.lines() if line.run == "blocks"] == [pid], "executed once"
    assert row.epoch == 1, "nobody took it over"
    told = f"{seconds:g} s with a lease of {lease:g} s, executed once, not taken over"
    record_property("e2e", f"blocked loop: {told}")
    await any_yard.dump()


# --- kill -9 while a file is migrated

MIGRATE = """
import asyncio, sys
from holdfast.stores.sqlite import SqliteStore
async def main():
    store = SqliteStore(sys.argv[1])
    print("ready", flush=True)
    await store.open()
    print("open", flush=True)
    await store.close()
asyncio.run(main())
"""
OLD_RUNS, MIGRATION_KILLS = 8_000, 16


def old_file(path: Path) -> None:
    """Make a file as the first release left it, with many runs."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(f"BEGIN; {migrations()[0]}; PRAGMA user_version = 1; COMMIT;")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("BEGIN")
        rows = ((f"r{n}", n) for n in range(OLD_RUNS))
        connection.executemany(
            "INSERT INTO runs VALUES ('default', ?, 'w', '', 'waiting', '', 1, 0, 1, NULL, ?, 0, "
            "0, 0, 0, x'00', 1, 1, NULL)",
            rows,
        )
        connection.execute(
            "INSERT INTO events SELECT ns, id, 1, 1, 0, 'run.started', '', 0, 1, NULL, NULL, 0, "
            "x'7b7d', NULL FROM runs"
        )
        connection.execute("COMMIT")


@pytest.mark.timeout(150)
async def test_kill_9_while_migrating_leaves_a_whole_file(
    yard: Yard, tmp_path: Path, record_property: Record
) -> None:
    seed = int(os.environ.get("HOLDFAST_SEED") or time.time_ns() % 1_000_000)
    chance, found = random.Random(seed), Counter[int]()
    old_file(tmp_path / "old.db")
    took = 0.05
    for kill in range(MIGRATION_KILLS):
        file = tmp_path / f"{kill}.db"
        shutil.copy(tmp_path / "old.db", file)
        process = subprocess.Popen(
            [sys.executable, "-c", MIGRATE, str(file)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        if kill == 0:
            process.stdout.readline()  # the first is left alone, to know how long it takes
            took = time.monotonic() - began
            process.wait()
        else:
            time.sleep(chance.uniform(0, took))
            process.kill()
        process.communicate()
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            found[connection.execute("PRAGMA user_version").fetchone()[0]] += 1
        store = SqliteStore(file)
        await store.open()
        held = await store.dump()
        await store.close()
        assert len(held.runs) == OLD_RUNS
        assert sum(map(len, held.events.values())) == OLD_RUNS
        file.unlink()
    told = f"{MIGRATION_KILLS - 1} kills in {took * 1e3:.0f} ms, seed {seed}"
    record_property(
        "e2e", f"migration: {told}; schema versions found: {dict(sorted(found.items()))}"
    )
