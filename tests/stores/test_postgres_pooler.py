"""Behind a pooler that takes none of our settings, as pgbouncer does when it is not told to."""

import logging

import pytest

import holdfast as hf
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.harness import answer, ids
from tests.stores.proxy import proxied


async def test_the_store_does_without_settings_of_its_own(postgres_store, caplog):
    async with proxied(postgres_store, refuses_settings=True) as pooler:
        with caplog.at_level(logging.WARNING):
            async with Harness(lambda clock: PostgresStore(pooler.url, clock=clock)) as harness:
                harness.store.listen(lambda notices: None, worker="A")
                await harness.start("r")
                [run] = (await harness.claim("A")).runs
                assert await harness.commit(run, answer()) == "applied"
                assert ids((await harness.claim("B")).runs) == []
    assert "ALTER ROLE" in caplog.text


async def test_a_start_takes_one_statement_through_a_pooler_too(postgres_store):
    async with proxied(postgres_store, refuses_settings=True) as pooler:
        store = PostgresStore(pooler.url, rings=False)
        await store.open()
        assert store._claims.statements == 3, "one, with a transaction around it"
        assert store._target.forgets
        await store.close()


@pytest.mark.timeout(30)
async def test_workers_find_their_work_by_polling(postgres_store):
    app = hf.App("pooled")

    @app.step
    async def double(n: int) -> int:
        return 2 * n

    @app.workflow
    async def flow(n: int) -> int:
        return await double(n)

    async with (
        proxied(postgres_store, refuses_settings=True) as pooler,
        app.open(pooler.url, settings=hf.Settings(poll=0.05)),
        app.open(pooler.url, worker=False) as client,
    ):
        run = await client.start(flow.bind(21))
        assert await run.result() == 42
