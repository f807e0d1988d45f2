"""A file of an earlier release is brought to the present schema, with all it holds."""

import sqlite3
from pathlib import Path

from holdfast.model.annotations import Annotations, LogFilter, LogLine
from holdfast.model.writes import Advance, Claim
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.statements import migrations

ROWS = """
INSERT INTO runs (
    ns, id, workflow, version, status, reason, generation, epoch, seq, wake_at,
    inbox_seq, inbox_read, cancel, strikes, input_digest, created_at, updated_at
)
VALUES ('default', 'r', 'w', '', 'pending', '', 1, 0, 1, 0, 0, 0, 0, 0, x'00', 5, 5);
INSERT INTO events (ns, run, seq, generation, epoch, kind, key, asked_seq, at, codec)
VALUES ('default', 'r', 1, 1, 0, 'run.started', '', 0, 5, 0);
PRAGMA user_version = 1;
"""


async def test_a_file_of_the_first_schema_goes_on(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "old.db")
    old.executescript(migrations()[0] + ROWS)
    old.close()
    store = SqliteStore(tmp_path / "old.db", threaded=False)
    await store.open()
    [run] = (await store.claim(Claim("default", "A", ("w",), 1, 1_000_000))).runs
    assert (run.id, run.status) == ("r", "running")
    assert (run.queue, run.priority) == ("default", 3)
    line = LogLine(7, 20, "shop", "hello", epoch=run.epoch)
    turn = Advance("default", "r", run.epoch, 1, (), 9, owner="A", annotations=Annotations((line,)))
    [outcome] = await store.write([turn])
    assert outcome.applied
    assert await store.logs(LogFilter("default", "r")) == [line]
    await store.close()
