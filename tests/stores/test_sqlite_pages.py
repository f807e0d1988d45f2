"""How many pages a commit writes: those it changes, and not their neighbours."""

from pathlib import Path

from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.harness import answer, event

PAGE, OF_FRAME, OF_LOG = 4096, 24, 32
COMMITS = 200


async def test_events_added_to_a_long_history_leave_the_pages_beside_it_alone(
    tmp_path: Path,
) -> None:
    """One page of the history, and now and then a new one; the row of the run is left alone."""
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        assert isinstance(harness.store, SqliteStore)
        run = await harness.held("r")
        connection = harness.store._writer._transactions.connection
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        before = _pages(tmp_path)
        for n in range(COMMITS):
            asked = event("step.started", f"work#{n}", payload=b'{"attempt":1}')
            done = answer(f"work#{n}", payload=b'{"value":%06d}' % n, digest=bytes(16), took=9)
            assert await harness.commit(run, asked, done) == "applied"
            run = run._replace(seq=run.seq + 2)
        written = _pages(tmp_path) - before
    assert written < 1.2 * COMMITS


def _pages(folder: Path) -> int:
    """Return how many pages the log holds: it is not copied into the file meanwhile."""
    return ((folder / "hf.db-wal").stat().st_size - OF_LOG) // (PAGE + OF_FRAME)
