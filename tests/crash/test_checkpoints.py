"""Whatever fails at whichever commit, a run leaves the checkpoints it would have left."""

from collections.abc import Callable

import pytest

from holdfast.testing.crash_sweep import Kind, run, sweep
from tests.crash.checkpoints import CHECKPOINTS
from tests.crash.thinning import Thinned, thinned

Record = Callable[[str, object], None]
THINNED = thinned(list(CHECKPOINTS), rest=7)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_commit(name: str, store: Kind) -> None:
    report = sweep(CHECKPOINTS[name], store)
    assert not report.violations, "\n" + "\n".join(report.violations[:20])
    assert report.executed == report.points
    assert len(report.points) > 10


@pytest.mark.parametrize(
    ("name", "store", "thin"),
    [(each.name, each.store, each) for each in THINNED],
    ids=map(str, THINNED),
    indirect=["store"],
)
def test_some_commits(name: str, store: Kind, thin: Thinned, record_property: Record) -> None:
    report = sweep(CHECKPOINTS[name], store, only=thin.points)
    record_property("crash", f"{report}, one in {thin.step}")
    assert not report.violations, "\n" + "\n".join(report.violations[:20])
    assert report.executed == report.points
    assert len(report.points) > 10


def test_checkpoints_cost_no_commit() -> None:
    commits = {len(run(each, "memory").plan.commits) for each in CHECKPOINTS.values()}
    assert len(commits) == 1
