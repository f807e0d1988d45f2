"""kill -9 at random moments: every run finishes once, with the right result."""

import os
import random
import time
from collections.abc import Callable

import pytest

import holdfast as hf
from holdfast.machine.values import digest
from holdfast.model.dump import Started
from tests.e2e.processes import Yard, until
from tests.e2e.shop import app, order, result_of_order

pytestmark = pytest.mark.proof

RUNS, KILLS = 200, 10
# Few slots and few runs in hand: there is work left at every kill, and what is held makes progress.
WORKER = {"steps": 6, "runs": 20, "poll": 0.05, "lease": 1.0, "renew": 0.3}
QUIET = hf.Settings(poll=0.05)


@pytest.mark.timeout(120)
async def test_ten_kills_of_two_hundred_runs_lose_and_double_nothing(
    any_yard: Yard, record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("HOLDFAST_SEED") or time.time_ns() % 1_000_000)
    chance = random.Random(seed)
    starts: list[Started] = []
    async with app.open(any_yard.url, worker=False, settings=QUIET) as client:
        for n in range(RUNS):
            bound = order.bind(n)
            await client.start(bound, id=f"order-{n}")
            starts.append(Started("default", f"order-{n}", "order", digest(bound.input)))
    began = time.monotonic()
    for kill in range(KILLS):
        done = len(any_yard.lines())
        with any_yard.worker(**WORKER) as worker:
            until(lambda done=done: len(any_yard.lines()) > done, "the first step")  # type: ignore[misc]
            time.sleep(chance.uniform(0, 0.25))
            worker.kill()
        executed = len({(line.run, line.step) for line in any_yard.lines()})
        assert executed < RUNS * 4, f"no work was left at kill {kill + 1}"
    with any_yard.worker(**WORKER) as worker:
        async with app.open(any_yard.url, worker=False, settings=QUIET) as client:
            for n in range(RUNS):
                result = await client.get(f"order-{n}", order).result()
                assert result == result_of_order(n)
        worker.terminate()
        _, err = worker.communicate(timeout=30)
        assert worker.returncode == 0, err
    held = await any_yard.dump(tuple(starts))
    assert held.workers == {}, "the last worker signed off, and the dead were buried"
    executions = any_yard.executions()
    recorded = {
        (run, event.key)
        for (_, run), events in held.events.items()
        for event in events
        if event.kind == "step.completed"
    }
    doubled = sum(count > 1 for count in executions.values())
    took = time.monotonic() - began
    record_property(
        "e2e",
        f"kills: seed {seed}, {RUNS} runs, {KILLS} kills in {took:.1f} s; "
        f"{executions.total()} executions in the journal, {len(recorded)} recorded answers; "
        f"{doubled} attempts ran again, killed between journal line and commit",
    )
    assert doubled >= 1, f"no kill fell between a journal line and its commit (seed {seed})"
    assert {(run, key) for run, key, _ in executions} == recorded
    assert len(recorded) == RUNS * 4
    for (_, run), events in held.events.items():
        kinds = [event.kind for event in events]
        assert kinds.count("run.completed") == 1, run
        assert kinds[-1] == "run.completed", run
        assert kinds.count("step.completed") == 4, run
