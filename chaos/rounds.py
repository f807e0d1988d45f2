"""One store, from its start to its verdict."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import holdfast as hf
from chaos import journal, verdict
from chaos.driver import Driver
from chaos.evidence import Evidence
from chaos.fleet import Fleet
from chaos.flows import app
from chaos.nemesis import Nemesis
from chaos.places import Place, opened
from chaos.plan import Plan
from chaos.recovery import Stop, stops
from chaos.verdict import Violation
from holdfast.compose import store_of
from holdfast.errors import StoreError
from holdfast.model.dump import Dump
from holdfast.testing.invariants import Dumping
from holdfast.testing.watching import Watcher

DRAIN = 60.0
"""Seconds that all runs may take to end after the last fault."""
LOOK = 4.0
"""Seconds between two looks at all that is stored."""


@dataclass(slots=True)
class Finding:
    """What came of it."""

    plan: Plan
    version: str
    faults: Counter[str]
    absent: tuple[str, ...]
    """Kinds of faults that never came."""
    evidence: Evidence
    stops: list[Stop]
    violations: list[Violation]
    repeated: int
    took: float
    drained: float
    folder: str = field(default="")
    """What is left to look at, if there are violations."""


async def play(plan: Plan) -> Finding:
    """Break a store for a while, let it heal, and judge."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    async with opened(plan.store, folder, plan.hosts) as place:
        found = await _play(plan, place, folder)
    if found.violations:
        found.folder = str(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return found


async def _play(plan: Plan, place: Place, folder: Path) -> Finding:
    path = folder / "journal"
    path.touch()
    began = time.monotonic()
    os.environ["HOLDFAST_BLOBS"] = f"file://{folder / 'blobs'}"  # for the hosts too
    fleet = Fleet(place.hosts, path, folder / "hosts.log", plan.lease)
    nemesis, watcher = Nemesis(place, fleet, path, plan), Watcher()
    async with app.open(place.driver, worker=False, settings=hf.Settings(poll=0.2)) as client:
        driver = Driver(client, plan.seed, window=plan.window)
        async with fleet:
            await fleet.ready()
            driving = asyncio.create_task(driver.drive(plan.seconds, DRAIN))
            watching = asyncio.create_task(watch(place.url, watcher))
            await nemesis.rage(plan.seconds)
            calm = time.monotonic()
            await driving
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            drained = time.monotonic() - calm
    stored = await dump(place.url)
    watcher.see(stored)
    evidence = Evidence(
        stored, journal.read(path), driver.told, tuple(nemesis.faults),
        tuple(fleet.violations), tuple(driver.violations), await place.bookings(),
        tuple(map(str, watcher.violations)),
    )  # fmt: skip
    return Finding(
        plan=plan,
        version=place.version,
        faults=nemesis.counted,
        absent=tuple(kind for kind in nemesis.kinds if not nemesis.counted[kind]),
        evidence=evidence,
        stops=stops(evidence),
        violations=verdict.judge(evidence),
        repeated=driver.repeated,
        took=time.monotonic() - began,
        drained=drained,
    )


async def watch(url: str, watcher: Watcher) -> None:
    """Look at all that is stored again and again, as far as the store lets us."""
    while True:
        await asyncio.sleep(LOOK)
        with contextlib.suppress(StoreError):
            # In a thread: the wires of the hosts go through this loop.
            watcher.see(await asyncio.to_thread(asyncio.run, dump(url)))


async def dump(url: str) -> Dump:
    """Return everything that is stored."""
    store = store_of(url)
    await store.open()
    try:
        return await cast("Dumping", store).dump()
    finally:
        await store.close()
