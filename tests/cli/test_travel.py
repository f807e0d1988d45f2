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
        told = {"from": "shout#2", "reason": "too loud", "anew": True}
        assert row["history"][-1]["payload"] == told

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


@pytest.mark.usefixtures("full")
class TestFork:
    def test_a_fork_shares_events_and_says_so(self, typed: Type) -> None:
        result = typed("runs", "fork", "completed", "--at", "2", "--id", "other")
        assert (result.exit_code, result.stdout) == (0, "other\n")
        assert result.stderr == "other shares 2 of the events of completed\n"
        text = typed("runs", "show", "other", person=True).stdout
        assert re.search(r"forked    from completed at 2$", text, re.M)
        assert re.search(r"3 .* ● forked +from completed at 2$", text, re.M)
        row = json.loads(typed("runs", "show", "other", "--json").stdout)
        assert (row["status"], row["workflow"], row["events"]) == ("pending", "greet", 3)

    def test_results_are_set(self, typed: Type) -> None:
        told = typed(
            "runs", "fork", "completed", "--set", 'shout#1="X"', "--set", "shout#2=\"Y\"",
            "--id", "other", "--reason", "what if", person=True,
        ).stdout  # fmt: skip
        assert "✓ other  shares 3 of the events of completed" in told
        assert "Next: holdfast runs watch other" in told
        text = typed("runs", "show", "other", person=True).stdout
        assert "from completed at 3, with another result of shout#1, shout#2 · what if" in text
        assert '"X"' in text

    def test_parameters_are_changed(self, typed: Type) -> None:
        words = ("runs", "fork", "completed", "--id", "other", "--input", '{"name": "bob"}')
        assert typed(*words).stderr == "other begins as completed did, with another input\n"
        shown = json.loads(typed("runs", "show", "other", "--json").stdout)
        assert shown["history"][0]["payload"] == {"name": "bob", "times": 2}
        assert typed(*words).exit_code == 0, "a repeat finds it"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--at", "9"), "9 is no event of 4"),
            (("--at", "shuot#1"), "Did you mean 'shout#1'?"),
            (("--set", "shout#1"), "'shout#1' has no key and value"),
            (("--set", "shout#1=ADA"), "is no JSON"),
            (("--input", "5"), "'5' is no JSON object"),
            (("--input", '{"nmae": 1}'), "'nmae' is no parameter"),
            (("--input", "{}", "--at", "3"), "leaves nothing of the history"),
            (("--id", "waiting"), "Run 'waiting' exists with another history"),
        ],
    )
    def test_what_cannot_be_done_is_said(
        self, typed: Type, words: tuple[str, ...], message: str
    ) -> None:
        result = typed("runs", "fork", "completed", *words)
        assert result.exit_code == 2
        assert message in result.stderr
        assert "Traceback" not in result.output


@pytest.mark.usefixtures("full")
class TestDiff:
    def test_two_runs_are_compared_key_by_key(self, typed: Type) -> None:
        typed("runs", "fork", "completed", "--set", 'shout#1="X"', "--at", "3", "--id", "other")
        text = typed("runs", "diff", "completed", "other", person=True).stdout
        assert text.startswith("a  completed\nb  other\nThey part at shout#1: another result.\n")
        assert re.search(r'^≠ +shout#1 +result +"ADA" in .* +"X"$', text, re.M)
        assert re.search(r"^- +end +only in a ", text, re.M)
        assert "shout#2" not in text
        whole = typed("runs", "diff", "completed", "other", "--all", person=True).stdout
        assert re.search(r"^= +shout#2 ", whole, re.M)

    def test_a_program_gets_fields_or_json(self, typed: Type) -> None:
        typed("runs", "fork", "completed", "--at", "2", "--id", "other")
        rows = typed("runs", "diff", "completed", "other").stdout.splitlines()
        assert [row.split("\t")[:2] for row in rows] == [
            ["only in a", "shout#2"], ["only in a", "end"],
        ]  # fmt: skip
        told = json.loads(typed("runs", "diff", "completed", "other", "--json").stdout)
        assert (told["same"], told["first"]) == (False, "shout#2")
        assert told["items"][0]["verdict"] == "same"
        assert told["items"][2]["a"]["value"] == "ADA"

    def test_two_lives_of_one_run_are_compared(self, typed: Type) -> None:
        typed("runs", "rerun", "completed", "--from", "shout#2")
        text = typed("runs", "diff", "completed@1", "comp", person=True).stdout
        assert "They part at shout#2: only in a." in text
        same = typed("runs", "diff", "completed@1", "completed@1", person=True).stdout
        assert "They are the same, by 4 keys." in same
        assert typed("runs", "diff", "completed@9", "completed").exit_code == 2
        assert typed("runs", "diff", "nobody", "completed").exit_code == 3
