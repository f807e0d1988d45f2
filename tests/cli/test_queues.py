"""`holdfast queues`, and what `runs why` says of runs and jobs in line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.runs import jobs
from holdfast.model.jobs import Job
from holdfast.model.limits import Queue, QueueState
from holdfast.model.workers import WorkerRow
from tests.cli.conftest import SAMPLE, Shell, Type, environment


@pytest.fixture(autouse=True)
def app(typed: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_APP", SAMPLE)
    typed("db", "migrate")


def start(typed: Type, id: str, *options: str) -> None:
    typed("run", "greet", "-i", "name=ada", "--key", id, "--queue", "mail", *options)


def test_a_queue_is_given_limits_and_shown(typed: Type) -> None:
    told = typed("queues", "set", "mail", "--concurrency", "2", "--rate", "100/1m")
    assert (told.exit_code, told.stdout) == (0, "mail\n")
    assert (
        "was so already"
        in typed("queues", "set", "mail", "--concurrency", "2", "--rate", "100/1m").stderr
    )
    [queue] = json.loads(typed("queues", "list", "--json").stdout)["queues"]
    assert (queue["queue"], queue["concurrency"], queue["rate_count"]) == ("mail", 2, 100)
    assert (queue["rate_seconds"], queue["paused"], queue["in_line"]) == (60.0, False, 0)
    assert json.loads(typed("queues", "show", "mail", "--json").stdout) == queue
    assert "2 at once, 100 in 60 s" in typed("queues", "list", person=True).stdout


def test_a_paused_queue_keeps_its_runs_in_line_and_why_says_so(typed: Type) -> None:
    assert typed("queues", "pause", "mail").exit_code == 0
    start(typed, "a", "--queue-key", "ada", "--queue-timeout", "1h")
    why = json.loads(typed("runs", "why", "a", "--json").stdout)
    told = " ".join(why["why"])
    assert "It stands in line on queue mail under key 'ada', which is paused." in told
    assert "If it has not begun by" in told
    assert "holdfast queues resume mail" in why["next"]
    assert typed("queues", "resume", "mail").exit_code == 0
    told = " ".join(json.loads(typed("runs", "why", "a", "--json").stdout)["why"])
    assert "may begin when a worker that serves it has room" in told


def test_why_says_what_keeps_a_job_of_a_queue_with_limits() -> None:
    job = Job("default", "r", "render#1", 1, 1, "s", "render", "gpu", 3, b"", b"", 0, 0)
    full = QueueState(Queue("default", "gpu", concurrency=1), held=1, waiting=1)
    workers = [WorkerRow("w", None, None, is_listening=True)]
    [told] = jobs.told([job._replace(queue_key="ada")], workers, [full], 9)
    assert "waits on queue gpu under key 'ada', waiting for a slot (1 of 1 held)." in told
    shut = full._replace(queue=full.queue._replace(paused=True))
    assert jobs.told([job], workers, [shut], 9)[0].endswith("waits on queue gpu, which is paused.")
    commands = [typed for typed, _ in jobs.commands([job], workers, [shut], "sqlite:///a.db")]
    assert commands == ["holdfast queues resume gpu", "holdfast queues show gpu"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("queues", "show", "nobodys"), 3, "No queue named 'nobodys' has limits"),
        (("queues", "pause", "default"), 2, "'default' has no line"),
        (("queues", "set", "mail", "--concurrency", "0"), 2, "Pause the queue instead"),
        (("queues", "set", "mail", "--rate", "many"), 2, "Write how many in which time"),
        (("run", "greet", "-i", "name=a", "--start-at", "soon"), 2, "is no time"),
        (("run", "greet", "-i", "name=a", "--delay", "soon"), 2, "--delay"),
        (("run", "greet", "-i", "name=a", "--queue-key", "k"), 2, "has no line"),
    ],
)
def test_what_cannot_be_is_refused(
    typed: Type, words: tuple[str, ...], code: int, told: str
) -> None:
    result = typed(*words)
    assert told in result.stderr
    assert result.exit_code == code, result.stderr


DECLARING = """
import holdfast as hf

app = hf.App("office")
app.queue("mail", concurrency=2)


@app.workflow
async def report(team: str) -> str:
    return team


app.schedule("nightly", report.bind("ops"), hf.Schedule(cron="0 3 * * *"))
"""


def test_a_worker_keeps_what_its_app_declares(url: str, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "office.py").write_text(DECLARING)
    command = [sys.executable, "-m", "holdfast", "worker", str(tmp_path / "office.py")]
    worker = subprocess.Popen(command, env=environment(url), stderr=subprocess.PIPE, text=True)
    try:
        assert worker.stderr is not None
        assert "holdfast worker · app office" in worker.stderr.readline()
        [queue] = json.loads(shell("queues", "list", "--json").stdout)["queues"]
        [schedule] = json.loads(shell("schedules", "list", "--json").stdout)["schedules"]
    finally:
        worker.kill()
        worker.communicate()
    assert (queue["queue"], queue["concurrency"]) == ("mail", 2)
    assert schedule["id"] == "nightly"
