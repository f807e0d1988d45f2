"""The sweep finds what it is there for: each planted bug turns it red."""

from collections.abc import Callable

import pytest

from holdfast.testing.crash_sweep import Kind, faults_of, run, sweep
from holdfast.testing.crash_world import Plant
from tests.crash.planted import PLANTED as MOST
from tests.crash.planted import CountsNothing, Planted, Wrapper, plain
from tests.crash.planted_cache import KeepsFirst, never_expiring
from tests.crash.planted_graphs import asking_again, from_the_start, without_secrets
from tests.crash.planted_jobs import LeavesGhosts, TakesFromAnybody
from tests.crash.planted_looks import KeepsEpochs, Rewrites
from tests.crash.scenarios import SCENARIOS

PLANTED: dict[str, Planted] = {
    **MOST,
    "result kept before its record": lambda: plain(Plant(above=KeepsFirst)),
    "expired result used": never_expiring,
    "job outcome of a fenced host": lambda: plain(Plant(below=TakesFromAnybody)),
    "ghost left in its queue": lambda: plain(Plant(below=LeavesGhosts)),
    "jobs not counted": lambda: plain(Plant(below=CountsNothing)),
    "node begun without its secret": without_secrets,
    "graph resumed from its start": from_the_start,
    "factory asked again for its state": asking_again,
}
CATCHERS = {
    "node begun without its secret": "graph-secrets",
    "graph resumed from its start": "graph-resumed",
    "factory asked again for its state": "factory",
    "result kept before its record": "step-cached",
    "expired result used": "step-cached-late",
    "job outcome of a fenced host": "job-zombie",
    "ghost left in its queue": "job-ghost",
    "jobs not counted": "job-limits",
    "child outcome doubled": "children",
    "no fence": "zombie",
    "rows kept of a refused turn": "transaction-zombie",
    "rows before their record": "transaction",
    "done without a witness": "witness",
    "fence read before the write": "zombie",
    "park without the inbox check": "signals",
    "signal doubled": "with-start",
    "answer told before the commit": "chain",
    "observers told before the commit": "observers",
    "progress told before the commit": "processing",
    "steps started before the commit": "chain",
    "feed after the commit": "race",
    "eviction by garbage collection": "eviction",
    "compensation skipped after a crash": "saga",
    "rerun that adopts the old outcome": "rerun",
    "messages left behind by a continuation": "continue",
    "results of a former generation adopted": "continue",
    "answer taken twice": "question-race",
    "begun without a record": "at-most-once",
    "slot leaked after a crash": "limits",
    "slots counted before the write": "limits",
    "slot fired twice": "slots",
    "secret in a failure": "secrets",
    "blob named before it is put": "blobs",
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_sweep_finds_it(
    bug: str, store: Kind, record_property: Callable[[str, object], None]
) -> None:
    with PLANTED[bug]() as plant:
        scenario = SCENARIOS[CATCHERS[bug]]
        report = sweep(scenario, store, plant=lambda: plant, stop_at_first=True)
    assert report.violations, f"{bug} was not found by {scenario.name}"
    caught = f"planted: {bug}: caught by {scenario.name} on {store}, {report.violations[0][:160]}"
    record_property("crash", caught)


@pytest.mark.parametrize(("bug", "invariant"), [(Rewrites, "I1"), (KeepsEpochs, "I2")])
def test_what_is_not_as_it_was_is_found(bug: type[Wrapper], invariant: str, store: Kind) -> None:
    report = sweep(SCENARIOS["chain"], store, plant=lambda: Plant(below=bug), stop_at_first=True)
    assert any(f": {invariant} chain:" in each for each in report.violations), report.violations


@pytest.mark.parametrize("bug", PLANTED)
def test_the_bug_hides_from_a_calm_test(bug: str) -> None:
    with PLANTED[bug]() as plant:
        assert not faults_of(run(SCENARIOS["cancel"], "memory", plant=plant), None)
