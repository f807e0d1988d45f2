"""Random sequences of operations around schedules, on three stores."""

from pathlib import Path

import pytest

from holdfast.model.dump import Dump
from holdfast.model.schedules import ScheduleFilter
from tests.simulation.agreeing import AnyStore, Sequence, hold_to_agree
from tests.simulation.operations import NAMESPACES
from tests.simulation.schedule_operations import SCHEDULES, ScheduleOperations

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]

EXPECTED = {
    "create": {"True", "False"},
    "fire": {"True", "False"},
    "update": {"True"},
    "hold": {"True"},
    "go on": {"True"},
    "trigger": {"True"},
    "backfill": {"True"},
    "delete": {"True"},
    "claim": {"some", "none"},
    "close": {"applied"},
    "terminate": {"row"},
    "cancel": {"True"},
    "reap": {"some", "none"},
    "prune": {"some", "none"},
}


async def compare_reads(oracle: AnyStore, store: AnyStore, dump: Dump) -> None:
    for ns in NAMESPACES:
        for wanted in (
            ScheduleFilter(ns), ScheduleFilter(ns, SCHEDULES[:1]), ScheduleFilter(ns, limit=1),
            ScheduleFilter(ns, workflows=("w",)), ScheduleFilter(ns, workflows=("v", "w/")),
            ScheduleFilter(ns, after=SCHEDULES[0]),
        ):  # fmt: skip
            assert await oracle.schedules(wanted) == await store.schedules(wanted)


SEQUENCE = Sequence(EXPECTED, compare_reads, at_least=150, at_most=2_000, every=5)
LATER = [pytest.param(seed, marks=pytest.mark.slow) for seed in (*range(2, 10), None)]


@pytest.mark.parametrize("seed", [0, 1, *LATER])
async def test_three_stores_agree_on_schedules(
    seed: int | None, tmp_path: Path, postgres_store: str
) -> None:
    await hold_to_agree(ScheduleOperations, SEQUENCE, seed, tmp_path / "runs.db", postgres_store)


def test_every_kind_of_operation_on_schedules_has_expected_replies() -> None:
    assert set(ScheduleOperations(0).kinds) == set(EXPECTED)
