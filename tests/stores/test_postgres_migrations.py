"""A database of an earlier release is brought to the present schema, with all it holds."""

import asyncpg
import pytest

from holdfast.model.writes import Claim
from holdfast.stores.postgres import PostgresStore, checks, connection, target
from holdfast.stores.postgres.statements import Statement, migrations

ROWS = """
INSERT INTO holdfast.runs (
    ns, id, workflow, version, status, reason, generation, epoch, seq, wake_at,
    inbox_seq, inbox_read, cancel, strikes, input_digest, created_at, updated_at
)
VALUES ('default', 'r', 'w', '', 'pending', '', 1, 0, 1, 0, 0, 0, 0, 2, '', 5, 5);
INSERT INTO holdfast.events (ns, run, seq, generation, epoch, kind, key, asked_seq, at, codec)
VALUES ('default', 'r', 1, 1, 0, 'run.started', '', 0, 5, 0);
INSERT INTO holdfast.meta (key, value) VALUES ('schema', 1);
"""


async def test_a_database_of_the_first_schema_goes_on(postgres_url: str) -> None:
    first = await asyncpg.connect(postgres_url)
    await first.execute(migrations()[0] + ROWS)
    await first.close()
    store = PostgresStore(postgres_url)
    await store.open()
    try:
        claimed = await store.claim(Claim("default", "A", ("w",), 1, 1_000_000))
    finally:
        await store.close()
    [run] = claimed.runs
    assert (run.id, run.status, run.strikes) == ("r", "running", 2)
    assert (run.queue, run.priority) == ("default", 3)
    assert claimed.first_events["r"].kind == "run.started"


async def test_a_migration_takes_as_long_as_it_takes(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than the server's limits, and than our own patience with it."""
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.4)
    limited = Statement("SET transaction_timeout = '500ms'", ())
    monkeypatch.setattr(target, "SETTINGS", {**target.SETTINGS, "statement_timeout": "400ms"})
    monkeypatch.setattr(target.SQL, "limit_transactions", limited)
    slow = (*migrations(), "SELECT pg_sleep(1)")
    monkeypatch.setattr(checks, "migrations", lambda: slow)
    store = PostgresStore(postgres_url)
    await store.open()
    await store.close()
    asked = await asyncpg.connect(postgres_url)
    version = await asked.fetchval("SELECT value FROM holdfast.meta WHERE key = 'schema'")
    await asked.close()
    assert version == len(slow)
