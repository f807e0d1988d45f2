"""Every `console` block in the docs runs, and prints what the page says.

The blocks of one page are one session of bash, in a folder of their own with the files that the
page shows (`python file=NAME`). A line that begins with `$ ` is typed; the lines up to the next are
what it prints. `…` stands for anything in a line, and alone for any lines. A command that fails
must show what it prints. A recording of what cannot run here says so: `console no-run`.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.test_blocks import PAGES, ROOT, blocks, write_files

SECONDS = 50
MARK, CODE = "--- the next command", "--- its exit code: "
CONSOLES = [page for page in PAGES if "```console\n" in page.read_text("utf-8")]


class Typed(NamedTuple):
    """A command, and what it should print."""

    line: int
    command: str
    prints: str


def typed(text: str) -> list[Typed]:
    found: list[Typed] = []
    for block in blocks(text):
        language, *words = block.info.split() or [""]
        if language != "console" or words == ["no-run"]:
            continue
        if words:
            raise ValueError(f"Line {block.line - 1}: {block.info!r}; only `no-run` is known.")
        for number, line in enumerate(block.code.splitlines(), start=block.line):
            if line.startswith("$ "):
                found.append(Typed(number, line[2:], ""))
            elif found:
                found[-1] = found[-1]._replace(prints=f"{found[-1].prints}{line}\n")
    return found


def fits(printed: str, wanted: str) -> bool:
    lines = [".*\n" if line == "…" else _pattern(line) for line in wanted.splitlines()]
    pattern = "".join(f"(?:{line})*" if line == ".*\n" else line for line in lines)
    return re.fullmatch(pattern, printed) is not None


def _pattern(line: str) -> str:
    return ".*".join(map(re.escape, line.split("…"))) + "\n"


class Printed(NamedTuple):
    """What a command printed, and its exit code."""

    text: str
    code: int


def session(
    commands: list[Typed], folder: Path, bin: Path = Path(sys.executable).parent
) -> list[Printed]:
    """Type the commands into one shell, with the programs of `bin`; return what came of each."""
    script = "".join(
        f"printf '%s\\n' '{MARK}'\n{each.command}\nprintf '%s%s\\n' '{CODE}' $?\n"
        for each in commands
    )
    ours = ("HOLDFAST_", "PYTHONPATH")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    path = f"{bin}{os.pathsep}{plain.get('PATH', '')}"
    env = {**plain, "PATH": path, "FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "100"}
    leave = "trap 'kill -9 $(jobs -p) 2> /dev/null' EXIT\n"
    with subprocess.Popen(
        ["bash", "-c", leave + script],
        cwd=folder, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as shell:  # fmt: skip
        try:
            printed, _ = shell.communicate(timeout=SECONDS)
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
    parts = [chunk.partition(CODE) for chunk in printed.split(f"{MARK}\n")[1:]]
    return [Printed(text, int(code)) for text, _, code in parts]


@pytest.mark.parametrize("page", CONSOLES, ids=[str(page.relative_to(ROOT)) for page in CONSOLES])
def test_the_commands_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    write_files(text, tmp_path)
    commands = typed(text)
    for each, printed in zip(commands, session(commands, tmp_path), strict=True):
        is_good = fits(printed.text, each.prints) and (printed.code == 0 or each.prints)
        assert is_good, (
            f"{page}:{each.line}: $ {each.command}\n{printed.text}\nexit code {printed.code}\n"
            "Mend the page. Show the files it needs as `python file=NAME`; if it is a recording "
            "that cannot run here, write `console no-run`."
        )


def test_a_wrong_output_is_found(tmp_path: Path) -> None:
    commands = typed(
        "```console\n$ echo one\none\n$ seq 4\n1\n…\n4\n$ echo a b\na …\n$ true\n```\n"
    )
    printed = session(commands, tmp_path)
    assert printed == [("one\n", 0), ("1\n2\n3\n4\n", 0), ("a b\n", 0), ("", 0)]
    assert all(fits(p.text, each.prints) for each, p in zip(commands, printed, strict=True))
    assert not fits("two\n", "one\n")
    assert not fits("1\n2\n", "1\n…\n4\n")


def test_the_exit_code_of_each_command_is_known(tmp_path: Path) -> None:
    commands = typed("```console\n$ false\n$ printf x\nx\n$ sleep 9 &\n$ kill $!; wait\n```\n")
    assert session(commands, tmp_path) == [("", 1), ("x", 0), ("", 0), ("", 0)]
