"""`holdfast run`: finding the app, reading the input, starting the run."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import SAMPLE, Type


def started(typed: Type, *words: str) -> object:
    """Start a run and return the input that was stored."""
    result = typed("run", *words, "--app", SAMPLE)
    assert result.exit_code == 0, result.output
    id = result.stdout.strip()
    assert result.stdout == f"{id}\n"
    return json.loads(typed("runs", "show", id, "--json").stdout)["history"][0]["payload"]


class TestInput:
    @pytest.mark.parametrize(
        ("words", "stored"),
        [
            (("greet", "-i", "name=Ada"), {"name": "Ada", "times": 1}),
            (("greet", "-i", "name=Ada", "-i", "times=3"), {"name": "Ada", "times": 3}),
            (("greet", "-i", '{"name": "a=b"}'), {"name": "a=b", "times": 1}),
            (("buy", "-i", '{"item": "lamp"}'), {"order": {"item": "lamp", "cents": 100}}),
            (("buy", "-i", "item=lamp", "-i", "cents=5"), {"order": {"item": "lamp", "cents": 5}}),
            (("buy", "-i", 'order={"item": "x"}'), {"order": {"item": "x", "cents": 100}}),
            (("fails", "-i", '"luck"'), {"text": "luck"}),
            (("waits",), {}),
        ],
    )
    def test_it_may_be_json_or_pairs(
        self, typed: Type, words: tuple[str, ...], stored: object
    ) -> None:
        assert started(typed, *words) == stored

    def test_it_may_be_a_file(self, typed: Type, tmp_path: Path) -> None:
        file = tmp_path / "order.json"
        file.write_text('{"item": "lamp", "cents": 7}')
        assert started(typed, "buy", "-i", f"@{file}") == {"order": {"item": "lamp", "cents": 7}}

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("greet",), "misses name"),
            (("greet", "-i", "nick=Ada"), "does not fit. It takes: name, times"),
            (("greet", "-i", "Ada"), "is no JSON"),
            (("greet", "-i", "name=Ada", "-i", "times=often"), "times"),
            (("greet", "-i", "name=Ada", "-i", "3"), "is no name=value"),
            (("buy", "-i", "@nowhere.json"), "Cannot read 'nowhere.json'"),
            (("waits", "-i", "3"), "It takes: nothing"),
        ],
    )
    def test_what_does_not_fit_is_said(
        self, typed: Type, words: tuple[str, ...], message: str
    ) -> None:
        result = typed("run", *words, "--app", SAMPLE)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
        assert "Traceback" not in result.output


class TestStart:
    def test_the_key_makes_a_second_start_harmless(self, typed: Type) -> None:
        words = ("run", "greet", "-i", "name=Ada", "--key", "g1", "--app", SAMPLE)
        assert typed(*words).stdout == typed(*words).stdout == "g1\n"
        other = typed("run", "greet", "-i", "name=Bob", "--key", "g1", "--app", SAMPLE)
        assert other.exit_code == 2
        assert "exists with another input" in other.stderr

    def test_a_person_is_told_what_comes_next(self, typed: Type) -> None:
        words = ("run", "greet", "-i", "name=Ada", "--key", "g1", "--app", SAMPLE)
        text = typed(*words, person=True).stdout
        assert text.startswith("○ pending  greet g1")
        assert "no worker is listening yet" in text
        assert "holdfast runs watch g1" in text

    @pytest.mark.parametrize(
        ("words", "lasts"),
        [
            ((), 30 * 86_400),
            (("--timeout", "45s"), 45),
            (("--timeout", "90m"), 90 * 60),
            (("--timeout", "2w"), 14 * 86_400),
            (("--timeout", "none"), None),
        ],
    )
    def test_it_has_the_time_it_is_given(
        self, typed: Type, url: str, words: tuple[str, ...], lasts: int | None
    ) -> None:
        assert typed("run", "waits_a_month", "--key", "m", *words, "--app", SAMPLE).exit_code == 0
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            [row] = connection.execute("SELECT deadline - created_at FROM runs")
        assert row == (lasts and lasts * 1_000_000,)

    def test_it_waits_where_it_is_put(self, typed: Type) -> None:
        words = ("run", "greet", "-i", "name=Ada", "--app", SAMPLE)
        for id, place in (("a", ()), ("b", ("--queue", "night work", "--priority", "5"))):
            assert typed(*words, "--key", id, *place).exit_code == 0
        chosen = ("--json", "id,queue,priority")
        assert json.loads(typed("runs", "list", *chosen).stdout) == [
            {"id": "b", "queue": "night work", "priority": 5},
            {"id": "a", "queue": "default", "priority": 3},
        ]
        found = typed("runs", "list", 'queue:"night work"', "--json", "id").stdout
        assert json.loads(found) == [{"id": "b"}]
        assert "night work, priority 5" in typed("runs", "show", "b", person=True).stdout
        assert "priority" not in typed("runs", "show", "a", person=True).stdout

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--priority", "6"), "'--priority'"),
            (("--priority", "high"), "'--priority'"),
            (("--queue", "a/b"), "queue 'a/b' has a slash"),
            (("--queue", ""), "queue '' has 0 characters"),
        ],
    )
    def test_a_place_that_there_cannot_be_is_refused(
        self, typed: Type, words: tuple[str, ...], message: str
    ) -> None:
        result = typed("run", "greet", "-i", "name=Ada", *words, "--app", SAMPLE)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr

    def test_an_unknown_workflow_is_exit_code_3(self, typed: Type) -> None:
        result = typed("run", "grete", "--app", SAMPLE)
        assert result.exit_code == 3
        assert "Registered: buy, fails, greet" in result.stderr


class TestApp:
    @pytest.mark.parametrize("words", [("run", "waits"), ("worker",), ("check",)])
    def test_who_names_none_is_told_how(self, typed: Type, words: tuple[str, ...]) -> None:
        result = typed(*words)
        assert result.exit_code == 2
        assert "such as shop.py, here or once: export HOLDFAST_APP=shop.py" in result.stderr

    @pytest.mark.parametrize("name", [f"{SAMPLE}:app", "tests.cli.sample:app", "tests.cli.sample"])
    def test_it_may_be_a_module_or_a_file(self, typed: Type, name: str) -> None:
        assert typed("run", "waits", "--key", "w", "--app", name).stdout == "w\n"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "No app in"),
            ("import holdfast as hf\na, b = hf.App('a'), hf.App('b')", "Several apps in"),
            ("import holdfast as hf\n1 / 0", "line 2, in <module>\n    1 / 0"),
            ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
            ("import sys\nsys.exit(3)", "line 2, in <module>\n    sys.exit(3)\nSystemExit: 3"),
        ],
    )
    def test_a_file_without_one_is_said(
        self, typed: Type, tmp_path: Path, text: str, message: str
    ) -> None:
        (tmp_path / "broken_app.py").write_text(text)
        result = typed("run", "waits", "--app", str(tmp_path / "broken_app.py"))
        assert result.exit_code == 2
        assert message in result.stderr
        assert "holdfast/cli" not in result.stderr

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("no/such.py", "There is no file 'no/such.py'"),
            ("no_such_module:app", "No module named 'no_such_module' from here"),
            (f"{SAMPLE}:nothing", "No app 'nothing' in sample: it is not there"),
            (f"{SAMPLE}:shout", "No app 'shout' in sample: it is <step shout>"),
        ],
    )
    def test_a_wrong_name_is_said(self, typed: Type, name: str, message: str) -> None:
        result = typed("run", "waits", "--app", name)
        assert result.exit_code == 2
        assert message in result.stderr

    def test_none_is_a_usage_error(self, typed: Type) -> None:
        assert typed("run", "waits").exit_code == 2


class TestWhen:
    @pytest.mark.parametrize("option", ["--at", "--start-at"])
    def test_a_run_begins_at_a_time(self, typed: Type, option: str) -> None:
        typed("run", "waits", "--key", "w", option, "2127-01-31T08:00+01:00", "--app", SAMPLE)
        assert wake_of(typed) == "2127-01-31T07:00:00.000000Z"

    @pytest.mark.parametrize("option", ["--in", "--delay"])
    def test_a_run_begins_after_a_while(self, typed: Type, option: str) -> None:
        before = datetime.now(UTC)
        typed("run", "waits", "--key", "w", option, "90m", "--app", SAMPLE)
        wait = datetime.fromisoformat(wake_of(typed)) - before
        assert timedelta(minutes=90) <= wait < timedelta(minutes=95)


def wake_of(typed: Type) -> str:
    row = json.loads(typed("runs", "show", "w", "--json").stdout)
    assert row["status"] == "pending"
    return str(row["wake_at"])
