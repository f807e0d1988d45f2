"""Evidence of a small, undisturbed round: in this process, in a file."""

import asyncio
import os
from pathlib import Path
from typing import cast

import pytest

import holdfast as hf
from chaos import journal
from chaos.driver import Driver
from chaos.evidence import Evidence
from chaos.flows import app
from chaos.places import opened
from holdfast.testing.invariants import Dumping

SEED, SECONDS, DRAIN = 1, 3.0, 40.0


@pytest.fixture(scope="session")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    path = tmp_path_factory.mktemp("chaos") / "journal"
    path.touch()
    os.environ[journal.VARIABLE] = str(path)
    try:
        return asyncio.run(peaceful(path))
    finally:
        del os.environ[journal.VARIABLE]


async def peaceful(path: Path) -> Evidence:
    async with opened("sqlite", path.parent, 1) as place:
        async with app.open(place.url, settings=hf.Settings(poll=0.05)) as client:
            driver = Driver(client, SEED, window=20)
            await driver.drive(SECONDS, DRAIN)
            dump = await cast("Dumping", client.engine.store).dump()
        booked = await place.bookings()
    calls = tuple(driver.violations)
    return Evidence(dump, journal.read(path), driver.told, calls=calls, booked=booked)
