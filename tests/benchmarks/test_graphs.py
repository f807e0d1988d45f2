"""W6 does what it counts, in small."""

from dataclasses import replace
from pathlib import Path

from benchmarks import graphs
from benchmarks.driver import disk_bytes
from benchmarks.graphs import app
from benchmarks.work import QUICK


async def test_a_node_stores_what_it_changes_of_a_large_state(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'bench.db'}"
    size = replace(QUICK, chain_seconds=0.0, rounds=5, big=40)
    async with app.open(url) as client:
        figures = await graphs.graph_figures(client, size, lambda: disk_bytes(url))
    assert figures.keys() == {"node_ms", "loop_ms", "big_ms", "node_bytes"}
    assert 100 < figures["node_bytes"] < 1_000
