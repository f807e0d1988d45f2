"""What a statement locks, in which order, and what it passes over, seen from a session beside it.

Writers that wait for each other are told so by the server after a second, and try again: a wrong
order costs time, and no test of what is stored would show it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg
import pytest

from holdfast.kernel.dispatch import decide
from holdfast.model.annotations import Annotations, LogLine
from holdfast.model.writes import Reap
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.harness import answer, ids
from holdfast.testing.conformance.jobs import asked, claim, job
from holdfast.testing.postgres import PostgresServer
from tests.stores.locks import waiting

RUN = "SELECT FROM holdfast.runs WHERE id = '{}' FOR UPDATE NOWAIT"
JOB = "SELECT FROM holdfast.jobs WHERE key = '{}' FOR UPDATE NOWAIT"

Doing = Callable[[Harness], Awaitable[object]]


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Harness]:
    async with Harness(lambda clock: PostgresStore(url, clock=clock, rings=False)) as harness:
        yield harness


@asynccontextmanager
async def locked(url: str, statement: str) -> "AsyncIterator[asyncpg.Connection]":
    """Have a session beside the store's hold what the statement locks."""
    beside = await asyncpg.connect(url)
    try:
        await beside.execute("BEGIN")
        await beside.execute(statement)
        yield beside
    finally:
        await beside.close()


async def waits(url: str) -> None:
    """Return when a session waits for a lock."""
    beside = await asyncpg.connect(url)
    try:
        await waiting(beside)
    finally:
        await beside.close()


async def turns(harness: Harness) -> object:
    made = [harness.turn(await harness.row(id), answer("x#1")) for id in ("r1", "r0")]
    return await harness.store.write([decide(each) for each in made])


async def turns_that_say_something(harness: Harness) -> object:
    said = Annotations(lines=(LogLine(1, 20, "shop", "hello"),))
    rows = [await harness.row(id) for id in ("r1", "r0")]
    made = [harness.turn(row, answer("x#1"), annotations=said) for row in rows]
    return await harness.store.write([decide(each) for each in made])


async def messages(harness: Harness) -> object:
    made = [decide(harness.signalling("s", id)) for id in ("r1", "r0")]
    return await harness.store.write(made)


async def a_reap(harness: Harness) -> object:
    return await harness.reap("A", known_dead=True)


@pytest.mark.parametrize("doing", [turns, turns_that_say_something, messages, a_reap])
async def test_runs_are_locked_in_the_order_of_their_ids(postgres_store: str, doing: Doing) -> None:
    async with opened(postgres_store) as harness:
        for id in ("r1", "r0"):
            await harness.held(id)
        async with locked(postgres_store, RUN.format("r0")):
            done = asyncio.ensure_future(doing(harness))
            await waits(postgres_store)
            async with locked(postgres_store, RUN.format("r1")):
                pass  # it is free
        await done


async def test_a_reap_locks_jobs_in_the_order_of_their_keys(postgres_store: str) -> None:
    async with opened(postgres_store) as harness:
        run = await harness.held("r")
        await asked(harness, run, job(run, "work#2", priority=1), job(run, "work#1"))
        assert len((await claim(harness, "J")).jobs) == 2
        async with locked(postgres_store, JOB.format("work#1")):
            reaping = asyncio.ensure_future(harness.reap("J", known_dead=True))
            await waits(postgres_store)
            async with locked(postgres_store, JOB.format("work#2")):
                pass  # it is free
        assert await reaping == 2


@pytest.mark.parametrize("hints", [(), ("r0", "r1")], ids=["by lanes", "by name"])
async def test_a_claim_passes_over_what_another_has_locked(
    postgres_store: str, hints: tuple[str, ...]
) -> None:
    async with opened(postgres_store) as harness:
        await harness.send_all([harness.starting(id) for id in ("r0", "r1")])
        async with locked(postgres_store, RUN.format("r0")):
            # Who waited for the lock would be given up after 3 s.
            assert ids((await harness.claim("A", limit=1, hints=hints)).runs) == ["r1"]


async def test_what_changed_while_a_statement_waited_is_looked_at_again(
    postgres: PostgresServer, postgres_url: str
) -> None:
    """Each statement sees what is committed, whatever a database has as its default."""
    name = urlsplit(postgres_url).path[1:]
    postgres.execute(
        f"""ALTER DATABASE "{name}" SET default_transaction_isolation = 'serializable'"""
    )
    async with opened(postgres_url) as harness:
        await harness.held("r0")
        change = "UPDATE holdfast.runs SET reason = 'changed' WHERE id = 'r0'"
        async with locked(postgres_url, change) as beside:
            reaps = (Reap("A", known_dead=True),)
            claiming = asyncio.ensure_future(harness.claim("B", limit=1, reaps=reaps))
            await waits(postgres_url)
            await beside.execute("COMMIT")
        assert ids((await claiming).runs) == ["r0"]


async def test_a_claim_of_jobs_passes_over_what_another_has_locked(postgres_store: str) -> None:
    async with opened(postgres_store) as harness:
        run = await harness.held("r")
        await asked(harness, run, job(run, "work#1"), job(run, "work#2"))
        async with locked(postgres_store, JOB.format("work#1")):
            assert [each.key for each in (await claim(harness, "J")).jobs] == ["work#2"]
