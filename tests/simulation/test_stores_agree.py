"""One random sequence of operations on runs, messages, leases and queues, on three stores."""

from pathlib import Path

import pytest

from holdfast.model.annotations import LogFilter
from holdfast.model.dump import Dump
from holdfast.model.run import SINCE_START
from holdfast.model.writes import Filter, Page
from holdfast.testing.clock import SECOND
from tests.simulation.agreeing import AnyStore, Sequence, hold_to_agree
from tests.simulation.operations import NAMESPACES, Operations

pytestmark = [pytest.mark.proof, pytest.mark.timeout(600)]  # thousands of operations, three stores

EXPECTED = {
    "start": {"row", "RunConflict"},
    "signal": {"True", "False", "RunClosed", "RunNotFound"},
    "update": {"True", "False", "RunClosed", "RunNotFound"},
    "supply": {"True", "False", "RunClosed", "RunNotFound"},
    "cancel": {"True", "False", "RunClosed", "RunNotFound"},
    "pause": {"True", "False", "RunClosed", "RunNotFound"},
    "terminate": {"row", "RunClosed", "RunNotFound"},
    "resume": {"row", "IllegalMove", "RunClosed", "RunNotFound"},
    "quarantine": {"row", "IllegalMove", "RunClosed", "RunNotFound"},
    "retry": {"row", "IllegalMove"},
    "rerun": {"row", "none"},
    "fork": {"row", "RunConflict", "RunNotFound"},
    "commit": {"applied", "lost", "moved", "cancel", "mail", "early"},
    "annotate": {"True", "False"},
    "renew": {"True", "False"},
    "reap": {"some", "none"},
    "retire": {"True", "False"},
    "prune": {"some", "none"},
    "claim": {"some", "none"},
    "define": {"none"},
    "manage": {"True", "False"},
    "expire": {"row", "IllegalMove"},
}


async def compare_reads(oracle: AnyStore, store: AnyStore, dump: Dump) -> None:
    for run in dump.runs:
        assert await oracle.load(run.ns, run.id) == await store.load(run.ns, run.id)
        for wanted_lines in (
            LogFilter(run.ns, run.id),
            LogFilter(run.ns, run.id, after=9, limit=2),
        ):
            assert await oracle.logs(wanted_lines) == await store.logs(wanted_lines)
        for after in (run.seq // 2, SINCE_START):
            found = await store.load(run.ns, run.id, after)
            assert found == await oracle.load(run.ns, run.id, after)
        assert await oracle.secrets(run.ns, run.id) == await store.secrets(run.ns, run.id)
        assert await oracle.export(run.ns, run.id) == await store.export(run.ns, run.id)
        assert await oracle.ticket(run.ns, run.id) == await store.ticket(run.ns, run.id)
    for ns in NAMESPACES:
        assert await oracle.queues(ns) == await store.queues(ns)
        for wanted in (Filter(ns), Filter(ns, workflow="w"), Filter(ns, ids=("a", "c", "z"))):
            for page in (Page(), Page(2), Page(2, dump.now - SECOND, "c")):
                assert await oracle.find(wanted, page) == await store.find(wanted, page)


SEQUENCE = Sequence(EXPECTED, compare_reads, at_least=400, at_most=20_000)
LATER = [
    pytest.param(seed, marks=pytest.mark.slow)
    for seed in (0, 2, 3, 4, 5, 53_907_034, 171_346_990, 174_542_639, None)
]


@pytest.mark.parametrize("seed", [1, *LATER])
async def test_three_stores_agree_on_a_random_sequence(
    seed: int | None, tmp_path: Path, postgres_store: str
) -> None:
    await hold_to_agree(Operations, SEQUENCE, seed, tmp_path / "runs.db", postgres_store)


def test_every_kind_of_operation_has_expected_replies() -> None:
    assert set(Operations(0).kinds) == set(EXPECTED)
