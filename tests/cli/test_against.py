"""`holdfast check APP --against URL`: said to people and programs, with an exit code for CI."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import SAMPLE, Type

CHANGED = """
import holdfast as hf
app = hf.App("sample")
go = hf.Signal("go", str)

@app.step
def shout(text: str) -> str:
    return text

@app.workflow
async def waits() -> str:
    await shout("first")
    return await hf.wait_for(go)

@app.workflow
async def waits_a_day() -> str:
    return await hf.wait_for(go)
"""
BEFORE = """
import holdfast as hf
app = hf.App("sample")
go = hf.Signal("go", str)

@app.step
def check(text: str) -> str:
    return text

@app.step
def shout(text: str) -> str:
    return text

@app.workflow
async def slow(text: str) -> str:
    first = await check(text)
    return await shout(first) + await hf.wait_for(go)
"""
FORMER = BEFORE.replace("    first = await check(text)\n", "    first = text\n")


@pytest.fixture
def changed(tmp_path: Path) -> str:
    file = tmp_path / "changed.py"
    file.write_text(CHANGED)
    return str(file)


def test_runs_that_go_on_are_counted(typed: Type, full: str) -> None:
    result = typed("check", SAMPLE, "--against", full, person=True)
    assert result.exit_code == 1  # the one that is stuck
    assert "5 runs go on: greet 2, waits 2, waits_a_day 1" in result.stdout
    assert "stuck: 1 run breaks at event 1 (deadlock)" in result.stdout
    assert "    blocked   1 already" in result.stdout
    assert "Wait for a step, hf.sleep or hf.wait_for instead." in result.stdout


def test_one_workflow_alone(typed: Type, full: str) -> None:
    result = typed("check", SAMPLE, "--against", full, "--workflow", "waits")
    assert (result.exit_code, result.stdout) == (0, "compatible\twaits\t2\n")
    assert typed("check", SAMPLE, "--against", full, "--workflow", "nobody").exit_code == 3
    assert typed("check", SAMPLE, "--workflow", "waits").exit_code == 2


def test_runs_of_other_apps_count_only_if_strict(typed: Type, full: str, changed: str) -> None:
    result = typed("check", changed, "--against", full, person=True)
    assert result.exit_code == 0
    assert "2 runs of greet, which this app does not have" in result.stdout
    assert typed("check", changed, "--against", full, "--strict").exit_code == 1


def begun(typed: Type, tmp_path: Path, runs: int) -> None:
    import asyncio

    from holdfast.cli.loading import load_app

    (tmp_path / "former.py").write_text(FORMER)
    app = load_app(str(tmp_path / "former.py"))

    async def begin() -> None:
        async with app.open(f"sqlite:///{tmp_path / 'sample.db'}") as client:
            for number in range(runs):
                run = await client.start(app.workflows["slow"].bind("a"), id=f"r-{number}")
                async for event in run.events():
                    if event.kind == "step.completed":
                        break

    asyncio.run(begin())


def test_a_break_is_told_with_what_to_write(typed: Type, url: str, tmp_path: Path) -> None:
    begun(typed, tmp_path, 7)
    file = tmp_path / "next.py"
    file.write_text(BEFORE)
    result = typed("check", str(file), "--against", url, person=True)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "✗ slow: 7 runs break at event 2 (mismatch)",
        "    recorded  the result of step shout#1",
        "    the code  waits for check#1, at next.py:16 in slow",
        "    runs      r-6, r-5, r-4, r-3, r-2 and 2 more",
        "",
        "    These runs went past this place without check. Write at next.py:16 in slow:",
        "",
        '        if hf.patched("check before shout"):',
        "            first = await check(text)",
        "        else:",
        "            ...  # as it was",
        "",
        '    Or register the changed body beside the former one: @app.workflow(version="...").',
    ]


def test_a_program_gets_fields_or_json(typed: Type, url: str, tmp_path: Path) -> None:
    begun(typed, tmp_path, 1)
    file = tmp_path / "next.py"
    file.write_text(BEFORE)
    line = typed("check", str(file), "--against", url).stdout.split("\t")
    assert line[:7] == ["breaks", "slow", "", "1", "r-0", "mismatch", "2"]
    document = json.loads(typed("check", str(file), "--against", url, "--json").stdout)
    assert document["runs"] == 1
    (broken,) = document["breaks"]
    assert (broken["code"], broken["events"], broken["runs"]) == ("HF501", [2, 2], ["r-0"])
    assert '    if hf.patched("check before shout"):' in broken["write"]


def test_a_limit_is_told(typed: Type, full: str) -> None:
    result = typed("check", SAMPLE, "--against", full, "--limit", "2", person=True)
    assert "only the newest 2 were replayed" in result.stdout


def test_an_empty_store_has_nothing_to_break(typed: Type, url: str) -> None:
    assert typed("db", "migrate").exit_code == 0
    result = typed("check", SAMPLE, "--against", url, person=True)
    assert (result.exit_code, result.stdout) == (0, "✓ no run is open\n")


def test_a_store_that_is_not_there_is_told(typed: Type, url: str, tmp_path: Path) -> None:
    assert typed("check", SAMPLE, "--against", url).exit_code == 5
    assert typed("check", SAMPLE, "--against", "memory://").exit_code == 2
    assert not (tmp_path / "sample.db").exists()
