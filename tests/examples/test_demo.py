"""`make demo` tells the truth: it checks its own claims and exits 1 if one is false."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_runs_and_every_claim_is_true() -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
    done = subprocess.run(
        [sys.executable, "examples/demo/run.py"],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT TRUE" not in done.stdout
    assert "once, by the second worker; cut short by the kill, so it ran again" in done.stdout


def test_the_shop_is_short_enough_to_copy() -> None:
    assert len((ROOT / "examples/demo/shop.py").read_text("utf-8").splitlines()) < 60
