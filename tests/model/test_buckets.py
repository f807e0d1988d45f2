"""Every open run is in exactly one bucket, and the SQL says the same as the Python."""

from itertools import product
from pathlib import Path

import pytest

from holdfast.model.buckets import bucket_of, buckets_of
from holdfast.model.run import Run
from holdfast.model.status import CLOSED, RUN_MOVES
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.clock import ManualClock
from tests.model.rows import run

NOW = 1_000
WORKERS = {"living": NOW + 1, "expired": NOW}


@pytest.mark.parametrize(
    ("row", "bucket"),
    [
        (run(status="pending", owner=None, wake_at=NOW), "claimable"),
        (run(status="waiting", owner=None, wake_at=NOW - 1), "claimable"),
        (run(status="pending", owner=None, wake_at=NOW + 1), "due"),
        (run(status="waiting", owner=None, wake_at=NOW + 1), "due"),
        (run(status="waiting", owner=None), "waiting"),
        (run(status="waiting", owner=None, inbox_seq=1), "lost"),
        (run(status="waiting", owner=None, cancel=1), "lost"),
        (run(status="waiting", owner=None, cancel=2), "waiting"),
        (run(status="pending", owner=None), "lost"),
        (run(owner="living"), "leased"),
        (run(owner="expired"), "orphaned"),
        (run(owner="unknown"), "orphaned"),
        (run(owner=None), "lost"),
        (run(status="paused", owner=None), "paused"),
        (run(status="paused", owner=None, inbox_seq=1), "paused"),
        (run(status="paused", owner="living"), "lost"),
        (run(status="blocked", owner=None), "blocked"),
        (run(status="quarantined", owner=None), "quarantined"),
        *((run(status=status, owner=None), "closed") for status in sorted(CLOSED)),
    ],
)
def test_a_run_is_in_one_bucket(row: Run, bucket: str) -> None:
    assert bucket_of(row, WORKERS, NOW) == bucket


def every_row() -> list[Run]:
    owners = (None, "living", "expired", "unknown")
    wakes = (None, NOW - 1, NOW, NOW + 1)
    rows = product(RUN_MOVES, owners, wakes, (0, 1), (0, 1, 2))
    return [
        run(id=f"r{n:04}", status=status, owner=owner, wake_at=wake, inbox_seq=mail, cancel=cancel)
        for n, (status, owner, wake, mail, cancel) in enumerate(rows)
    ]


def test_no_row_fits_two_buckets() -> None:
    assert {len(buckets_of(row, WORKERS, NOW)) for row in every_row()} == {0, 1}


async def test_the_query_and_the_function_agree_on_every_row(tmp_path: Path) -> None:
    rows = every_row()
    store = SqliteStore(tmp_path / "runs.db", clock=ManualClock(NOW), threaded=False)
    await store.open()
    plant(store, rows)
    expected = {(row.ns, row.id): buckets_of(row, WORKERS, NOW) for row in rows}
    assert await store.buckets() == expected
    assert len(expected) == 13 * 4 * 4 * 2 * 3
    await store.close()


def plant(store: SqliteStore, rows: list[Run]) -> None:
    """Write rows that no command would ever make."""
    connection = store._writer._transactions.connection
    connection.execute("PRAGMA ignore_check_constraints = ON")
    names, marks = ", ".join(Run._fields), ", ".join("?" * len(Run._fields))
    numbered = [(*row, n) for n, row in enumerate(rows)]
    connection.executemany(f"INSERT INTO runs ({names}, number) VALUES ({marks}, ?)", numbered)
    workers = [(worker, lease, 0, "", "") for worker, lease in WORKERS.items()]
    connection.executemany("INSERT INTO workers VALUES (?, ?, ?, ?, ?)", workers)
