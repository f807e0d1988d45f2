"""The journal outlives those who write it: a killed one leaves half a line."""

import json

from chaos import journal


def test_a_torn_line_costs_no_other(tmp_path, monkeypatch):
    path = tmp_path / "journal"
    monkeypatch.setenv(journal.VARIABLE, str(path))
    journal.note_refused(1)
    with path.open("a") as torn:
        torn.write('\n["fenced", 7')
    assert [each.times for each in journal.read(path).refused] == [1]
    journal.note_refused(2)
    assert [each.times for each in journal.read(path).refused] == [1, 2]


def test_what_others_execute_is_taken(tmp_path):
    """In a later epoch, and of the steps that are asked for; what was before counts for nothing."""
    path = tmp_path / "journal"

    def append(key: str, epoch: int, pid: int) -> int:
        line = journal.Line("r", key, 1, epoch, pid, "mark", 0)
        with path.open("a") as file:
            return file.write(f"{json.dumps([journal.STEP, *line])}\n")

    size = append("work#1", 1, pid=7) + append("work#1", 2, pid=8)
    append("work#2", 2, pid=7)
    append("toil#1", 2, pid=7)
    append("toil#1", 3, pid=8)
    append("work#3", 3, pid=8)
    assert not journal.is_taken(path, 7, size, "work#")
    append("work#2", 3, pid=8)
    assert journal.is_taken(path, 7, size, "work#")
