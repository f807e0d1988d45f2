"""Hosts that change at the same time what a fork shares with its origin."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import asyncpg

from holdfast.model.commands import PruneRuns, RerunRun
from holdfast.ports.store import Store
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.forks import exported, fork, three
from tests.stores.locks import waiting

HELD = """
INSERT INTO holdfast.events (ns, run, seq, generation, epoch, kind, key, asked_seq, at, codec)
VALUES ('default', 'f', 1, 1, 1, 'run.started', '', 0, 0, 0)
"""
"""Until it is rolled back, whoever copies to the fork what it shares waits for it."""


class Scene(NamedTuple):
    """A closed run `r` and its closed fork `f`, which comes after it."""

    harness: Harness
    elsewhere: Store
    beside: "asyncpg.Connection"
    forgets: PruneRuns
    """The one that has been closed for longest, of those that nobody has locked."""


@asynccontextmanager
async def forked(url: str) -> AsyncIterator[Scene]:
    async with Harness(lambda clock: PostgresStore(url, clock=clock, rings=False)) as harness:
        await three(harness)
        harness.clock.advance()
        await fork(harness, 3)
        [run] = (await harness.claim("B")).runs
        await harness.end(run)
        forgets = PruneRuns("default", harness.clock.advance() + 1, limit=1)
        beside = await asyncpg.connect(url)
        try:
            yield Scene(harness, await harness.another(), beside, forgets)
        finally:
            await beside.close()


@asynccontextmanager
async def held(scene: Scene, url: str) -> "AsyncIterator[asyncio.Future[int]]":
    """Have the origin forgotten as far as that its fork is to get what it shares, in the block."""
    third = await asyncpg.connect(url)
    try:
        await third.execute("BEGIN")
        await third.execute(HELD)
        forgetting = asyncio.ensure_future(scene.harness.send(scene.forgets))
        await waiting(scene.beside)
        yield forgetting
    finally:
        await third.close()


async def test_a_fork_and_its_origin_are_forgotten_by_two_hosts(postgres_store: str) -> None:
    """Nothing of the fork is left: else no run could have its id again."""
    async with forked(postgres_store) as scene:
        harness = scene.harness
        async with held(scene, postgres_store) as forgetting:
            assert await harness.send(scene.forgets, scene.elsewhere) == 0, "the fork is in use"
        assert await forgetting == 1
        assert await harness.send(scene.forgets, scene.elsewhere) == 1
        assert await scene.beside.fetchval("SELECT count(*) FROM holdfast.events") == 0
        await harness.held("f")
        assert await harness.kinds("f") == ["run.started"]


async def test_a_fork_is_rerun_while_its_origin_is_forgotten(postgres_store: str) -> None:
    """Either would give it a history of its own: who comes second finds that done."""
    async with forked(postgres_store) as scene:
        harness = scene.harness
        row, events, *_ = await harness.load("f")
        rerun = RerunRun("default", "f", row.generation, events, harness.store.now(), "b#1")
        async with held(scene, postgres_store) as forgetting:
            rerunning = asyncio.ensure_future(harness.send(rerun, scene.elsewhere))
            await waiting(scene.beside, 2)
        assert await forgetting == 1
        assert (await rerunning).generation == 2
        numbers = [each.seq for each in (await exported(harness, "f")).events]
        assert numbers == list(range(1, len(events) + 2))
