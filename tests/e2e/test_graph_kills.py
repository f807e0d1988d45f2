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
from tests.e2e.shop import app as shop
from tests.e2e.shop import paper
from tests.engine.places import until, within

KEY = "review[1]/ask#1"


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


@pytest.mark.timeout(100)
async def test_a_call_before_a_question_is_made_once_whoever_is_killed(any_yard: Yard) -> None:
    async with shop.open(any_yard.url, worker=False) as client:
        run = await client.start(paper.bind(hf.State({"text": "tides"})), id="tides")

        async def is_asked() -> bool:
            return [each.key for each in (await client.questions()).questions] == [KEY]

        with any_yard.worker(poll=0.05) as worker:
            await until(is_asked)
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        with any_yard.worker(poll=0.05):
            await run.answer(KEY, True, by="ada")
            done = await within(run.result())
    assert dict(done) == {"text": "tides", "short": "TIDES", "ok": True}
    assert [(line.step, line.pid) for line in any_yard.lines()] == [("summary", worker.pid)]
    await any_yard.dump()
