"""The examples run, as a stranger runs them, and say what they should; each is short."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAYS = {
    "checkout": r"order-1: lamp is on its way\norder-2: piano is on its way\n"
    r"order-3: refunded payment default/order-3/1/charge#1\n",
    "account": r"(ada paid bob 60\.00\n){2}(car: failed\n){2}(bob paid ada 15\.00\n){2}"
    r"ada -4500\nbob 4500\n",
    "cart": r"1 of lamp, 49\.00 in all\n1 of desk, 178\.00 in all\n2 of lamp, 227\.00 in all\n"
    r"moon is not sold here\n3 things\nada pays 227\.00\n",
    "change": r"yesterday: lamp is in stock, lamp is on its way\n"
    r"today: lamp is in stock, lamp was reserved, lamp is on its way\n",
    "download": r"whole\n"
    r"\['from byte 0', 'from byte 30000', 'from byte 60000', 'from byte 90000'\]\n",
    "approval": r"lamp is bought\npiano is bought\norgan: no\n",
    "poll_job": r"cats.webm is online after \d+ events\ndogs.mp4 is online after \d+ events\n",
    "fan_out": r"2992 in all, without \[17, 170, 707\]\n"
    r"\['292 in all, without \[17\]', '292 in all, without \[17\]'\]\n",
    "agent": r"Done: mail sent with three results for 'durable workflows'\.\n",
    "nightly": r"killed by signal 9 in the middle of 40 files\nloaded: 20540\n"
    r"4[0-4] executions of 40 files: only what was cut short ran twice\n",
    "api_key": r"it waits: secret api-key is not here, nor in EnvSecrets\(prefix='SYNC_'\), for "
    r"fetch#1: `holdfast runs secret \S+ api-key`\n\['ada-1a', 'ada-1b', 'ada-2a', 'ada-2b'\]\n"
    r"page 2 of ada with Secret\(\*\*\*\) and Secret\(\*\*\*\)\nin the database: 0 of 2\n",
    "render_farm": r"bob has mail after \['ada'\]\n"
    r"up/0 up/1 up/2: eve has mail\nqueue mail: \d in line, \d have begun\n"
    r"12 mails were sent\n",
    "ledger": r"\{'ada': 7500, 'bob': 500, 'eve': 22000\}\n",
    "saga_payment": r"lamp is on its way\n"
    r"piano: failed: \['released shelf 5', 'refunded payment default/piano/1/charge#1'\]\n",
    "research": r"(tides: .+; moon: it goes round\. Is something missing\?\n)"
    r"(tides: .+; moon: .+; storm: .+\. Is something missing\?\n)published: tides: .+; storm: .+\n",
    "classify/marking": r"treaty: SECRET//NOFORN, REVIEW at 0\.75, enhanced\n"
    r"init detect detect detect classify score\n"
    r"memo: UNCLASSIFIED, ACCEPT at 0\.97\ninit detect classify score\n",
    "watch": r"1 run.started\n2 timer.fired timer#1\n"
    r"3 step.retrying charge#1 attempt 1, ConnectionError\n4 step.completed charge#1 attempt 2\n"
    r"5 run.completed\npaid 4200\nattempts: 1 tried again, 1 completed\n",
    "subscription": r"14 Feb: ada paid 19.00\n16 Mar: ada paid 19.00\n31 Mar: ada has free now\n"
    r"15 Apr: ada paid 0.00\n30 Apr: ada left\n",
}


def run(name: str, folder: Path) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SAYS)
def test_it_runs_and_may_be_run_again(name: str, tmp_path: Path) -> None:
    assert re.fullmatch(SAYS[name], run(name, tmp_path))
    assert re.fullmatch(SAYS[name], run(name, tmp_path))


def test_every_example_is_run_here_and_short() -> None:
    lines = {path.stem: len(path.read_text("utf-8").splitlines()) for path in EXAMPLES.glob("*.py")}
    assert set(lines) == {name for name in SAYS if "/" not in name}
    assert max(lines.values()) < 80
