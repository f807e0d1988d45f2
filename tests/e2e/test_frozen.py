"""A worker frozen past its lease: another takes over, and what the sleeper holds is refused."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast as hf
from tests.e2e.processes import Yard, is_stopped, until
from tests.e2e.shop import app, freezing

LEASE = {"lease": 1.0, "renew": 0.4, "poll": 0.05}
SETTINGS = hf.Settings(lease=1.0, renew=0.4, poll=0.05)


@pytest.mark.timeout(90)
async def test_a_frozen_worker_wakes_with_a_result_and_is_refused(
    any_yard: Yard, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async with app.open(any_yard.url, worker=False) as client:
        with any_yard.worker(**LEASE) as sleeper, any_yard.worker(**LEASE) as other:
            run = await client.start(freezing.bind(str(tmp_path / "once")), id="frozen")
            until(lambda: is_stopped(sleeper) or is_stopped(other), "the freeze")
            if is_stopped(other):
                sleeper, other = other, sleeper
            assert await run.result() == other.pid, "the other one took over and finished"
            assert [line.pid for line in any_yard.lines()] == [sleeper.pid, other.pid]
            os.kill(sleeper.pid, signal.SIGCONT)
            sleeper.terminate()
            out, err = sleeper.communicate(timeout=30)
            assert sleeper.returncode == 0, err
            refusals = json.loads(out.splitlines()[-1])["refusals"]
            record_property("e2e", f"frozen: {refusals} refused commits of the woken worker")
            assert refusals >= 1
            assert await run.result() == other.pid
    held = await any_yard.dump()
    events = [e for e in held.events["default", "frozen"] if e.kind != "step.started"]
    assert [event.kind for event in events] == ["run.started", "step.completed", "run.completed"]
    assert events[0].epoch < events[1].epoch == events[2].epoch


@pytest.mark.timeout(90)
async def test_a_woken_worker_goes_on_with_other_work(any_yard: Yard, tmp_path: Path) -> None:
    async with app.open(any_yard.url, worker=False) as client:
        with any_yard.worker(**LEASE) as sleeper:
            run = await client.start(freezing.bind(str(tmp_path / "once")), id="frozen")
            until(lambda: is_stopped(sleeper), "the freeze")
            async with app.open(any_yard.url, settings=SETTINGS):
                os.environ["HOLDFAST_TEST_JOURNAL"] = str(any_yard.journal)
                assert await run.result() == os.getpid()
            os.kill(sleeper.pid, signal.SIGCONT)
            again = await client.start(freezing.bind(str(tmp_path / "once")), id="later")
            assert await again.result() == sleeper.pid
    await any_yard.dump()
