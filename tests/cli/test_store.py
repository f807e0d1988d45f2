"""`holdfast doctor`, `holdfast db`, and what happens when the store is not what was meant."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.model.deeds import Deed
from holdfast.stores.sqlite.statements import migrations
from tests.cli.conftest import Type


@pytest.mark.usefixtures("full")
class TestDoctor:
    def test_a_sound_store_is_exit_code_0(self, typed: Type) -> None:
        told = json.loads(typed("doctor", "--json").stdout)
        assert told["violations"] == []
        assert told["store"]["journal_mode"] == "wal"
        assert told["store"]["synchronous"] == 2
        assert told["statuses"]["waiting"] == 2
        assert told["buckets"] == {
            "blocked": 1, "claimable": 1, "closed": 3, "due": 1, "paused": 1, "quarantined": 1,
            "waiting": 1,
        }  # fmt: skip
        text = typed("doctor", person=True).stdout
        assert "✓ I8  each run is in exactly one bucket" in text
        assert "No worker is listening" in text
        assert typed("doctor").exit_code == 0

    def test_a_broken_invariant_is_exit_code_1(self, typed: Type, tmp_path: Path) -> None:
        with closing(sqlite3.connect(tmp_path / "sample.db")) as connection, connection:
            connection.execute(
                "DELETE FROM run_events WHERE place = "
                "(SELECT number << 32 | 2 FROM runs WHERE id = 'completed')"
            )
        result = typed("doctor", person=True)
        assert result.exit_code == 1
        assert "✗ I1" in result.stdout
        assert "completed" in result.stdout
        found = json.loads(typed("doctor", "--json").stdout)["violations"]
        assert "I1" in {violation["invariant"] for violation in found}
        assert "violation\tI1\t" in typed("doctor").stdout

    def test_events_of_a_run_that_is_gone_are_found(self, typed: Type, tmp_path: Path) -> None:
        with closing(sqlite3.connect(tmp_path / "sample.db")) as connection, connection:
            connection.execute("DELETE FROM runs WHERE id = 'completed'")
        assert typed("doctor").exit_code == 1
        found = json.loads(typed("doctor", "--json").stdout)["violations"]
        assert "there are events and no run" in {violation["text"] for violation in found}


class TestDb:
    def test_migrate_makes_the_file_and_status_changes_nothing(
        self, typed: Type, tmp_path: Path
    ) -> None:
        assert typed("db", "status").exit_code == 5
        assert not (tmp_path / "sample.db").exists()
        newest = len(migrations())
        assert f"from version 0 to {newest}" in typed("db", "migrate").stdout
        assert f"is at version {newest}" in typed("db", "migrate").stdout
        facts = json.loads(typed("db", "status", "--json").stdout)
        assert facts["schema"] == facts["schema_of_release"] == newest

    @pytest.mark.usefixtures("full")
    def test_what_is_forgotten_in_other_databases_is_named_by_the_app(
        self, typed: Type, tmp_path: Path
    ) -> None:
        app, books = tmp_path / "shop.py", tmp_path / "books.db"
        app.write_text(
            "import holdfast as hf\napp = hf.App('shop')\n"
            f"books = hf.SqliteWitness({str(books)!r})\n"
            "@app.transaction(on=books)\ndef pay(c) -> int:\n    return 1\n"
            "@app.transaction(on=books)\ndef refund(c) -> int:\n    return 1\n"
        )
        hf.SqliteWitness(books).once(Deed("default", "gone", 1, "pay#1"), lambda _: b"1")
        words = ("db", "prune-witness", str(app), "--older-than")
        assert typed(*words, "1d").stdout == "0 steps forgotten\n"
        assert typed(*words, "0s").stdout == "1 step forgotten\n"
        assert typed(*words, "soon").exit_code == 2

    @pytest.mark.usefixtures("full")
    def test_prune_counts_first_and_forgets_only_closed_runs(self, typed: Type) -> None:
        before = json.loads(typed("doctor", "--json").stdout)["statuses"]
        assert typed("db", "prune", "--older-than", "1d", "--dry-run").stdout.startswith("0 runs")
        told = typed("db", "prune", "--older-than", "0s", "--dry-run").stdout
        assert (
            typed("db", "prune", "--older-than", "0s", "-y").stdout.split()[:2] == told.split()[:2]
        )
        after = json.loads(typed("doctor", "--json").stdout)["statuses"]
        assert set(after) <= {"pending", "running", "waiting", "paused", "blocked", "quarantined"}
        assert sum(before.values()) - sum(after.values()) == int(told.split()[0])
        assert typed("db", "prune", "--older-than", "soon").exit_code == 2

    @pytest.mark.usefixtures("full")
    def test_prune_asks_a_person_and_nobody_else(self, typed: Type) -> None:
        before = typed("runs", "list", "--json=id").stdout
        result = typed("db", "prune", "--older-than", "0s")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "repeat it with --yes" in result.stderr
        assert typed("runs", "list", "--json=id").stdout == before

    def test_gc_deletes_blobs_that_nobody_names(
        self, typed: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOLDFAST_BLOBS", f"file://{tmp_path / 'blobs'}")
        assert typed("db", "migrate").exit_code == 0
        file = tmp_path / "blobs" / "ab" / f"{'ab' * 32}-{'0' * 16}"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"12345")
        assert typed("db", "gc").stdout == "0 blobs of 1 deleted, 0 bytes\n"
        told = typed("db", "gc", "--grace", "0s", "--dry-run").stdout
        assert told == "1 blob of 1 would be deleted, 5 bytes\n"
        gone = json.loads(typed("db", "gc", "--grace", "0s", "--json").stdout)
        assert gone == {"blobs": 1, "collected": 1, "freed": 5}
        assert not file.exists()
        assert json.loads(typed("db", "status", "--json").stdout)["blobs"] == str(
            tmp_path / "blobs"
        )

    def test_a_blob_store_that_is_none_is_refused(
        self, typed: Type, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOLDFAST_BLOBS", "ftp://host/blobs")
        done = typed("db", "migrate")
        assert done.exit_code != 0
        assert "names no blob store" in done.stderr

    @pytest.mark.usefixtures("full")
    def test_a_backup_holds_every_run(self, typed: Type, tmp_path: Path) -> None:
        file = tmp_path / "copy.db"
        assert typed("db", "backup", str(file)).exit_code == 0
        assert file.stat().st_mode & 0o077 == 0, "others must not read it"
        rows = typed("runs", "list", "--json", "--store", f"sqlite:///{file}").stdout
        assert rows == typed("runs", "list", "--json").stdout
        assert "exists already" in typed("db", "backup", str(file)).stderr
        nowhere = typed("db", "backup", str(tmp_path / "no" / "copy.db"))
        assert nowhere.exit_code == 5


@pytest.mark.parametrize("words", [("runs", "list"), ("runs", "show", "x"), ("doctor",)])
def test_reading_makes_no_database(typed: Type, tmp_path: Path, words: tuple[str, ...]) -> None:
    result = typed(*words)
    assert result.exit_code == 5
    assert "There is no database at" in result.stderr
    assert "holdfast db migrate" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        ("memory://", 2, "lives and dies with the process"),
        ("oracle://here", 5, "Unknown store"),
        ("sqlite:///{}/no/such.db", 5, "There is no database at"),
        ("sqlite:///{}/text.db", 5, "is not a usable SQLite database"),
    ],
)
def test_a_store_that_cannot_be_used_is_said(
    typed: Type, tmp_path: Path, url: str, code: int, message: str
) -> None:
    (tmp_path / "text.db").write_text("this is no database, but a text of some length\n" * 99)
    result = typed("runs", "list", "--store", url.format(tmp_path))
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr


READING = (
    "runs list", "runs show x", "runs cancel x", "doctor", "db status", "db backup x.db",
    "db prune --older-than 1d -y", "workers", "queues list",
)  # fmt: skip


@pytest.mark.parametrize("words", READING)
def test_the_file_of_another_program_is_left_alone(typed: Type, tmp_path: Path, words: str) -> None:
    file = tmp_path / "books.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE books (title)")
    before = file.read_bytes()

    result = typed(*words.split(), "--store", f"sqlite:///{file}")

    assert result.exit_code == 5
    assert "There is no schema of ours in" in result.stderr
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("words", ["db status", "db migrate"])
def test_a_file_that_is_no_database_is_said_by_db_too(
    typed: Type, tmp_path: Path, words: str
) -> None:
    (tmp_path / "text.db").write_text("this is no database, but a text of some length\n" * 99)
    result = typed(*words.split(), "--store", f"sqlite:///{tmp_path}/text.db")
    assert result.exit_code == 5
    assert "is not a usable SQLite database" in result.stderr


def test_an_empty_store_says_how_to_fill_it(typed: Type) -> None:
    typed("db", "migrate")
    assert "Start one: holdfast run" in typed("runs", "list", person=True).stdout
    assert typed("runs", "list").stdout == ""
    assert typed("runs", "list", "--json").stdout == "[]\n"
    assert typed("runs", "show", "@last").exit_code == 3
