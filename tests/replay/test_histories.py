"""Recorded histories are replayed by today's code, on every Python that is here."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast as hf
from tests.replay import flows, interpreters

HISTORIES = Path(__file__).parent / "histories"
NAMES = sorted(path.stem for path in HISTORIES.glob("*.json"))


def test_every_workflow_has_a_recorded_history() -> None:
    missing = sorted(set(flows.app.workflows) - set(NAMES))
    assert not missing, "record them: python -m tests.replay.flows add tests/replay/histories"
    assert sorted(flows.app.workflows) == NAMES


def test_every_feature_has_its_workflows_and_every_workflow_its_feature() -> None:
    shown = [name for names in flows.FEATURES.values() for name in names]
    assert sorted(set(shown)) == NAMES
    assert all(flows.FEATURES.values())


NOTED = {"patched": 3, "unpatched": 0, "get_version": 3, "reopened": 1, "owed": 0, "rerun": 1}
"""How many changes a history holds a note of."""


@pytest.mark.parametrize("name", NOTED)
def test_a_history_of_a_change_holds_its_notes(name: str) -> None:
    document = json.loads((HISTORIES / f"{name}.json").read_text(encoding="utf-8"))
    kinds = [event["kind"] for event in document["events"]]
    assert kinds.count("note.patched") == NOTED[name]
    assert kinds.count("run.reopened") == (name in ("reopened", "owed", "rerun"))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_history_replays_to_its_end(name: str) -> None:
    ended = "run.cancelled" if name == "cancelled" else "run.completed"
    assert flows.replay(HISTORIES / f"{name}.json") == ended


def test_a_changed_history_is_noticed(tmp_path: Path) -> None:
    text = (HISTORIES / "groups.json").read_text(encoding="utf-8")
    (tmp_path / "groups.json").write_text(text.replace("branch[2]", "branch[9]"), encoding="utf-8")
    with pytest.raises(hf.ReplayMismatch):
        flows.replay(tmp_path / "groups.json")


@pytest.mark.timeout(300)
def test_recorded_histories_replay_on_every_python(
    pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    cache = pytestconfig.cache.mkdir("interpreters")
    shapes: set[str] = set()
    for name, python in interpreters.found().items():
        problem = interpreters.prepare(name, python, cache)
        if not problem:
            printed = interpreters.run(name, python, cache, "replay", str(HISTORIES))
            assert printed.count("run.completed") == len(NAMES) - 1
            assert printed.count("run.cancelled") == 1
            shapes.add(interpreters.run(name, python, cache, "shapes"))
        told = problem or f"replayed {len(NAMES)} golden histories"
        record_property("replay", f"Python {name}: {told}")
    assert len(shapes) == 1, "the same code has the same shape everywhere"


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_histories_cross_from_every_python_to_every_other(
    tmp_path: Path, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    cache = pytestconfig.cache.mkdir("interpreters")
    problems = {
        name: interpreters.prepare(name, python, cache)
        for name, python in interpreters.found().items()
    }
    usable = {name: p for name, p in interpreters.found().items() if not problems[name]}
    for name, problem in problems.items():
        told = problem or f"recorded {len(NAMES)} histories, replayed all others' and the golden"
        record_property("replay", f"Python {name}: {told}")
    folders = {"golden": HISTORIES}
    for name, python in usable.items():
        folders[name] = tmp_path / name
        folders[name].mkdir()
        interpreters.run(name, python, cache, "record", str(folders[name]))
    for name, python in usable.items():
        printed = interpreters.run(name, python, cache, "replay", *map(str, folders.values()))
        assert printed.count("run.completed") == (len(NAMES) - 1) * len(folders)
        assert printed.count("run.cancelled") == len(folders)
