"""A worker that is started while the database is away waits for it, and says so."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from holdfast.testing.postgres import VARIABLE, PostgresServer
from tests.cli.conftest import SAMPLE, Shell, environment

PATIENCE = 30.0


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
    """A server of this test's own, to be away."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with PostgresServer.start() as own:
        yield own


@pytest.fixture
def url(server: PostgresServer) -> Iterator[str]:
    with server.database() as url:
        yield url


@contextmanager
def worker(url: str) -> Iterator["subprocess.Popen[str]"]:
    """A worker that has just been started."""
    command = [sys.executable, "-m", "holdfast", "worker", SAMPLE]
    process = subprocess.Popen(command, env=environment(url), stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    return process.stderr.readline()


@pytest.mark.timeout(60)
def test_a_worker_that_is_started_first_goes_on_when_the_server_is_there(
    server: PostgresServer, url: str, shell: Shell
) -> None:
    server.crash()
    with worker(url) as process:
        away = said(process)
        assert "WARNING" in away
        assert "the store is away, and I wait for it: Cannot reach PostgreSQL" in away
        server.recover()
        while "the store is there, after" not in (line := said(process)):
            assert "away" in line, "such as: the server is starting up"
        assert "holdfast worker · app sample" in said(process)
        done = shell("run", "greet", "-i", "name=ada", "--wait")
        assert (done.returncode, done.stdout) == (0, '"ADA"\n')


def test_a_worker_that_waits_can_be_stopped(server: PostgresServer, url: str) -> None:
    server.crash()
    with worker(url) as process:
        assert "the store is away" in said(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert "nothing was begun" in process.stderr.read()
    server.recover()


def test_what_waiting_does_not_mend_ends_the_worker_at_once(url: str, shell: Shell) -> None:
    ended = shell("worker", "--store", urlsplit(url)._replace(path="/no_such").geturl())
    assert ended.returncode == 5
    assert 'database "no_such" does not exist' in ended.stderr
    assert "HF605" in ended.stderr
