"""Every exit code of the table in docs/cli.md, by the way that leads to it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import SAMPLE, Type, environment

TABLE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"

WAYS: dict[int, list[tuple[str, ...]]] = {
    0: [("runs", "list"), ("runs", "result", "completed"), ("runs", "why", "failed")],
    1: [("runs", "result", "failed"), ("runs", "watch", "failed", "--exit-status")],
    2: [
        ("runs", "list", "colour:red"), ("runs", "nothing"), ("runs", "resume", "completed"),
        ("runs", "show", "p"), ("runs", "list", "--limit", "0"), ("runs", "import", "/dev/null"),
    ],
    3: [
        ("runs", "show", "nobody"), ("runs", "list", "--before", "nobody"),
        ("runs", "export", "nobody"), ("run", "nothing", "--app", SAMPLE),
    ],
    5: [("runs", "list", "--store", "sqlite:///nowhere/x.db")],
}  # fmt: skip


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize(
    ("code", "words"), [(code, words) for code, ways in WAYS.items() for words in ways]
)
def test_a_way_leads_to_its_code(typed: Type, code: int, words: tuple[str, ...]) -> None:
    result = typed(*words)
    assert result.exit_code == code, result.output
    assert (result.stderr == "") == (code == 0) or "watch" in words


@pytest.mark.usefixtures("full")
def test_a_file_one_may_not_use_is_4(typed: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of the system, because a test may run as root, who may do everything."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    result = typed("runs", "list")
    assert result.exit_code == 4
    assert "You may not read and write" in result.stderr


@pytest.mark.usefixtures("full")
def test_an_interrupt_is_130(url: str) -> None:
    command = [sys.executable, "-m", "holdfast", "runs", "watch", "waiting", "--jsonl"]
    watcher = subprocess.Popen(command, env=environment(url), stdout=subprocess.PIPE, text=True)
    assert watcher.stdout is not None
    watcher.stdout.readline()
    watcher.send_signal(signal.SIGINT)
    watcher.communicate(timeout=30)
    assert watcher.returncode == 130


def test_the_table_in_the_docs_has_them_all() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", TABLE.read_text("utf-8"), re.M)}
    assert told == {*WAYS, 4, 130}


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("runs", "lst"), "`holdfast runs list`"),
        (("list",), "`holdfast runs list`"),
        (("backup",), "`holdfast db backup`"),
        (("dcotor",), "`holdfast doctor`"),
    ],
)
def test_a_slip_of_the_keys_is_understood(typed: Type, words: tuple[str, ...], meant: str) -> None:
    result = typed(*words)
    assert result.exit_code == 2
    assert f"Did you mean {meant}?" in result.stderr


def test_a_word_that_is_like_no_command_is_said(typed: Type) -> None:
    result = typed("xyzzy")
    assert result.exit_code == 2
    assert "No such command 'xyzzy'." in result.stderr
    assert "Did you mean" not in result.stderr
