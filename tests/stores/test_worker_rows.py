"""What a worker's row says of it is what its last renewal said, whatever else was on its way."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.model.commands import RenewLease
from holdfast.model.writes import Reap
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance import Harness, jobs
from holdfast.testing.conformance.harness import LEASE

WAYS: Mapping[str, Mapping[str, Any]] = {
    "searched": {},
    "named": {"hints": ("r",), "eager": True},
    "taken over": {"reaps": (Reap("A", known_dead=True),)},
}
"""How a claim comes by a run."""
BEFORE, NOW = '{"stuck_threads": 2}', '{"stuck_threads": 0}'


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    """A harness on each store that processes share, by name in the test's id."""
    if request.param == "sqlite":
        return Harness(lambda clock: SqliteStore(tmp_path / "s.db", clock=clock))
    url = request.getfixturevalue("postgres_store")
    return Harness(lambda clock: PostgresStore(url, clock=clock, rings=False))


@asynccontextmanager
async def opened(harness: Harness) -> AsyncIterator[Any]:
    """Open it, and give a way to ask what the row of worker B says."""

    async def said() -> str:
        rows = await cast("Any", harness.store).workers()
        return {row.id: row.info for row in rows}["B"]

    async with harness:
        yield harness, said


@pytest.mark.parametrize("way", [*WAYS, "of a job"])
async def test_a_claim_that_was_on_its_way_says_nothing_new_of_its_worker(
    shared: Harness, way: str
) -> None:
    async with opened(shared) as (harness, said):
        if way in ("taken over", "of a job"):
            run = await harness.held("r", worker="A")
            await jobs.asked(harness, run)
        else:
            await harness.start("r")
        await harness.send(RenewLease("B", LEASE, info=NOW))
        harness.clock.advance(LEASE // 2)  # so that the claim renews the lease
        if way == "of a job":
            taken = (await jobs.claim(harness, "B", info=BEFORE)).jobs
        else:
            taken = (await harness.claim("B", info=BEFORE, **WAYS[way])).runs
        assert len(taken) == 1
        assert await said() == NOW
        harness.clock.advance(LEASE // 2 + SECOND)
        assert "B" not in dict((await harness.claim("C", limit=0)).dead), "its lease is renewed"


async def test_a_claim_introduces_a_worker_that_is_not_known(shared: Harness) -> None:
    async with opened(shared) as (harness, said):
        await harness.start("r")
        assert len((await harness.claim("B", info=NOW)).runs) == 1
        assert await said() == NOW
