"""How workers leave: drained, at once, killed, or with a thread that never ends."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.processes import Yard, until
from tests.e2e.shop import app, hanging, two_steps

# Where a dead process is not known at once, its lease tells.
POLL = {"poll": 0.05, "lease": 2.0, "renew": 0.5}


@pytest.mark.timeout(90)
async def test_sigterm_lets_the_running_step_finish_and_gives_the_run_back(
    any_yard: Yard, tmp_path: Path
) -> None:
    door = tmp_path / "door"
    async with app.open(any_yard.url, worker=False) as client:
        run = await client.start(two_steps.bind(str(door)), id="drained")
        with any_yard.worker(drain=20, **POLL) as leaving:
            until(lambda: len(any_yard.lines()) == 1, "the first step")
            leaving.terminate()
            time.sleep(0.2)
            assert leaving.poll() is None, "it waits for its step"
            door.touch()
            _, err = leaving.communicate(timeout=30)
            assert leaving.returncode == 0, err
        row = await run.describe()
        assert (row.status, row.owner, row.strikes) == ("waiting", None, 0)
        assert (await run.history()).events[-1].kind == "step.completed"
        with any_yard.worker(**POLL) as other:
            assert await run.result() == [leaving.pid, other.pid]
    assert [line.pid for line in any_yard.lines()] == [leaving.pid, other.pid], "nothing ran twice"
    await any_yard.dump()


@pytest.mark.timeout(90)
async def test_who_drains_for_longer_than_its_lease_keeps_its_run(
    any_yard: Yard, tmp_path: Path
) -> None:
    door, short = tmp_path / "door", {"poll": 0.05, "lease": 1.0, "renew": 0.3}
    async with app.open(any_yard.url, worker=False) as client:
        run = await client.start(two_steps.bind(str(door)), id="kept")
        with any_yard.worker(drain=30, **short) as leaving:
            until(lambda: len(any_yard.lines()) == 1, "the first step")
            with any_yard.worker(**short) as other:
                leaving.terminate()
                time.sleep(3)  # three leases: `other` looks all the time
                assert leaving.poll() is None, "it waits for its step"
                assert (await run.describe()).strikes == 0
                door.touch()
                out, err = leaving.communicate(timeout=30)
                assert (leaving.returncode, json.loads(out.splitlines()[-1])) == (
                    0, {"refusals": 0},
                ), err  # fmt: skip
                assert await run.result() == [leaving.pid, other.pid]
    assert [line.pid for line in any_yard.lines()] == [leaving.pid, other.pid], "nothing ran twice"
    await any_yard.dump()


@pytest.mark.timeout(90)
async def test_a_second_sigterm_leaves_at_once_and_the_next_worker_goes_on(
    any_yard: Yard, tmp_path: Path
) -> None:
    door = tmp_path / "door"
    async with app.open(any_yard.url, worker=False) as client:
        run = await client.start(two_steps.bind(str(door)), id="left")
        with any_yard.worker(drain=60, **POLL) as leaving, any_yard.worker(**POLL) as other:
            until(lambda: len(any_yard.lines()) == 1, "the first step")
            if any_yard.lines()[0].pid == other.pid:
                leaving, other = other, leaving
            leaving.terminate()
            time.sleep(0.1)
            leaving.terminate()
            leaving.wait(timeout=10)
            assert leaving.returncode == 130
            took = until(lambda: len(any_yard.lines()) == 2, "the takeover")
            assert took < 10
            door.touch()
            assert await run.result() == [other.pid, other.pid]
    await any_yard.dump()


@pytest.mark.timeout(90)
async def test_a_killed_owner_is_known_at_once(
    yard: Yard, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    door = tmp_path / "door"
    async with app.open(yard.url, worker=False) as client:
        run = await client.start(two_steps.bind(str(door)), id="orphan")
        with yard.worker(poll=0.05) as first, yard.worker(poll=0.05) as second:
            until(lambda: len(yard.lines()) == 1, "the first step")
            victim, heir = first, second
            if yard.lines()[0].pid == second.pid:
                victim, heir = second, first
            os.kill(victim.pid, signal.SIGKILL)
            took = until(lambda: len(yard.lines()) == 2, "the takeover")
            told = f"killed owner: the run went on {took * 1000:.0f} ms later (lease 30 s)"
            record_property("e2e", told)
            assert took < 10
            door.touch()
            assert await run.result() == [heir.pid, heir.pid]
            assert (await run.describe()).strikes == 0
    await yard.dump()


@pytest.mark.timeout(60)
async def test_a_thread_that_never_ends_does_not_keep_the_process(yard: Yard) -> None:
    async with app.open(yard.url, worker=False) as client:
        run = await client.start(hanging.bind(), id="hangs")
        with yard.worker(drain=0.1, poll=0.05) as worker:
            until(lambda: len(yard.lines()) == 1, "the step")
            with pytest.raises(Exception, match="StepTimedOut"):
                await run.result()
            worker.terminate()
            _, err = worker.communicate(timeout=10)
            assert worker.returncode == 0, err
