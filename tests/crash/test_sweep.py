"""Whatever fails at whichever call of the store, each scenario ends as if nothing had."""

import dataclasses
from collections.abc import Callable
from itertools import chain

import pytest

from holdfast.ports.jobs import Jobs
from holdfast.ports.store import Store
from holdfast.testing.crash import FLAVOURS
from holdfast.testing.crash_sweep import (
    Kind,
    Report,
    ends_of,
    faults_of,
    run,
    sweep,
    sweep_twice,
)
from tests.crash.scenarios import SCENARIOS
from tests.crash.thinning import Thinned, thinned

HOTTEST = ("chain", "signals", "zombie")
THINNED = thinned(list(SCENARIOS))
TWICE = [(name, store) for name in HOTTEST for store in ("memory", "sqlite")]
TWICE += [("chain", "postgres"), ("signals", "postgres")]
Record = Callable[[str, object], None]


def is_sound(report: Report) -> None:
    assert not report.violations, "\n" + "\n".join(report.violations[:20])
    assert report.executed == report.points, "not every point was executed"


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_point(name: str, store: Kind, record_property: Record) -> None:
    report = sweep(SCENARIOS[name], store)
    record_property("crash", str(report))
    is_sound(report)


@pytest.mark.parametrize(
    ("name", "store", "thin"),
    [(each.name, each.store, each) for each in THINNED],
    ids=map(str, THINNED),
    indirect=["store"],
)
def test_some_points(name: str, store: Kind, thin: Thinned, record_property: Record) -> None:
    report = sweep(SCENARIOS[name], store, only=thin.points)
    record_property("crash", f"{report}, one in {thin.step}")
    is_sound(report)
    assert report.points


def test_a_thinned_sweep_goes_from_end_to_end_by_other_points_on_each_store() -> None:
    for name in SCENARIOS:
        on_file, in_database = (
            set(range(1000)[Thinned(name, store, 3).points]) for store in ("sqlite", "postgres")
        )
        assert len(on_file | in_database) == len(on_file) + len(in_database) >= 666


@pytest.mark.parametrize("name", ["completion", "job-once", "question-race", "questions"])
def test_what_is_settled_is_read_by_itself_where_much_is_waited_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.hosts.worker.reading.FEW_OF", 0)  # as if it were much
    is_sound(sweep(SCENARIOS[name], "memory"))


def test_every_method_of_the_store_is_a_crash_point(store: Kind) -> None:
    port = {name for name in vars(Store) if not name.startswith("_")}
    port |= {f"{name}_jobs" for name in vars(Jobs) if not name.startswith("_")}
    assert port == FLAVOURS.keys()
    calls = chain.from_iterable(run(each, store).plan.calls for each in SCENARIOS.values())
    assert {call.method for call in calls} == port


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_world_is_the_same_each_time(name: str) -> None:
    first, second = (run(SCENARIOS[name], "memory", {9: "before"}, seed=3) for _ in range(2))
    assert first.plan.calls == second.plan.calls
    assert ends_of(first) == ends_of(second)


@pytest.mark.parametrize("name", SCENARIOS)
def test_whoever_goes_first(name: str) -> None:
    calm = run(SCENARIOS[name], "memory")
    for seed in range(20):
        assert not faults_of(run(SCENARIOS[name], "memory", seed=seed), calm), f"seed {seed}"


def test_a_start_in_doubt_is_no_renewal(store: Kind) -> None:
    """Else the run would be born without a lease, and be taken from a worker that lives."""
    scenario = dataclasses.replace(SCENARIOS["deploy"], apart=False, workers=1, deploys_at=None)
    calls = run(scenario, store).plan.calls
    born = next(n for n, call in enumerate(calls) if call.what.endswith("Renew,Create"))
    world = run(scenario, store, {born: "lost"})
    assert not faults_of(world, None)
    assert {event.epoch for event in world.dump.events["default", "deploy"]} == {1}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("name", "store"), TWICE, indirect=["store"])
def test_a_second_crash_during_recovery(name: str, store: Kind, record_property: Record) -> None:
    report = sweep_twice(SCENARIOS[name], store)
    record_property("crash", str(report))
    is_sound(report)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1, 6))
def test_every_point_in_other_orders(seed: int, record_property: Record) -> None:
    for scenario in SCENARIOS.values():
        report = sweep(scenario, "memory", seed=seed)
        record_property("crash", f"seed {seed}: {report}")
        is_sound(report)
