"""W12 does what it counts, in small."""

from pathlib import Path

import pytest

import holdfast as hf
from benchmarks import timers
from benchmarks.flows import app


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_store"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'bench.db'}"


async def test_timers_fire_while_others_sleep(url: str) -> None:
    async with app.open(url, settings=hf.Settings(keep=0.0)) as client:
        figures = await timers.lateness_figures(client, 20, 5, first=0.2)
        asleep = await client.list(status="waiting", workflow="sleeper", limit=100)
        done = await client.list(status="completed", workflow="sleeper", limit=100)
    assert (len(asleep.runs), len(done.runs)) == (20, 5)
    assert 0 <= figures["late_ms"] <= figures["late_p99_ms"]
