"""A run that kills every worker it meets, among 200 innocent ones: it is set apart, they finish."""

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable

import pytest

import holdfast as hf
from holdfast.machine.values import digest
from holdfast.model.dump import Started
from tests.e2e.processes import PATIENCE, Yard
from tests.e2e.shop import app, killer, order, result_of_order

pytestmark = pytest.mark.proof

RUNS = 200
WORKER = {"steps": 20, "runs": 60, "poll": 0.05, "lease": 3.0, "renew": 0.5}
QUIET = hf.Settings(poll=0.05)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("seconds", [0.0, 0.2], ids=["at once", "after a while"])
async def test_a_killer_among_the_innocent_is_quarantined(
    seconds: float, any_yard: Yard, record_property: Callable[[str, object], None]
) -> None:
    starts: list[Started] = []
    async with app.open(any_yard.url, worker=False, settings=QUIET) as client:
        for n in range(RUNS):
            bound = order.bind(n)
            await client.start(bound, id=f"order-{n}")
            starts.append(Started("default", f"order-{n}", "order", digest(bound.input)))
            if n == RUNS // 4:
                await client.start(killer.bind(seconds), id="killer")
        crashes = await keep_two_workers(any_yard, client)
        for n in range(RUNS):
            assert await client.get(f"order-{n}", order).result() == result_of_order(n)
        row = await client.get("killer").describe()
    held = await any_yard.dump(tuple(starts))
    statuses = Counter(run.status for run in held.runs)
    repeated = sum(n > 1 for (run, *_), n in any_yard.executions().items() if run != "killer")
    record_property(
        "e2e",
        f"killer ({seconds:g} s): {crashes} workers crashed, {dict(statuses)}, "
        f"{repeated} attempts of innocent runs executed twice or more",
    )
    assert statuses == {"completed": RUNS, "quarantined": 1}
    assert row.status == "quarantined"
    assert "holdfast runs retry killer" in row.reason
    assert ("crash#1" if seconds else "unknown") in row.reason
    assert crashes == hf.Settings().strikes, "each of its crashes counts, and no more are needed"
    recorded = Counter(
        (run, event.key)
        for (_, run), events in held.events.items()
        for event in events
        if event.kind == "step.completed"
    )
    assert max(recorded.values()) == 1


async def keep_two_workers(any_yard: Yard, client: hf.Client) -> int:
    """Start a worker wherever one crashed, until nothing is left to do. Return the crashes."""
    workers = [any_yard.start(**WORKER), any_yard.start(**WORKER)]
    crashes, until = 0, time.monotonic() + 3 * PATIENCE
    try:
        while (await client.list(status=("pending", "running", "waiting"), limit=1)).runs:
            for place, worker in enumerate(workers):
                if worker.poll() is not None:
                    crashes += has_crashed(worker)
                    workers[place] = any_yard.start(**WORKER)
            assert time.monotonic() < until, "it did not come to its end"
            time.sleep(0.01)
    finally:
        # The last to crash may be judged by the other one before it is seen here.
        crashes += sum([has_crashed(worker) for worker in workers])
    return crashes


def has_crashed(worker: "subprocess.Popen[str]") -> bool:
    """Stop a worker, if it still runs, and tell whether it had ended by itself."""
    worker.terminate()
    told = worker.communicate(timeout=PATIENCE)
    assert worker.returncode in (0, -signal.SIGABRT), told
    return worker.returncode != 0
