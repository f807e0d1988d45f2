"""What only SQLite can show: how many transactions something costs."""

from pathlib import Path

from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.clock import MINUTE
from holdfast.testing.conformance import Harness


async def test_a_claim_that_finds_nothing_writes_nothing(tmp_path: Path) -> None:
    async with Harness(lambda clock: SqliteStore(tmp_path / "runs.db", clock=clock)) as harness:
        store = harness.store
        assert isinstance(store, SqliteStore)
        await harness.start("later", wake_at=store.now() + MINUTE)
        await harness.start("unknown", workflow="x")
        before = store.transactions
        for _ in range(5):
            assert (await harness.claim()).runs == ()
            assert (await harness.claim(limit=0, workflows=("x",))).runs == ()
        assert store.transactions == before


async def test_a_batch_is_one_transaction(tmp_path: Path) -> None:
    async with Harness(lambda clock: SqliteStore(tmp_path / "runs.db", clock=clock)) as harness:
        store = harness.store
        assert isinstance(store, SqliteStore)
        before = store.transactions
        await harness.send_all([harness.starting(f"r{n}") for n in range(100)])
        assert store.transactions == before + 1
