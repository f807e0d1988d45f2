"""Whatever fails at whichever commit, a run leaves the checkpoints it would have left."""

import pytest

from holdfast.testing.crash_sweep import Kind, run, sweep
from tests.crash.checkpoints import CHECKPOINTS


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_commit(name: str, store: Kind) -> None:
    report = sweep(CHECKPOINTS[name], store)
    assert not report.violations, "\n" + "\n".join(report.violations[:20])
    assert report.executed == report.points
    assert len(report.points) > 10


def test_checkpoints_cost_no_commit() -> None:
    commits = {len(run(each, "memory").plan.commits) for each in CHECKPOINTS.values()}
    assert len(commits) == 1
