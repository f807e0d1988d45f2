"""Two hosts on one PostgreSQL: when one dies, the other goes on with all it held."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.processes import Yard, until
from tests.e2e.shop import APART, app, two_steps

RUNS, LEASE = 200, 2.0
WORKER = {"poll": 0.2, "lease": LEASE, "renew": 0.5, "steps": 400}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("where", ["one machine", "two machines"])
async def test_two_hundred_runs_of_a_killed_host_go_on(
    where: str,
    tmp_path: Path,
    postgres_store: str,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    if where == "two machines":
        monkeypatch.setenv(APART, "1")
    yard, door = Yard(tmp_path, postgres_store), tmp_path / "door"
    async with app.open(yard.url, worker=False) as client:
        with yard.worker(**WORKER) as victim:
            runs = [await client.start(two_steps.bind(str(door)), id=f"r{n}") for n in range(RUNS)]
            until(lambda: len(yard.lines()) == RUNS, "all are in flight")
            with yard.worker(**WORKER) as heir:
                victim.kill()
                killed = time.monotonic()
                until(lambda: len(yard.lines()) == 2 * RUNS, "all go on")
                took = time.monotonic() - killed
                door.touch()
                for run in runs:
                    assert await run.result() == [heir.pid, heir.pid]
    record_property(
        "e2e",
        f"killed host, {where}: {RUNS} runs went on within {took:.1f} s (lease {LEASE:g} s)",
    )
    assert took < LEASE + 10
    await yard.dump()
