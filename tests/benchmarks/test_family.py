"""W9 and W10 do what they count, in small."""

from pathlib import Path

import pytest

from benchmarks import family
from benchmarks.flows import app


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_store"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'bench.db'}"


async def test_all_steps_and_children_are_done(url: str) -> None:
    async with app.open(url) as client:
        assert (await family.spread_figures(client, 150))["spread_s"] > 0
        figures = await family.children_figures(client, 2, 30)
        assert figures["children_s"] > 0
        listed = await client.list(workflow="single", limit=1_000)
    assert len(listed.runs) == 2 * 30 + 2 * 10
    assert {run.status for run in listed.runs} == {"completed"}
