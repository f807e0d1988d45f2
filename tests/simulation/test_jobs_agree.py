"""Random sequences of operations around jobs and their limits, on three stores."""

from pathlib import Path

import pytest

from holdfast.model.dump import Dump
from holdfast.model.jobs import JobFilter
from holdfast.model.waits import WaitFilter
from tests.simulation.agreeing import AnyStore, Sequence, hold_to_agree
from tests.simulation.job_operations import JobOperations
from tests.simulation.operations import NAMESPACES

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

EXPECTED = {
    "start": {"row"},
    "claim": {"some", "none"},
    "ask": {"applied", "lost"},
    "take": {"some", "none"},
    "end": {"True", "False"},
    "back": {"True", "False"},
    "say": {"True", "False"},
    "complete": set[str](),
    "read": {"applied"},
    "drop": {"applied"},
    "close": {"applied"},
    "pause": {"True"},
    "resume": {"row"},
    "terminate": {"row"},
    "rerun": {"row"},
    "renew": {"True"},
    "reap": {"some", "none"},
    "retire": set[str](),
    "prune": set[str](),
    "manage": {"True", "False"},
}


async def compare_reads(oracle: AnyStore, store: AnyStore, dump: Dump) -> None:
    for ns in NAMESPACES:
        assert await oracle.queues(ns) == await store.queues(ns)
        for wanted in (JobFilter(ns), JobFilter(ns, queue="a"), JobFilter(ns, limit=2)):
            assert await oracle.jobs.find(wanted) == await store.jobs.find(wanted)
        assert await oracle.waits(WaitFilter(ns)) == await store.waits(WaitFilter(ns))
    for run in dump.runs:
        of_run = JobFilter(run.ns, run.id)
        assert await oracle.jobs.find(of_run) == await store.jobs.find(of_run)
        assert await oracle.load(run.ns, run.id) == await store.load(run.ns, run.id)


SEQUENCE = Sequence(EXPECTED, compare_reads, at_least=150, at_most=2_000, every=10)
LATER = [pytest.param(seed, marks=pytest.mark.slow) for seed in (*range(2, 10), None)]


@pytest.mark.parametrize("seed", [0, 1, *LATER])
async def test_three_stores_agree_on_jobs(
    seed: int | None, tmp_path: Path, postgres_store: str
) -> None:
    await hold_to_agree(JobOperations, SEQUENCE, seed, tmp_path / "runs.db", postgres_store)


def test_every_kind_of_operation_on_jobs_has_expected_replies() -> None:
    assert set(JobOperations(0).kinds) == set(EXPECTED)
