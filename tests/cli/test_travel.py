"""`holdfast runs rerun`, and what `show --all` tells of it."""

import json
import re

import pytest

from tests.cli.conftest import Type


@pytest.mark.usefixtures("full")
class TestRerun:
    def test_a_completed_run_goes_back_to_a_step(self, typed: Type) -> None:
        result = typed("runs", "rerun", "completed", "--from", "shout#2", "--reason", "too loud")
        assert (result.exit_code, result.stdout) == (0, "completed\n")
        assert result.stderr == "completed goes on from shout#2 without shout#2\n"
        row = json.loads(typed("runs", "show", "completed", "--json").stdout)
        assert (row["status"], row["generation"]) == ("pending", 2)
        assert [event["key"] for event in row["history"]] == ["", "shout#1", ""]
        assert row["history"][-1]["payload"] == {"from": "shout#2", "reason": "too loud"}

    def test_all_shows_what_no_longer_counts(self, typed: Type) -> None:
        assert typed("runs", "rerun", "completed", "--keep-keys").exit_code == 0
        text = typed("runs", "show", "completed", "--all", person=True).stdout
        assert re.search(r"2 .* ✓ shout#1 .*  superseded by 5 · \"ADA\"", text)
        assert re.search(r"5 .* reopened +with the keys of generation 1", text)
        rows = typed("runs", "show", "completed", "--all").stdout.splitlines()
        assert [row.split("\t")[6] for row in rows] == ["", "5", "5", "5", ""]
        history = json.loads(typed("runs", "show", "completed", "--all", "--json").stdout)[
            "history"
        ]
        assert [event["superseded_by"] for event in history] == [None, 5, 5, 5, None]
        assert "shout#1" not in typed("runs", "show", "completed", person=True).stdout

    def test_an_open_run_goes_back_too(self, typed: Type) -> None:
        told = typed("runs", "rerun", "waiting", "--id", "again", person=True).stdout
        assert "✓ waiting  goes on from its start" in told
        assert "Next: holdfast runs watch waiting" in told
        typed("runs", "rerun", "waiting", "--id", "again")
        row = json.loads(typed("runs", "show", "waiting", "--json").stdout)
        assert (row["status"], row["generation"]) == ("pending", 2)

    def test_an_unknown_key_is_an_error_that_lists_the_keys(self, typed: Type) -> None:
        result = typed("runs", "rerun", "completed", "--from", "shuot#1")
        assert result.exit_code == 2
        assert "Did you mean 'shout#1'? It has shout#1, shout#2." in result.stderr
        assert "holdfast explain HF205" in result.stderr
