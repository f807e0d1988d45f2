"""Behind a real pgbouncer in transaction mode, set up in every way that matters to us."""

import asyncio
import logging
from pathlib import Path

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.target import Target
from holdfast.testing.conformance import Case, cases
from tests.e2e.processes import Yard
from tests.e2e.shop import app, order, result_of_order
from tests.stores.pooler import PREPARES_FROM, WAYS, Pooler

every_way = pytest.mark.parametrize("pooled", WAYS, indirect=True)
RUNS = 30


@pytest.mark.slow
@pytest.mark.parametrize("case", cases("durable", "shared"), ids=str)
@every_way
async def test_store(case: Case, pooled: str, postgres_store: str) -> None:
    await case.run(lambda clock: PostgresStore(pooled, clock=clock))


@pytest.mark.timeout(60)
@every_way
async def test_two_hosts_share_the_work(pooled: str, postgres_store: str, tmp_path: Path) -> None:
    """Two processes name what they prepare alike, and use each other's server sessions."""
    yard = Yard(tmp_path, pooled)
    quick = {"poll": 0.05, "runs": 10}
    async with app.open(pooled, worker=False) as client:
        with yard.worker(**quick) as one, yard.worker(**quick) as other:
            numbers = range(1, RUNS + 1)
            runs = [await client.start(order.bind(n), id=f"r{n}") for n in numbers]
            results = await asyncio.gather(*(run.result() for run in runs))
            assert results == [result_of_order(n) for n in numbers]
            pids = {line.pid for line in yard.lines()}
            assert pids == {one.pid, other.pid}
    await yard.dump()


@every_way
async def test_a_pooler_is_known_as_one(pooled: str, pooler: Pooler, request: object) -> None:
    target = Target(pooled)
    connection = await target.connect({"application_name": "holdfast"})
    await connection.close()
    assert target.is_pooled
    keeps = pooler.version >= PREPARES_FROM and "without" not in str(request)
    assert target.forgets != keeps


async def test_a_server_is_not_taken_for_a_pooler(postgres_store: str) -> None:
    target = Target(postgres_store)
    connection = await target.connect({})
    await connection.close()
    assert (target.is_pooled, target.forgets) == (False, False)


@pytest.mark.parametrize("pooled", ["taking settings"], indirect=True)
async def test_it_is_told_that_statements_take_longer(
    pooled: str, pooler: Pooler, caplog: pytest.LogCaptureFixture
) -> None:
    store = PostgresStore(pooled)
    with caplog.at_level(logging.WARNING):
        await store.open()
    await store.close()
    assert ("max_prepared_statements" in caplog.text) == (pooler.version < PREPARES_FROM)
    assert "idle_in_transaction_session_timeout" in caplog.text


async def test_a_pooler_without_a_server_is_a_store_that_is_away(pooler: Pooler) -> None:
    with (
        pooler.before("postgresql://me@127.0.0.1:1/shop", "as it comes") as url,
        pytest.raises(StoreUnavailable),
    ):
        await PostgresStore(url).open()
