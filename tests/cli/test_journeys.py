"""The real command line in processes of its own: work, drain, leave, watch, and start quickly."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import SAMPLE, Shell, environment

PATIENCE = 30.0


@contextmanager
def working(
    url: str, gate: Path, *words: str, app: str = SAMPLE
) -> Iterator[subprocess.Popen[str]]:
    """A worker that has said it is ready."""
    command = [sys.executable, "-m", "holdfast", "worker", app, *words]
    worker = subprocess.Popen(
        command, env=environment(url, SAMPLE_GATE=str(gate)), stderr=subprocess.PIPE, text=True
    )
    try:
        assert worker.stderr is not None
        greeting = worker.stderr.readline()
        assert "holdfast worker · app sample" in greeting
        assert f"pid {worker.pid}" in greeting
        yield worker
    finally:
        worker.kill()
        worker.communicate()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_run_is_started_worked_on_and_waited_for(url: str, shell: Shell, tmp_path: Path) -> None:
    with working(url, tmp_path / "gate"):
        done = shell("run", "greet", "-i", "name=ada", "-i", "times=2", "--wait", "--key", "g")
        assert (done.returncode, done.stdout) == (0, '"ADA ADA"\n')
        assert done.stderr == "g\n"
        failed = shell("run", "fails", "-i", "text=luck", "--wait")
        assert (failed.returncode, failed.stdout) == (1, "")
        assert "failed with StepFailed" in failed.stderr
        assert "Traceback" not in failed.stderr
        doctor = shell("doctor")
        assert doctor.returncode == 0
        assert re.search(r"^worker\t\S+\tlistening\t", doctor.stdout, re.M)


def test_workers_share_the_work_by_queues(url: str, shell: Shell, tmp_path: Path) -> None:
    for key, queue in (("near", "a"), ("far", "b"), ("nobody's", "c")):
        started = shell("run", "greet", "-i", f"name={key}", "--key", key, "--queue", queue)
        assert started.returncode == 0
    with working(url, tmp_path / "gate", "--queue", "a", "--queue", "b"):
        done = ("status:completed", "--json", "id")
        wait_until(lambda: shell("runs", "list", *done).stdout.count('"id"') == 2)
        told = shell("runs", "why", "nobody's").stdout
    assert told.startswith("claimable\t")
    assert "It waits on queue c, priority 3." in told


def test_the_first_signal_drains_and_gives_the_run_back(
    url: str, shell: Shell, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with working(url, gate, "--drain", "30") as worker:
        assert shell("run", "slow", "-i", "text=a", "--key", "s").returncode == 0
        wait_until((tmp_path / "gate.begun").exists)
        assert "is on it; its lease runs until" in shell("runs", "why", "s").stdout
        worker.send_signal(signal.SIGTERM)
        assert worker.stderr is not None
        assert "stopping when the steps that run have ended" in worker.stderr.readline()
        gate.touch()
        assert worker.wait(PATIENCE) == 0
        assert "every run was given back" in worker.stderr.read()
    lines = shell("runs", "show", "s").stdout.splitlines()
    told = [line.split("\t")[2:4] for line in lines]
    # Whether it ran long enough to be shown as started is a matter of the machine's load.
    assert [event for event in told if event[0] != "step.started"] == [
        ["run.started", ""], ["step.completed", "held#1"],
    ]  # fmt: skip
    assert shell("runs", "why", "s").stdout.startswith("claimable\t")


def test_the_second_signal_leaves_at_once(url: str, shell: Shell, tmp_path: Path) -> None:
    with working(url, tmp_path / "gate", "--drain", "60") as worker:
        assert shell("run", "slow", "-i", "text=a", "--key", "s").returncode == 0
        wait_until((tmp_path / "gate.begun").exists)
        worker.send_signal(signal.SIGINT)
        assert worker.stderr is not None
        assert "stopping" in worker.stderr.readline()
        worker.send_signal(signal.SIGINT)
        assert worker.wait(PATIENCE) == 130


CARELESS = """
import os, time
import holdfast as hf

app = hf.App("sample")

@app.step
async def careless():
    open(os.environ["SAMPLE_GATE"], "w").close()
    time.sleep(600)

@app.workflow
async def blocks():
    await careless()
"""


def test_the_second_signal_leaves_at_once_whatever_blocks_the_loop(
    url: str, shell: Shell, tmp_path: Path
) -> None:
    app, gate = tmp_path / "blocks.py", tmp_path / "gate"
    app.write_text(CARELESS)
    with working(url, gate, app=str(app)) as worker:
        assert shell("run", "--app", str(app), "blocks").returncode == 0
        wait_until(gate.exists)
        worker.send_signal(signal.SIGTERM)
        time.sleep(0.2)  # two of a kind that are pending at once are one
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 130
        assert worker.stderr is not None
        assert "left at once" in worker.stderr.read()


def test_a_dead_worker_is_known_at_once(url: str, shell: Shell, tmp_path: Path) -> None:
    with working(url, tmp_path / "gate") as worker:
        assert shell("run", "slow", "-i", "text=a", "--key", "s").returncode == 0
        wait_until((tmp_path / "gate.begun").exists)
        worker.kill()
        worker.wait(PATIENCE)
        told = shell("runs", "why", "s").stdout
        assert told.startswith("leased\tWorker ")
        assert "That worker's process is gone: the next worker that looks takes over." in told
        assert f"next\tholdfast worker {SAMPLE} --store" in told
        assert re.search(r"^worker\t\S+\tgone\t", shell("doctor").stdout, re.M)


def test_watching_is_live_at_a_terminal_and_interrupted_with_130(
    url: str, shell: Shell, tmp_path: Path
) -> None:
    assert shell("run", "waits", "--key", "w").returncode == 0
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "holdfast", "runs", "watch", "w"]
    env = environment(url, TERM="xterm", LINES="24")
    with working(url, tmp_path / "gate"):
        watcher = subprocess.Popen(command, env=env, stdout=child, stderr=child)
        os.close(child)
        seen = read_until(parent, "waiting")
        assert "\x1b[" in seen
        read_until(parent, "signal go")
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(PATIENCE) == 130
    rest = read_until(parent, "")
    assert "Traceback" not in rest
    os.close(parent)


def test_a_long_step_is_seen_while_it_runs(url: str, shell: Shell, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    assert shell("run", "long", "-i", "text=ada", "--key", "s").returncode == 0
    with working(url, gate):
        wait_until(
            lambda: '"details": {"text": "ada"}' in shell("runs", "show", "s", "--json").stdout
        )
        shown = shell("runs", "show", "s", FORCE_COLOR="1", NO_COLOR="1").stdout
        assert 'progress  watched#1: {"text": "ada"} · ' in shown
        parent, child = pty.openpty()
        command = [sys.executable, "-m", "holdfast", "runs", "watch", "s"]
        env = environment(url, TERM="xterm", LINES="24", NO_COLOR="1")
        watcher = subprocess.Popen(command, env=env, stdout=child, stderr=child)
        os.close(child)
        assert "↳ watched#1" in read_until(parent, '{"text": "ada"} · ')
        follower = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "runs", "logs", "s", "-f"],
            env=environment(url), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert follower.stdout is not None
        assert follower.stdout.readline().split("\t")[5] == "holding"
        gate.touch()
        assert follower.wait(PATIENCE) == watcher.wait(PATIENCE) == 0
        follower.stdout.close()
        os.close(parent)


def test_a_terminal_gets_columns_and_colour(url: str, shell: Shell) -> None:
    assert shell("run", "waits", "--key", "w").returncode == 0
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "holdfast", "runs", "list"]
    done = subprocess.run(
        command, env=environment(url, TERM="xterm"), stdout=child, stderr=child, check=False
    )
    os.close(child)
    seen = read_until(parent, "open:")
    os.close(parent)
    assert done.returncode == 0
    assert "\x1b[90mSTATUS" in seen
    assert "\x1b[90m○ pending\x1b[0m" in seen


def test_a_reader_that_leaves_is_no_error(url: str, shell: Shell) -> None:
    for number in range(3):
        assert shell("run", "waits", "--key", f"w{number}").returncode == 0
    command = f"{sys.executable} -m holdfast runs list | head -n 1"
    done = subprocess.run(
        command, shell=True, env=environment(url), capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.startswith("pending\twaits\tw2\t")


@pytest.mark.parametrize(
    ("words", "unloaded"),
    [
        (["--help"], ["asyncio", "pydantic", "rich", "sqlite3", "holdfast.client"]),
        (["runs", "--help"], ["asyncio", "pydantic", "rich", "sqlite3", "holdfast.client"]),
        (["runs", "list"], ["pydantic", "rich", "holdfast.client", "holdfast.machine"]),
    ],
)
def test_starting_up_loads_little(url: str, shell: Shell, words: list[str], unloaded: list[str]):
    assert shell("db", "migrate").returncode == 0
    code = f"import sys\nfrom holdfast.cli import main\ntry:\n    main({words!r})\nfinally:\n"
    code += f"    print([m for m in {unloaded!r} if m in sys.modules], file=sys.stderr)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=environment(url), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")


def read_until(file: int, text: str) -> str:
    """Return what the terminal showed until `text` came, or all that is left."""
    os.set_blocking(file, False)
    seen, deadline = "", time.monotonic() + PATIENCE
    while not text or text not in seen:
        assert time.monotonic() < deadline, seen
        try:
            chunk = os.read(file, 65_536)
        except BlockingIOError:
            time.sleep(0.01)
            continue
        except OSError:
            break
        if not chunk:
            break
        seen += chunk.decode("utf-8", "replace")
    return seen
