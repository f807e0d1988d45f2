"""Types flow through definitions, calls and clients, in the eyes of two checkers."""

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
GOOD, WRONG = HERE / "user_good.py", HERE / "user_wrong.py"
PLANTED = re.compile(r"# wrong: \S")

Findings = Mapping[str, Mapping[int, str]]
Checker = Callable[[Path], Findings]


def mypy(scratch: Path) -> Findings:
    # Without the project's settings: a user has strict mode and nothing else. The cache is kept
    # between runs and is mypy's own business: it is keyed by options and by content.
    options = ["--strict", "--config-file=", "--output=json", "--python-executable", sys.executable]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "typing")]
    said = run("mypy", *options, *cache, str(GOOD), str(WRONG), scratch=scratch)
    found = [json.loads(line) for line in said.splitlines()]
    errors = [each for each in found if each["severity"] == "error"]
    return by_file((each["file"], each["line"], each["message"]) for each in errors)


def pyright(scratch: Path) -> Findings:
    for file in (GOOD, WRONG):  # a project includes only what lies under it
        shutil.copy(file, scratch)
    config = scratch / "pyrightconfig.json"
    config.write_text(json.dumps({"typeCheckingMode": "strict"}))
    options = ["--outputjson", "--pythonpath", sys.executable, "--project", str(config)]
    found = json.loads(run("pyright", *options, scratch=scratch))["generalDiagnostics"]
    return by_file(
        (each["file"], each["range"]["start"]["line"] + 1, each["message"]) for each in found
    )


def run(tool: str, *arguments: str, scratch: Path) -> str:
    command = [sys.executable, "-m", tool, *arguments]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def by_file(found) -> Findings:
    findings: dict[str, dict[int, str]] = defaultdict(dict)
    for file, line, message in found:
        findings[Path(file).name][line] = message
    return findings


def planted() -> dict[int, str]:
    lines = WRONG.read_text().splitlines()
    return {n: line.strip() for n, line in enumerate(lines, 1) if PLANTED.search(line)}


@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_checker_accepts_good_calls_and_refuses_each_planted_wrong_one(
    checker: Checker, tmp_path: Path
) -> None:
    findings = checker(tmp_path)
    wrong = findings.get(WRONG.name, {})

    assert set(findings) <= {GOOD.name, WRONG.name}
    assert findings.get(GOOD.name, {}) == {}
    assert {n: line for n, line in planted().items() if n not in wrong} == {}, "accepted"
    assert {n: said for n, said in wrong.items() if n not in planted()} == {}, "refused"


def test_enough_is_planted() -> None:
    assert len(planted()) >= 12
