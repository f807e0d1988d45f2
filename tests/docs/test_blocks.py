"""Every Python block in the docs runs.

The blocks of one page run in order, as one file, in a folder of their own. A block that must not
run says so where the reader sees it: the fence reads `python no-run`. A block under
`python file=NAME` is written to that file instead; the page's other blocks and commands use it.
"""

import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,}) *(?P<info>.*?) *$")
SECONDS = 50


@dataclass(frozen=True, slots=True)
class Block:
    line: int  # of the first line of code, counted from 1
    info: str
    code: str


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    opened: tuple[str, str, int] | None = None
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened = fence["ticks"], fence["info"], number + 1
        elif opened and fence and fence["ticks"].startswith(opened[0]) and not fence["info"]:
            code = "\n".join(lines[opened[2] - 1 : number - 1])
            found.append(Block(opened[2], opened[1], textwrap.dedent(code)))
            opened = None
    if opened:
        raise ValueError(f"The block that opens in line {opened[2] - 1} is never closed.")
    return found


def script(text: str) -> str:
    """Give the page's runnable blocks as one file, each on the lines it has in the page."""
    lines: list[str] = []
    for block in blocks(text):
        language, *words = block.info.split() or [""]
        if language in {"py", "python3", "Python"}:
            raise ValueError(f"Line {block.line - 1}: write `python`, so that the block runs.")
        if language != "python" or words == ["no-run"] or file_of(block):
            continue
        if words:
            raise ValueError(f"Line {block.line - 1}: {block.info!r}; only `no-run` is known.")
        lines += [""] * (block.line - 1 - len(lines)) + block.code.splitlines()
    return "\n".join(lines).rstrip() + "\n"


def file_of(block: Block) -> str:
    """Return the name of the file that a block belongs to, if it says so."""
    named = re.fullmatch(r"python file=([\w.-]+)", block.info)
    return named[1] if named else ""


def write_files(text: str, folder: Path) -> None:
    """Write the files that a page shows, and make sure that something uses them."""
    for block in blocks(text):
        if file_of(block):
            with (folder / file_of(block)).open("a", encoding="utf-8") as file:
                file.write(block.code + "\n")


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    write_files(text, folder)
    file = folder / "page.py"
    file.write_text(script(text), encoding="utf-8")
    command = [sys.executable, "-W", "error", file.name]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_page_runs(page: Path, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    if not script(text).strip():
        return
    done = run(text, tmp_path)
    assert done.returncode == 0, f"{page} (page.py has the page's line numbers):\n{done.stderr}"


def test_blocks_share_names_and_keep_line_numbers(tmp_path: Path) -> None:
    page = "# T\n```python\nx = 1\n```\ntext\n\n- item\n\n  ```python\n  assert x == 2\n  ```\n"
    done = run(page, tmp_path)
    assert done.returncode == 1
    assert 'page.py", line 10' in done.stderr
    assert run(page.replace("x = 1", "x = 2"), tmp_path).returncode == 0


def test_a_file_is_there_for_the_other_blocks(tmp_path: Path) -> None:
    page = "```python file=shop.py\nx = 1\n```\n```python\nimport shop\nassert shop.x == 1\n```\n"
    assert run(page, tmp_path).returncode == 0
    assert (tmp_path / "shop.py").read_text() == "x = 1\n"


def test_only_a_visible_mark_keeps_a_block_from_running() -> None:
    assert script("```python no-run\nboom\n```\n```text\nboom\n```\n```\nboom\n```\n") == "\n"
    with pytest.raises(ValueError, match="only `no-run` is known"):
        script("```python skip\nboom\n```\n")
    with pytest.raises(ValueError, match="write `python`"):
        script("```py\nboom\n```\n")
    with pytest.raises(ValueError, match="never closed"):
        script("```python\nboom\n")
