"""`holdfast check`: findings for people and programs, and an exit code for CI."""

import json
from pathlib import Path

from tests.cli.conftest import SAMPLE, Type

BAD = """
import random
import holdfast as hf
app = hf.App("bad")

@app.workflow
async def draw(names: list[str]) -> str:
    return random.choice(names)
"""
BROKEN = """
import holdfast as hf
app = hf.App("broken")

class Opaque: ...

@app.step
def keep(it: Opaque) -> None: ...
"""


def written(folder: Path, text: str) -> str:
    file = folder / "flows.py"
    file.write_text(text)
    return str(file)


def test_nothing_found_is_said(typed: Type) -> None:
    result = typed("check", SAMPLE, "--strict", person=True)
    assert result.exit_code == 0
    assert "nothing found" in result.stdout
    assert typed("check", SAMPLE).stdout == ""


def test_a_finding_is_told_and_counts_only_if_strict(typed: Type, tmp_path: Path) -> None:
    file = written(tmp_path, BAD)
    result = typed("check", file, person=True)
    assert result.exit_code == 0
    assert f"{file}:8  random.choice() in draw, workflow draw" in result.stdout
    assert "hf.random().choice(...)" in result.stdout
    assert "# holdfast: allow(random)" in result.stdout
    assert typed("check", file, "--strict").exit_code == 1


def test_a_program_gets_fields_or_json(typed: Type, tmp_path: Path) -> None:
    file = written(tmp_path, BAD)
    line = typed("check", file).stdout.splitlines()[0].split("\t")
    assert line[:5] == ["finding", "draw", "random", f"{file}:8", "draw"]
    document = json.loads(typed("check", file, "--json", "--strict").stdout)
    assert document["errors"] == []
    assert [(one["rule"], one["line"]) for one in document["findings"]] == [("random", 8)]


def test_a_definition_that_cannot_be_used_is_an_error(typed: Type, tmp_path: Path) -> None:
    result = typed("check", written(tmp_path, BROKEN))
    assert result.exit_code == 1
    assert result.stdout.startswith("error\t")
    assert "Opaque" in result.stdout


def test_an_app_that_is_not_there_is_refused(typed: Type) -> None:
    assert typed("check", "nowhere.py").exit_code == 2
