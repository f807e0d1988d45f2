"""A database of an earlier release is brought to the present schema, with all it holds."""

import asyncpg

from holdfast.model.writes import Claim
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.statements import migrations

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
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(migrations()[0] + ROWS)
    await connection.close()
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
