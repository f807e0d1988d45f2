"""kill -9 of a graph that executes itself: no node that was recorded runs again, all is told."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast as hf
from tests.e2e.papers import RUN, Lines, drawn
from tests.e2e.processes import Yard


def papers(store: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.e2e.papers", store, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.timeout(200)
async def test_a_graph_that_was_killed_is_resumed_by_another_process(
    any_yard: Yard, tmp_path: Path
) -> None:
    assert papers(any_yard.url, tmp_path).returncode == -signal.SIGKILL
    second = papers(any_yard.url, tmp_path)
    assert second.returncode == 0, second.stderr
    state = json.loads(second.stdout)
    assert state == {"topic": "tides", "read": True, "judge": True, "file": True}
    assert (tmp_path / "calls").read_text("utf-8").split() == ["read", "judge", "judge", "file"]
    app = drawn(any_yard.url, tmp_path)._app
    assert isinstance(app, hf.App)
    async with app.open(any_yard.url, worker=False) as client:
        wanted = [event async for event in hf.graph_events(client, RUN)]
    assert Lines(tmp_path / "told").events() == wanted
