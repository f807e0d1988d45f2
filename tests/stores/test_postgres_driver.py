"""Whatever the driver raises when a link breaks, callers get an error of ours, and may go on.

The driver has errors of several trees, and which of them comes depends on the byte at which a link
ends. One that slipped through ended a process that should have tried again.
"""

import asyncio
import gc
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.errors import StoreError
from holdfast.model.writes import Notice, Renew
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.target import Target
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.harness import LEASE, answer
from tests.stores.proxy import Proxy, proxied

TERMINATED = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0"
BYTES = 6_000
"""More than the server says to one who does everything once."""


@asynccontextmanager
async def watched(url: str) -> AsyncIterator[tuple[Proxy, Harness]]:
    """A store behind a proxy. Nothing may be raised where nobody hears it."""
    unheard: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unheard.append(context))
    async with (
        proxied(url) as proxy,
        Harness(lambda clock: PostgresStore(proxy.url, clock=clock)) as harness,
    ):
        yield proxy, harness
    loop.set_exception_handler(None)
    assert unheard == []


async def everything(harness: Harness, name: str) -> None:
    """Use every line of the store."""
    store = harness.store
    assert isinstance(store, PostgresStore)
    await store.write([Renew("A", LEASE)])
    await asyncio.to_thread(asyncio.run, in_a_thread(store))
    await harness.start(name)
    for run in (await harness.claim("A", eager=True)).runs:
        await harness.commit(run, answer())
    await store.load("default", name)
    await store.dump()
    store._tell([Notice(what="ready")])


async def in_a_thread(store: PostgresStore) -> None:
    await store.write([Renew("A", LEASE)])


async def surely(harness: Harness, name: str) -> int:
    """Do everything, as often as it takes; return how often."""
    async with asyncio.timeout(20):
        for tries in range(1, 50):
            try:
                await everything(harness, name)
            except StoreError:
                continue
            return tries
    raise AssertionError("the store does not come back")


async def test_a_session_that_the_server_ended_while_it_was_idle(postgres_store):
    """Its last word has come and the end of the link has not: *another operation*."""
    async with watched(postgres_store) as (proxy, harness):
        harness.store.listen(lambda notices: None, worker="A")
        await everything(harness, "before")
        proxy.say(b"E" + (len(TERMINATED) + 4).to_bytes(4, "big") + TERMINATED)
        await surely(harness, "after")


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(3))
async def test_links_that_end_at_any_byte(postgres_store, seed):
    chance, tries = random.Random(seed), 0
    async with watched(postgres_store) as (proxy, harness):
        harness.store.listen(lambda notices: None, worker="A")
        for n in range(30):
            proxy.budget = chance.randrange(BYTES)
            tries += await surely(harness, f"r{n}")
    assert tries > 30, "some were cut"


@pytest.mark.parametrize("moments", range(12))
async def test_a_dial_that_is_cancelled_in_mid_air_leaves_nothing_behind(postgres_store, moments):
    async with watched(postgres_store) as (proxy, _):
        dialing = asyncio.create_task(Target(proxy.url).connect({}))
        for _ in range(moments):
            await asyncio.sleep(0)
        dialing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialing
        await asyncio.sleep(0)
        del dialing
        gc.collect()
