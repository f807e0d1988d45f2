"""A claim reads a few rows, however long the queue is."""

import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from holdfast.model.writes import Claim, Filter, Page
from holdfast.stores.postgres import PostgresStore, claims
from holdfast.stores.postgres.filtering import statement_of
from holdfast.stores.postgres.statements import Statement, queries
from holdfast.stores.postgres.target import BY_ORDER

QUEUED = 5_000
AT_MOST = 1_100  # rows: `look` names unknown workflows among the first thousand of the queue
FILL = """
INSERT INTO holdfast.runs
SELECT 'default', 'run-' || n, 'order', '', 'pending', '', 1, 0, 1, NULL, n, 0, 0, 0, 0, '', n, n,
    NULL, NULL
FROM generate_series(1, $1::int) n
"""
CLAIM = Claim("default", "me", ("order",), limit=1, lease=1_000_000, strikes=5)
SQL = queries()


@pytest.mark.parametrize(
    ("asked", "values"),
    [
        (SQL.claim_runs, claims.taking(CLAIM, None)),
        (SQL.look, claims.looking(CLAIM, None)),
        statement_of(Filter(statuses=("blocked",)), Page(100)),
        statement_of(Filter(statuses=("blocked",)), Page(100, before_at=7, before_id="r")),
    ],
    ids=["claim_runs", "look", "find_blocked_runs", "find_blocked_runs, further"],
)
async def test_a_long_queue_is_not_read_through(
    postgres_url: str, asked: Statement, values: dict[str, Any]
) -> None:
    store = PostgresStore(postgres_url)
    await store.open()
    await store.close()
    connection = await asyncpg.connect(postgres_url, server_settings=dict(BY_ORDER))
    try:
        await connection.execute("ALTER TABLE holdfast.runs SET (autovacuum_enabled = false)")
        await connection.fetch(FILL, QUEUED)  # without statistics, as of a table just filled
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {asked.text}"
        [[plan]] = await connection.fetch(explain, *asked.bound(values))
    finally:
        await connection.close()
    assert sum(rows_read(json.loads(plan)[0]["Plan"])) < AT_MOST


def rows_read(node: dict[str, Any]) -> Iterator[float]:
    """Yield how many rows of `runs` each scan of a plan went through."""
    if node.get("Relation Name") == "runs" and "Scan" in node["Node Type"]:
        yield (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    for inner in node.get("Plans", ()):
        yield from rows_read(inner)
