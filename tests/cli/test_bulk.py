"""One verb for all runs that a filter finds."""

import json

import pytest

from tests.cli.conftest import Type


@pytest.mark.usefixtures("full")
class TestMany:
    def test_a_dry_run_says_which_and_changes_nothing(self, typed: Type) -> None:
        words = ("runs", "cancel", "--filter", "status:waiting,paused", "--dry-run")
        result = typed(*words)
        assert result.exit_code == 0
        assert {line.split("\t")[0] for line in result.stdout.splitlines()} == {
            "waiting", "due", "paused",
        }  # fmt: skip
        assert result.stderr == "cancel would be for 3 runs\n"
        text = typed(*words, person=True).stdout
        assert text.startswith("cancel would be for 3 runs\n")
        assert "  paused  waits, paused" in text
        told = json.loads(typed(*words, "--json").stdout)
        assert (told["matched"], told["dry_run"]) == (3, True)
        row = json.loads(typed("runs", "show", "waiting", "--json").stdout)
        assert not row["cancel_requested"]

    def test_without_a_terminal_it_wants_a_yes(self, typed: Type) -> None:
        result = typed("runs", "terminate", "--filter", "status:waiting")
        assert result.exit_code == 2
        assert "This would terminate 2 runs. Look with --dry-run" in result.stderr
        assert json.loads(typed("runs", "list", "status:terminated", "--json=id").stdout) == [
            {"id": "terminated"}
        ]

    def test_each_run_is_steered_and_named(self, typed: Type) -> None:
        result = typed(
            "runs", "terminate", "--filter", "status:waiting", "--yes", "--reason", "enough"
        )
        assert result.exit_code == 0
        assert sorted(result.stdout.split()) == ["due", "waiting"]
        rows = json.loads(typed("runs", "list", "status:terminated", "--json=id").stdout)
        assert sorted(row["id"] for row in rows) == ["due", "terminated", "waiting"]

    def test_a_person_is_told_how_many(self, typed: Type) -> None:
        text = typed("runs", "retry", "--filter", "status:failed", "-y", person=True).stdout
        assert text == "✓ 1 run: tries again\n"
        none = typed("runs", "retry", "--filter", "status:failed", "-y", person=True)
        assert (none.exit_code, none.stdout) == (0, "No runs are like that.\n")

    def test_refusals_are_told_and_stop_nobody(self, typed: Type) -> None:
        result = typed("runs", "resume", "--filter", "workflow:waits", "--yes")
        assert (result.exit_code, result.stdout) == (1, "paused\n")
        assert "waiting was left as it is: Cannot resume run 'waiting'" in result.stderr
        assert "error: 2 of 3 runs were left as they are." in result.stderr

    def test_json_holds_both(self, typed: Type) -> None:
        result = typed("runs", "resume", "--filter", "workflow:waits", "-y", "--json")
        told = json.loads(result.stdout)
        assert (result.exit_code, told["matched"], told["done"]) == (1, 3, ["paused"])
        assert {each["code"] for each in told["refused"]} == {"HF202", "HF204"}

    def test_signals_go_to_all_once_for_each_id(self, typed: Type) -> None:
        words = ("runs", "signal", "--filter", "status:waiting workflow:waits", "go", "-d", '"x"')
        assert typed(*words, "--id", "s1", "-y").stdout == "waiting\n"
        text = typed(*words, "--id", "s1", "-y", person=True).stdout
        assert text == "✓ 1 run: signal go was there already\n"

    def test_the_newest_go_first_up_to_the_limit(self, typed: Type) -> None:
        result = typed("runs", "pause", "--filter", "workflow:greet,waits", "--limit", "1", "-y")
        assert result.stdout == "quarantined\n"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("cancel",), "Name a run, or give a --filter"),
            (("cancel", "waiting", "--filter", "since:1h"), "not both"),
            (("cancel", "waiting", "--yes"), "go with --filter"),
            (("cancel", "--filter", " "), "An empty filter means every run"),
            (("cancel", "--filter", "statuz:failed"), "no key 'statuz'"),
            (("signal", "--filter", "since:1h"), "Missing argument 'NAME'"),
            (("signal", "waiting"), "Missing argument 'NAME'"),
        ],
    )
    def test_what_cannot_be_meant_is_a_usage_error(
        self, typed: Type, words: tuple[str, ...], message: str
    ) -> None:
        result = typed("runs", *words)
        assert result.exit_code == 2
        assert message in result.stderr
