"""The stranger's half hour: from an empty folder to a workflow of one's own that survives kill -9.

The wheel is built and installed into a fresh environment, with its dependencies from the package
index, and nothing else of this repository is within reach. Then come the quickstart's own lines, in
their order, and a page of what a reader might write next. What is typed and printed is recorded:
`pytest -s tests/e2e/test_stranger.py` shows it.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.test_blocks import ROOT, blocks, write_files
from tests.docs.test_console import fits, session, typed

QUICKSTART = (ROOT / "docs" / "quickstart.md").read_text("utf-8")
OWN = Path(__file__).with_name("own.md").read_text("utf-8")
BEFORE = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*/*.md")]
PATIENCE = 240


@pytest.mark.slow  # half a minute, and the package index; the quickstart alone runs with the docs
@pytest.mark.timeout(PATIENCE)
def test_a_stranger_gets_from_an_empty_folder_to_a_workflow_that_survives(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    bin = install(build(tmp_path / "wheels"), home)
    assert where_it_is(bin, home).is_relative_to(home)
    follow(QUICKSTART, home, bin)
    elsewhere.mkdir()
    follow(OWN, elsewhere, bin)


def test_the_own_workflow_needs_only_what_the_pages_show() -> None:
    shown = "\n".join(page.read_text("utf-8") for page in BEFORE)
    used = set(re.findall(r"\bhf\.\w+|\bapp\.\w+|holdfast (?:runs )?[a-z]+|(?<= )--?[a-z]+", OWN))
    assert {"hf.Signal", "app.step", "holdfast runs signal", "--key"} <= used
    assert [name for name in sorted(used) if name not in shown] == []


def build(folder: Path) -> Path:
    """Build the wheel, as a release does."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    done([*pip, "--wheel-dir", str(folder), str(ROOT)], cwd=folder.parent)
    [wheel] = folder.glob("holdfast-*.whl")
    return wheel


def install(wheel: Path, home: Path) -> Path:
    """Type what the quickstart says to install with; return where the commands are then."""
    [said, *_] = [block.code for block in blocks(QUICKSTART) if block.info == "text"]
    assert "path/to/holdfast" in said
    typed_in = said.replace("path/to/holdfast", f"--quiet {wheel}")
    done(["bash", "-e", "-c", typed_in], cwd=home)
    return home / ".venv" / "bin"


def where_it_is(bin: Path, home: Path) -> Path:
    """Return the file that `import holdfast` finds in the fresh environment."""
    found = done([str(bin / "python"), "-c", "import holdfast; print(holdfast.__file__)"], cwd=home)
    return Path(found.strip())


def done(command: list[str], cwd: Path) -> str:
    """Run a command to its end, where the stranger is; it must succeed."""
    began = time.monotonic()
    ended = subprocess.run(
        command, cwd=cwd, env=plain(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
    print(f"# {time.monotonic() - began:.1f} s: {' '.join(command[-3:])}")
    return ended.stdout


def plain() -> dict[str, str]:
    """The environment without what leads back to this repository."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "HOLDFAST_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def follow(page: str, folder: Path, bin: Path) -> None:
    """Write the page's files, type its commands in order, and compare what they print."""
    write_files(page, folder)
    commands = typed(page)
    for each, printed in zip(commands, session(commands, folder, bin), strict=True):
        print(f"$ {each.command}\n{printed.text}", end="")
        assert fits(printed.text, each.prints), (
            f"line {each.line}: $ {each.command}\n{printed.text}"
        )
        assert printed.code == 0, f"line {each.line}: $ {each.command} exits with {printed.code}"
