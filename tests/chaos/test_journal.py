"""The journal outlives those who write it: a killed one leaves half a line."""

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
