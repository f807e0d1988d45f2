"""W14 does what it counts, in small."""

from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks import sealed
from benchmarks.flows import app


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_store"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'bench.db'}"


async def test_one_of_two_stores_is_encrypted(url: str) -> None:
    async with app.open("memory://") as plain, app.open(url, keys=sealed.RING) as client:
        figures = await sealed.sealing_figures(plain, client, 0.0)
        assert figures.keys() == {"sealed_us", "sealed_ratio"}
        dump = await cast("Any", client.engine.store).inner.dump()
        kept = [event for events in dump.events.values() for event in events]
        assert kept
        assert all(event.codec for event in kept if event.payload is not None)
