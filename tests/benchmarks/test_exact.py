"""W11 does what it counts, in small."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import exact
from benchmarks.flows import app
from benchmarks.work import QUICK


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_store"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'bench.db'}"


async def test_each_step_that_is_counted_has_its_row(url: str) -> None:
    async with app.open(url) as client:
        size = replace(QUICK, chain_seconds=0.05, crowd_seconds=0.05)
        figures = await exact.exact_figures(client, size)
        assert figures.keys() == {"exact_ms", "exact_s"}
        assert min(figures.values()) > 0
