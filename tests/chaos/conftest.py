"""Evidence of a small, undisturbed round: in this process, in memory."""

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
from holdfast.testing.invariants import Dumping

SEED, SECONDS, DRAIN = 1, 0.6, 20.0


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
    async with app.open("memory://", settings=hf.Settings(poll=0.05)) as client:
        driver = Driver(client, SEED, window=20)
        await driver.drive(SECONDS, DRAIN)
        dump = await cast("Dumping", client.engine.store).dump()
    return Evidence(dump, journal.read(path), driver.told, calls=tuple(driver.violations))
