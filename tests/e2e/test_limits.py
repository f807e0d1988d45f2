"""Two hosts share a queue with limits: by a journal outside the store, never one too many."""

from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast as hf
from tests.e2e.processes import Line, Yard, until
from tests.e2e.shop import app, squeezed

SLOTS, OF_A_KEY = 3, 2
NOISY, QUIET = 24, 3
WORKER = {"poll": 0.2, "lease": 2.0, "renew": 0.5}


@pytest.fixture(params=["sqlite", "postgres"])
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Yard:
    url = request.getfixturevalue("postgres_store") if request.param == "postgres" else ""
    return Yard(tmp_path, url)


async def line_up(client: hf.Client) -> list[hf.RunHandle[int]]:
    """Start the runs of a noisy key, and then those of a quiet one."""
    await client.queues.set("narrow", concurrency=SLOTS, key_concurrency=OF_A_KEY)
    keys = ["noisy"] * NOISY + ["quiet"] * QUIET
    return [
        await client.start(squeezed.bind(0.05), id=f"{key}{n}", queue_key=key)
        for n, key in enumerate(keys)
    ]


def crowds(lines: list[Line]) -> list[list[str]]:
    """Return who holds a slot after each line: from its first entry until it leaves."""
    inside: list[str] = []
    found: list[list[str]] = []
    for line in lines:
        if line.step == "leave":
            inside.remove(line.run)
        elif line.run not in inside:  # it enters again if its first host died in there
            inside.append(line.run)
        found.append(list(inside))
    return found


def is_within_limits(lines: list[Line]) -> bool:
    return all(
        len(crowd) <= SLOTS
        and all(sum(run.startswith(key) for run in crowd) <= OF_A_KEY for key in ("noisy", "quiet"))
        for crowd in crowds(lines)
    )


@pytest.mark.timeout(120)
async def test_two_hosts_never_hold_more_than_allowed(
    yard: Yard, record_property: Callable[[str, object], None]
) -> None:
    async with app.open(yard.url, worker=False) as client:
        runs = await line_up(client)
        with yard.worker(**WORKER) as first, yard.worker(**WORKER) as second:
            pids = [await run.result() for run in runs]
        [state] = await client.queues.list()
    lines = yard.lines()
    assert is_within_limits(lines)
    assert max(map(len, crowds(lines))) == SLOTS, "the limit was never reached"
    assert set(pids) <= {first.pid, second.pid}
    entered = [line.run for line in lines if line.step == "enter"]
    quiet = [n for n, run in enumerate(entered) if run.startswith("quiet")]
    assert quiet[0] <= SLOTS, "the quiet key waited for the noisy one"
    assert quiet[-1] <= SLOTS + 2 * QUIET
    assert (state.held, state.waiting) == (0, 0)
    record_property("e2e", f"limits: quiet runs entered as {quiet} of {len(entered)}")
    await yard.dump()


@pytest.mark.timeout(120)
async def test_a_killed_host_takes_no_slot_with_it_and_none_is_counted_twice(yard: Yard) -> None:
    async with app.open(yard.url, worker=False) as client:
        runs = await line_up(client)
        with yard.worker(**WORKER) as victim:
            until(lambda: len(yard.lines()) >= 2 * SLOTS, "some are inside")
            with yard.worker(**WORKER):
                victim.kill()
                for run in runs:
                    await run.result()
        [state] = await client.queues.list()
    assert is_within_limits(yard.lines())
    assert (state.held, state.waiting) == (0, 0)
    await yard.dump()
