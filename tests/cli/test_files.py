"""`holdfast runs export` and `import`: a run goes elsewhere, and nothing of it happens there."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import SAMPLE, Shell, Type

KINDS = (
    "completed", "failed", "waiting", "due", "paused", "terminated", "blocked", "pending",
    "quarantined",
)  # fmt: skip


@pytest.fixture
def exported(typed: Type, full: str, tmp_path: Path) -> Callable[[str], Path]:
    def export(run: str) -> Path:
        result = typed("runs", "export", run)
        assert result.exit_code == 0, result.output
        file = tmp_path / f"{run}.json"
        file.write_text(result.stdout, encoding="utf-8")
        return file

    return export


def elsewhere(tmp_path: Path) -> tuple[str, str]:
    return "--store", f"sqlite:///{tmp_path / 'elsewhere.db'}"


def test_every_kind_of_run_arrives_and_none_goes_on(
    typed: Type, exported: Callable[[str], Path], tmp_path: Path
) -> None:
    for kind in KINDS:
        result = typed("runs", "import", str(exported(kind)), *elsewhere(tmp_path))
        assert (result.exit_code, result.stdout) == (0, f"{kind}\n"), result.output
    rows = json.loads(typed("runs", "list", "--json", *elsewhere(tmp_path)).stdout)
    status = {row["id"]: (row["status"], row["reason"]) for row in rows}
    for kind in ("waiting", "due", "pending"):
        assert status[kind] == ("paused", "imported")
    assert status["paused"] == ("paused", "paused")
    assert status["terminated"] == ("terminated", "enough")
    assert {k: v[0] for k, v in status.items() if k not in ("waiting", "due", "pending")} == {
        kind: kind for kind in KINDS if kind not in ("waiting", "due", "pending")
    }
    assert typed("doctor", *elsewhere(tmp_path)).exit_code == 0
    assert '"ADA ADA"' in typed("runs", "result", "completed", *elsewhere(tmp_path)).stdout


def test_an_imported_run_goes_on_when_it_is_told_to(
    typed: Type, exported: Callable[[str], Path], tmp_path: Path
) -> None:
    place = elsewhere(tmp_path)
    assert typed("runs", "import", str(exported("waiting")), *place).exit_code == 0
    why = typed("runs", "why", "waiting", *place).stdout
    assert "imported" in why
    assert "holdfast runs resume waiting" in why
    assert typed("runs", "resume", "waiting", *place).exit_code == 0
    assert typed("runs", "why", "waiting", *place).stdout.startswith("claimable\t")


def test_an_id_that_is_taken_needs_another(typed: Type, exported: Callable[[str], Path]) -> None:
    file = str(exported("completed"))
    taken = typed("runs", "import", file)
    assert taken.exit_code == 2
    assert "Give the copy another id: --as ID" in taken.stderr
    assert typed("runs", "import", file, "--as", "copy").stdout == "copy\n"
    assert typed("runs", "import", file, "--as", "a/b").exit_code == 2
    first = json.loads(typed("runs", "export", "completed").stdout)
    second = json.loads(typed("runs", "export", "copy").stdout)
    assert second["run"].pop("id") == "copy"
    first["run"].pop("id")
    assert first == second


def test_check_replays_without_effects(
    typed: Type, exported: Callable[[str], Path], tmp_path: Path
) -> None:
    def check(kind: str, app: str = SAMPLE) -> Any:
        words = ("--check", "--app", app, *elsewhere(tmp_path))
        return typed("runs", "import", str(exported(kind)), *words)

    assert "4 events replay on this code; it completed" in check("completed").stdout
    assert "it failed" in check("failed").stdout
    assert "waits for signal go" in check("waiting").stdout
    assert "waits for timer#1, signal go" in check("due").stdout
    assert "waits for shout#1" in check("pending").stdout
    blocked = check("blocked")
    assert blocked.exit_code == 1
    assert "HF502" in blocked.stderr
    changed = tmp_path / "changed.py"
    body = '" ".join(await asyncio.gather(*(shout(name) for _ in range(times))))'
    source = Path(SAMPLE).read_text()
    assert body in source
    changed.write_text(source.replace(body, "await held(name)"))
    mismatch = check("completed", str(changed))
    assert mismatch.exit_code == 1
    assert "HF501" in mismatch.stderr
    unknown = tmp_path / "unknown.py"
    unknown.write_text("import holdfast as hf\napp = hf.App('empty')\n")
    assert check("completed", str(unknown)).exit_code == 3
    assert not (tmp_path / "elsewhere.db").exists()
    nowhere = typed("runs", "import", str(exported("completed")), "--check")
    assert (nowhere.exit_code, "--app" in nowhere.stderr) == (2, True)


Change = Callable[[dict[str, Any]], object]
BROKEN: dict[str, tuple[Change, str]] = {
    "another thing": (lambda d: d.pop("holdfast"), "does not say"),
    "a newer format": (lambda d: d.update(format=2), "this release reads 1"),
    "a missing field": (lambda d: d["run"].pop("status"), "run.status"),
    "an unknown field": (lambda d: d["run"].update(colour="red"), "run.colour"),
    "a wrong type": (lambda d: d["run"].update(epoch="1"), "run.epoch"),
    "an unknown status": (lambda d: d["run"].update(status="lost"), "run.status"),
    "an unknown event": (lambda d: d["events"][1].update(kind="x"), "events[1].kind"),
    "bytes that are none": (lambda d: d["events"][0].update(payload={"hex": "xy"}), "payload"),
    "a gap": (lambda d: d["events"].pop(1), "event 2 is missing"),
    "no events": (lambda d: d["events"].clear(), "the row counts 4 events and there are 0"),
    "events that are no list": (lambda d: d.update(events=None), "it is no list"),
    "a row that is none": (lambda d: d.update(run=[]), "it is no JSON object"),
    "a second end": (lambda d: d["run"].update(status="failed"), "run completed"),
    "a bad tag": (lambda d: d.update(tags=[""]), "tag"),
    "a queue key that is none": (lambda d: d.update(queue_key=7), "queue_key"),
    "a queue key without a line": (lambda d: d.update(queue_key="ada"), "has no line"),
    "a number too large": (lambda d: d["run"].update(epoch=2**70), "run.epoch"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_is_not_sound_is_refused(
    typed: Type, exported: Callable[[str], Path], tmp_path: Path, case: str
) -> None:
    file = exported("completed")
    document = copy.deepcopy(json.loads(file.read_text()))
    change, told = BROKEN[case]
    change(document)
    file.write_text(json.dumps(document))
    result = typed("runs", "import", str(file), *elsewhere(tmp_path))
    assert result.exit_code == 2
    assert told in result.stderr
    assert not (tmp_path / "elsewhere.db").exists()


def test_what_is_no_json_is_refused(typed: Type, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    for text in ("", "{", "[" * 100_000, "[]"):
        file.write_text(text)
        result = typed("runs", "import", str(file))
        assert (result.exit_code, "HF125" in result.stderr) == (2, True), text[:10]
    assert typed("runs", "import", str(tmp_path / "nothing.json")).exit_code == 2
    assert typed("runs", "export", "nobody", *elsewhere(tmp_path)).exit_code == 5


def test_it_goes_through_a_pipe(shell: Shell, full: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(shell("runs", "export", "failed").stdout)
    done = shell("runs", "import", str(file), "--as", "again")
    assert (done.returncode, done.stdout) == (0, "again\n")
