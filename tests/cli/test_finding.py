"""Filters, tags, chosen fields and completion, as they are typed."""

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import SAMPLE, Shell, Type, environment


def listed(typed: Type, *words: str) -> list[str]:
    result = typed("runs", "list", "--json", "id", *words)
    assert result.exit_code == 0, result.output
    return sorted(row["id"] for row in json.loads(result.stdout))


@pytest.mark.usefixtures("full")
class TestFilters:
    @pytest.mark.parametrize(
        ("words", "ids"),
        [
            (("status:failed,blocked",), ["blocked", "failed"]),
            (("status:failed,blocked", "workflow:fails"), ["failed"]),
            (("status:failed,blocked workflow:fails",), ["failed"]),
            (("-status:pending,completed", "-workflow:waits,fails", "-id:q"), ["blocked", "due"]),
            (('reason:"Signal go"',), ["due", "waiting"]),
            (("ENOUGH",), ["terminated"]),
            (("-workflow:waits", "--", "-status:pending", "workflow:greet"),
             ["completed", "quarantined"]),
            (("--since", "1h", "id:p"), ["paused", "pending"]),
            (("before:1h",), []),
        ],
    )  # fmt: skip
    def test_words_are_one_filter(
        self, typed: Type, words: tuple[str, ...], ids: list[str]
    ) -> None:
        assert listed(typed, *words) == ids

    def test_pages_go_on_with_the_same_filter(self, typed: Type) -> None:
        person = typed("runs", "list", "id:p", "--limit", "1", person=True).stdout
        assert "more: holdfast runs list id:p --before pending" in person
        assert listed(typed, "id:p", "--before", "pend") == ["paused"]
        assert listed(typed, "id:p", "--before", "@last") == ["paused", "pending"]
        assert typed("runs", "list", "--before", "nobody").exit_code == 3

    def test_nothing_found_says_so(self, typed: Type) -> None:
        assert "No runs are like that." in typed("runs", "list", "tag:x", person=True).stdout

    @pytest.mark.parametrize(
        ("words", "fields"),
        [
            (("--json", "id,status"), ["id", "status"]),
            (("--json=status",), ["status"]),
            (("--json", "id", "status:failed"), ["id"]),
        ],
    )
    def test_fields_are_chosen(self, typed: Type, words: tuple[str, ...], fields: list[str]):
        for row in json.loads(typed("runs", "list", *words).stdout):
            assert list(row) == fields

    def test_json_alone_leaves_the_filter_alone(self, typed: Type) -> None:
        rows = json.loads(typed("runs", "list", "--json", "status:failed").stdout)
        assert [row["id"] for row in rows] == ["failed"]
        assert {"tags", "attributes", "reason"} <= set(rows[0])
        shown = json.loads(typed("runs", "show", "--json", "id,history", "failed").stdout)
        assert list(shown) == ["id", "history"]
        assert typed("runs", "show", "failed", "--json", "id,colour").exit_code == 2


class TestTags:
    def test_they_are_typed_kept_found_and_shown(self, typed: Type) -> None:
        started = typed(
            "run", "waits", "--app", SAMPLE, "--key", "w", "--tag", "vip", "--tag", "new",
            "--attribute", 'customer="42"', "--attribute", "amount=12",
            "--attribute", "is_new=true", "--attribute", "name=Ada L",
        )  # fmt: skip
        assert started.exit_code == 0, started.output
        assert typed("run", "waits", "--app", SAMPLE, "--key", "x").exit_code == 0
        row = json.loads(typed("runs", "show", "w", "--json").stdout)
        assert row["tags"] == ["new", "vip"]
        assert row["attributes"] == {
            "amount": 12,
            "customer": "42",
            "is_new": True,
            "name": "Ada L",
        }
        assert listed(typed, "tag:vip", "amount>10", 'name="Ada L"') == ["w"]
        assert listed(typed, "-tag:vip") == ["x"]
        text = typed("runs", "list", person=True).stdout
        assert "TAGS" in text.splitlines()[0]
        assert "new vip amount=12" in text
        assert "tags      new vip amount=12" in typed("runs", "show", "w", person=True).stdout

    def test_what_cannot_be_stored_is_refused(self, typed: Type) -> None:
        for words in (("--tag", ""), ("--attribute", "amount"), ("--attribute", "a b=1")):
            result = typed("run", "waits", "--app", SAMPLE, *words)
            assert result.exit_code == 2, words
        assert typed("runs", "list").stdout == ""


# --- completion


def completed(shell: Shell, words: str) -> list[str]:
    """What bash would offer for the last word."""
    count = len(words.split(" ")) - 1
    env = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    done = shell(**env)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.usefixtures("full")
def test_a_shell_is_offered_what_there_is(shell: Shell) -> None:
    assert completed(shell, "holdfast r") == ["run", "runs"]
    assert "why" in completed(shell, "holdfast runs w")
    assert completed(shell, "holdfast runs show p") == ["pending", "paused"]
    assert completed(shell, "holdfast runs show @") == ["@last", "@failed"]
    assert completed(shell, "holdfast run w") == ["waits", "waits_a_day"]
    assert completed(shell, "holdfast runs list --status fa") == ["failed"]
    assert completed(shell, "holdfast runs list st") == ["status:"]
    assert completed(shell, "holdfast runs list status:failed,bl") == ["status:failed,blocked"]
    assert completed(shell, "holdfast runs list workflow:waits") == [
        "workflow:waits", "workflow:waits_a_day",
    ]  # fmt: skip
    # bash breaks words at the colon
    assert completed(shell, "holdfast runs list status : fai") == ["failed"]
    assert completed(shell, "holdfast runs list id :")[:1] == [":blocked"]


def test_a_store_that_is_not_there_offers_nothing(shell: Shell) -> None:
    assert completed(shell, "holdfast runs show p") == []


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(typed: Type, name: str) -> None:
    result = typed("completion", name)
    assert result.exit_code == 0
    assert f"_HOLDFAST_COMPLETE={name}_complete" in result.stdout
    if name == "bash":
        subprocess.run(["bash", "-n"], input=result.stdout, text=True, check=True)


def test_completing_loads_little(url: str, shell: Shell) -> None:
    assert shell("db", "migrate").returncode == 0
    unloaded = ["pydantic", "rich", "holdfast.client", "holdfast.machine"]
    code = "import sys\nfrom holdfast.cli import main\ntry:\n    main([])\nfinally:\n"
    code += f"    print([m for m in {unloaded!r} if m in sys.modules], file=sys.stderr)"
    env = {
        "_HOLDFAST_COMPLETE": "zsh_complete",
        "COMP_WORDS": "holdfast runs show x",
        "COMP_CWORD": "3",
    }
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=environment(url, **env), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")
