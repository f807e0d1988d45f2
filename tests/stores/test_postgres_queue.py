"""A claim reads a few rows and locks those it takes, however long the queues are."""

import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from holdfast.model.writes import Claim, Filter, Page
from holdfast.stores.postgres import PostgresStore, claims
from holdfast.stores.postgres.filtering import statement_of
from holdfast.stores.postgres.statements import Statement
from holdfast.stores.postgres.target import BY_ORDER

QUEUED = 5_000
AT_MOST = 400  # rows: `look` names unknown workflows among the first 200 of the queues
FILL = """
INSERT INTO holdfast.runs
SELECT 'default', 'run-' || n, 'order', '', 'pending', '', 1, 0, 1, NULL, n, 0, 0, 0, 0, '', n, n,
    NULL, NULL, 'queue-' || n % $2::int, 1 + (n / 5) % $2
FROM generate_series(1, $1::int) n
"""
LANES = {"one lane": 1, "many lanes": 5}
CLAIM = Claim("default", "me", ("order",), limit=1, lease=1_000_000, strikes=5)
NAMED = CLAIM._replace(queues=("queue-1", "nobody's", "queue-0"))
STRANGER = CLAIM._replace(queues=("nobody's",))
ASKED = {
    "take": (claims.TAKE, claims.taking(CLAIM, None)),
    "take from named queues": (claims.TAKE, claims.taking(NAMED, None)),
    "take from an empty queue": (claims.TAKE, claims.taking(STRANGER, None)),
    "look": (claims.LOOK, claims.looking(CLAIM, None)),
    "look at named queues": (claims.LOOK, claims.looking(NAMED, None)),
    "look at an empty queue": (claims.LOOK, claims.looking(STRANGER, None)),
    "blocked": statement_of(Filter(statuses=("blocked",)), Page(100)),
    "blocked, further": statement_of(
        Filter(statuses=("blocked",)), Page(100, before_at=7, before_id="r")
    ),
}


@pytest.mark.parametrize("queues", LANES.values(), ids=LANES)
@pytest.mark.parametrize(("asked", "values"), ASKED.values(), ids=ASKED)
async def test_a_long_queue_is_not_read_through(
    postgres_url: str, asked: Statement, values: dict[str, Any], queues: int
) -> None:
    plan = await plan_of(postgres_url, asked, values, queues)
    assert sum(rows_read(plan)) < AT_MOST


@pytest.mark.parametrize("queues", LANES.values(), ids=LANES)
async def test_a_claim_locks_only_what_it_takes(postgres_url: str, queues: int) -> None:
    plan = await plan_of(postgres_url, *ASKED["take"], queues)
    assert sum(node["Actual Rows"] for node in nodes(plan, "LockRows")) == CLAIM.limit


async def plan_of(
    url: str, asked: Statement, values: dict[str, Any], queues: int
) -> dict[str, Any]:
    """Return how a statement was carried out on a table just filled, of which nothing is known."""
    store = PostgresStore(url)
    await store.open()
    await store.close()
    connection = await asyncpg.connect(url, server_settings=dict(BY_ORDER))
    try:
        await connection.execute("ALTER TABLE holdfast.runs SET (autovacuum_enabled = false)")
        await connection.fetch(FILL, QUEUED, queues)
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {asked.text}"
        [[plan]] = await connection.fetch(explain, *asked.bound(values))
    finally:
        await connection.close()
    found: dict[str, Any] = json.loads(plan)[0]["Plan"]
    return found


def nodes(node: dict[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    if kind in node["Node Type"]:
        yield node
    for inner in node.get("Plans", ()):
        yield from nodes(inner, kind)


def rows_read(plan: dict[str, Any]) -> Iterator[float]:
    """Yield how many rows of `runs` each scan of a plan went through."""
    for node in nodes(plan, "Scan"):
        if node.get("Relation Name") == "runs":
            rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            yield rows * node["Actual Loops"]
