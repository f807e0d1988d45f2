"""`holdfast worker --metrics`: a real worker, scraped over HTTP."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from tests.cli.conftest import SAMPLE, Type, environment


def scraped(address: str) -> list[str]:
    with urllib.request.urlopen(address, timeout=10) as answer:
        return str(answer.read().decode()).splitlines()


def test_a_worker_serves_its_metrics(url: str, typed: Type) -> None:
    command = [sys.executable, "-m", "holdfast", "worker", "--metrics", "0"]
    with subprocess.Popen(
        command, env=environment(url), stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stderr is not None
        try:
            said = worker.stderr.readline()
            found = re.fullmatch(r"metrics at (http://127\.0\.0\.1:\d+/metrics)\n", said)
            assert found, said
            started = typed("run", "greet", "-i", "name=ada", "--key", "r", "--app", SAMPLE)
            assert started.exit_code == 0
            assert typed("runs", "result", "r", "--wait").exit_code == 0
            told = scraped(found[1])
            while not any("runs_closed_total{" in line for line in told):
                told = scraped(found[1])  # the end is counted a moment after it is stored
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert 'holdfast_runs_started_total{queue="default",workflow="greet"} 1.0' in told
    assert any(line.startswith("process_") for line in told)


@pytest.mark.parametrize("given", ["many", "70000", "-1", "localhost:", "²"])
def test_what_is_no_port_is_refused(typed: Type, given: str) -> None:
    refused = typed("worker", SAMPLE, "--metrics", given)
    assert refused.exit_code == 2
    assert "is no port, nor HOST:PORT. Try 9464, or 0.0.0.0:9464." in refused.stderr


def test_a_port_that_is_taken_is_named(typed: Type) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = typed("worker", SAMPLE, "--metrics", str(port))
    assert refused.exit_code == 1
    assert (
        f"Metrics cannot be served at 127.0.0.1:{port}: Address already in use." in refused.stderr
    )
