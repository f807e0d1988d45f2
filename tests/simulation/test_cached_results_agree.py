"""Random sequences of operations around cached results, on three stores."""

from pathlib import Path

import pytest

from holdfast.model.cache import CacheFilter
from holdfast.model.dump import Dump
from tests.simulation.agreeing import AnyStore, Sequence, hold_to_agree
from tests.simulation.cache_operations import EVERY_KEY, CacheOperations
from tests.simulation.operations import NAMESPACES

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

EXPECTED = {
    "start": {"row"},
    "claim": {"some", "none"},
    "keep": {"applied", "lost", "moved"},
    "forget": {"some", "none"},
    "close": {"applied"},
    "rerun": {"row"},
    "terminate": {"row"},
    "reap": {"some", "none"},
    "prune": {"some", "none"},
}


async def compare_reads(oracle: AnyStore, store: AnyStore, dump: Dump) -> None:
    for ns in NAMESPACES:
        assert await oracle.recall(ns, EVERY_KEY) == await store.recall(ns, EVERY_KEY)
        for wanted in (CacheFilter(ns), CacheFilter(ns, "fetch"), CacheFilter(ns, "fetch", "k")):
            # How many bytes it takes depends on how a store keeps them.
            counted, found = await oracle.cached(wanted), await store.cached(wanted)
            assert [c._replace(bytes=0) for c in counted] == [f._replace(bytes=0) for f in found]


SEQUENCE = Sequence(EXPECTED, compare_reads, at_least=150, at_most=2_000, every=2)
LATER = [pytest.param(seed, marks=pytest.mark.slow) for seed in (*range(2, 10), None)]


@pytest.mark.parametrize("seed", [0, 1, *LATER])
async def test_three_stores_agree_on_cached_results(
    seed: int | None, tmp_path: Path, postgres_store: str
) -> None:
    await hold_to_agree(CacheOperations, SEQUENCE, seed, tmp_path / "runs.db", postgres_store)


def test_every_kind_of_operation_on_cached_results_has_expected_replies() -> None:
    assert set(CacheOperations(0).kinds) == set(EXPECTED)
