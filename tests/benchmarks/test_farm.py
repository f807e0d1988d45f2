"""W13 does what it counts, in small."""

from pathlib import Path

import pytest

import holdfast as hf
from benchmarks import farm


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_store"))
    return f"sqlite:///{tmp_path / 'bench.db'}"


async def test_a_job_begins_on_the_worker_that_serves_its_queue(url: str) -> None:
    runs, jobs = (hf.Settings(queues=[queue]) for queue in ("default", farm.QUEUE))
    async with farm.app.open(url, settings=runs) as client, farm.app.open(url, settings=jobs):
        figures = await farm.job_figures(client, 3)
    assert 0 < figures["job_ms"] <= figures["job_p99_ms"]
    assert figures["job_ms"] < figures["job_result_ms"]
