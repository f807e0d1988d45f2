"""A file of an earlier release is brought to the present schema, with all it holds."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.errors import StoreSettings, StoreUnavailable
from holdfast.model.annotations import Annotations, LogFilter, LogLine
from holdfast.model.moving import named
from holdfast.model.writes import Advance, Claim, Prune
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.connection import APPLICATION_ID, migrate
from holdfast.stores.sqlite.rows import event_row
from holdfast.stores.sqlite.statements import migrations, queries
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.harness import answer

ROWS = f"""
INSERT INTO runs (
    ns, id, workflow, version, status, reason, generation, epoch, seq, wake_at,
    inbox_seq, inbox_read, cancel, strikes, input_digest, created_at, updated_at
)
VALUES ('default', 'r', 'w', '', 'pending', '', 1, 0, 1, 0, 0, 0, 0, 0, x'00', 5, 5);
INSERT INTO events (ns, run, seq, generation, epoch, kind, key, asked_seq, at, codec)
VALUES ('default', 'r', 1, 1, 0, 'run.started', '', 0, 5, 0);
PRAGMA user_version = 1;
PRAGMA application_id = {APPLICATION_ID};
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
    turn = Advance("default", "r", "A", run.epoch, 1, (), 9, annotations=Annotations((line,)))
    [outcome] = await store.write([turn])
    assert outcome.applied
    assert await store.logs(LogFilter("default", "r")) == [line]
    await store.close()


BEFORE_HISTORY = 21
"""The last schema in which events were kept by the names of their runs."""
RUN = """
INSERT INTO runs (
    ns, id, workflow, version, status, reason, generation, epoch, seq, wake_at,
    inbox_seq, inbox_read, cancel, strikes, input_digest, created_at, updated_at, closed_at
)
VALUES (?, ?, 'w', '', ?, '', 1, 0, ?, NULL, 0, 0, 0, 0, x'00', ?, 5, ?)
"""
EVENT = "INSERT INTO events VALUES (?, ?, ?, 1, 0, ?, ?, 0, ?, ?, ?, ?, ?, ?)"
EVENTS = [
    ("default", "r", 1, "run.started", "", 5, None, None, 0, b'{"n":1}', None),
    ("default", "r", 2, "step.failed", "a#1", 6, 3, b"d" * 16, 0, b"{}", 3),
    ("default", "r", 3, "run.retried", "", 7, None, None, 0, None, None),
    ("default", "r", 4, "step.completed", "a#1", 8, 4, b"d" * 16, 2, b"\x02blob-name:7000", None),
    ("default", "r", 5, "run.completed", "", 9, None, None, 0, b"2", None),
    ("default", "fork", 4, "step.completed", "a#1", 12, 4, b"d" * 16, 0, b"3", None),
    ("other", "r", 1, "run.started", "", 2, None, None, 1, b"sealed", None),
    ("other", "r", 2, "step.completed", "b#1", 3, None, None, 0, None, None),
]
VIEWS = {
    "events": "ns, run, seq",
    "living_events": "ns, run, seq",
    "workflow_runs": "ns, id",
}


def file_before_history(path: Path) -> sqlite3.Connection:
    """Make a file with runs of two namespaces, of which one is a fork."""
    old = sqlite3.connect(path, isolation_level=None)
    old.executescript("\n".join(migrations()[:BEFORE_HISTORY]))
    old.execute(f"PRAGMA user_version = {BEFORE_HISTORY}")
    old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    old.execute(RUN, ("default", "r", "completed", 5, 5, 9))
    old.execute(RUN, ("default", "fork", "waiting", 4, 11, None))
    old.execute(RUN, ("other", "r", "waiting", 2, 2, None))
    old.executemany(EVENT, EVENTS)
    old.execute("INSERT INTO forks VALUES ('default', 'fork', 'r', 3, 5)")
    return old


def shown(connection: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Return what people read, with the names of the columns."""
    told: dict[str, list[tuple[Any, ...]]] = {}
    for view, order in VIEWS.items():
        rows = connection.execute(f"SELECT * FROM {view} ORDER BY {order}")
        told[view] = [tuple(column[0] for column in rows.description), *rows]
    return told


async def test_events_kept_by_names_read_as_before(tmp_path: Path) -> None:
    with closing(file_before_history(tmp_path / "old.db")) as old:
        before = shown(old)
    assert len(before["events"]) == len(EVENTS) + 1
    async with Harness(lambda clock: SqliteStore(tmp_path / "old.db", clock=clock)) as harness:
        store = harness.store
        assert isinstance(store, SqliteStore)
        with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
            assert shown(connection) == before
        whole = await store.export("default", "r")
        assert whole is not None
        names = ("seq", "kind", "key", "at", "took", "digest", "codec", "payload", "superseded_by")
        read = [tuple(getattr(event, name) for name in names) for event in whole.events]
        assert [("default", "r", *row) for row in read] == EVENTS[:5]
        fork, other = await store.load("default", "fork"), await store.load("other", "r")
        assert fork is not None
        assert other is not None
        assert [(event.seq, event.at) for event in fork.events] == [(1, 5), (3, 7), (4, 12)]
        assert [event.payload for event in other.events] == [b"sealed", None]
        assert await store.named_blobs() == {"blob-name"}
        await harness.held("new")
        await harness.held("newer")
        with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
            numbers = connection.execute("SELECT ns, id FROM runs ORDER BY number").fetchall()
            [of_new] = connection.execute("SELECT seq, kind FROM events WHERE run = 'new'")
    assert numbers == [
        ("other", "r"), ("default", "r"), ("default", "fork"), ("default", "new"),
        ("default", "newer"),
    ]  # fmt: skip
    assert of_new == (1, "run.started")


async def test_a_file_that_was_moved_away_stays_closed(tmp_path: Path) -> None:
    with closing(file_before_history(tmp_path / "old.db")) as old:
        old.execute("INSERT INTO moves VALUES ('m', 'source', 'there', 'moved', 9, 4, '', 1)")
        for table in ("runs", "events"):
            for verb in ("INSERT", "UPDATE", "DELETE"):
                old.execute(named(queries().fence, table=table, verb=verb, told="source there"))
        migrate(old)
        assert old.execute("SELECT step, closed FROM moves").fetchall() == [(4, 1)]
        assert old.execute("SELECT count(*) FROM events").fetchall() == [(len(EVENTS),)]
        with pytest.raises(sqlite3.IntegrityError, match="holdfast moved: source there"):
            old.execute("UPDATE runs SET seq = 9")


async def test_the_number_of_a_deleted_run_brings_none_of_its_events(tmp_path: Path) -> None:
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        run = await harness.held("old")
        await harness.commit(run, answer())
        await harness.end(await harness.row("old"))
        [pruned] = await harness.store.write([Prune("default", 1 << 60, 10, 0)])
        assert pruned.total == 1
        await harness.held("new")
        with closing(sqlite3.connect(tmp_path / "hf.db")) as connection:
            assert connection.execute("SELECT number FROM runs").fetchall() == [(1,)]
            assert connection.execute("SELECT run, seq FROM events").fetchall() == [("new", 1)]


async def test_an_event_of_no_run_is_not_kept_anywhere(tmp_path: Path) -> None:
    """A key that is NULL would be given a number, and with it a place in some run's history."""
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        await harness.held("r")
        with closing(sqlite3.connect(tmp_path / "hf.db")) as connection:
            row = event_row("default", "nobody", answer()._replace(at=1, seq=2))
            for statement in (queries().add_event, queries().import_event):
                binds = row if statement is queries().add_event else (*row, None)
                assert connection.execute(statement, binds).rowcount == 0
            assert connection.execute("SELECT run, seq FROM events").fetchall() == [("r", 1)]


async def test_a_run_that_no_number_is_left_for_is_refused(tmp_path: Path) -> None:
    """With a larger one its events would stand among another run's."""
    async with Harness(lambda clock: SqliteStore(tmp_path / "hf.db", clock=clock)) as harness:
        await harness.start("r")
        with closing(sqlite3.connect(tmp_path / "hf.db")) as connection, connection:
            last = (1 << 31) - 1
            connection.execute(f"UPDATE runs SET number = {last}")
            connection.execute(f"UPDATE run_events SET place = {last} << 32 | 1")
        with pytest.raises(StoreUnavailable, match="number"):
            await harness.start("s")
        assert await harness.store.load("default", "s") is None
        loaded = await harness.store.load("default", "r")
        assert loaded is not None
        assert [event.kind for event in loaded.events] == ["run.started"]


async def test_a_file_that_is_refused_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "books.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (distance REAL)")
    for _ in range(3):
        with pytest.raises(StoreSettings):
            await SqliteStore(path).open()
    assert not [each.path for each in psutil.Process().open_files() if str(tmp_path) in each.path]
