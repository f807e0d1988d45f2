"""`holdfast runs`: what a person sees, what a program gets."""

import asyncio
import json
import re

import pytest

import holdfast as hf
from holdfast.machine.values import digest
from holdfast.model.commands import StartRun
from tests.cli import sample
from tests.cli.conftest import Type

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.usefixtures("full")
class TestList:
    def test_a_program_gets_fields_and_nothing_else(self, typed: Type) -> None:
        rows = [line.split("\t") for line in typed("runs", "list").stdout.splitlines()]
        by_id = {row[2]: row for row in rows}
        assert len(rows) == 9
        assert {len(row) for row in rows} == {7}
        assert by_id["completed"][:2] == ["completed", "greet"]
        assert by_id["waiting"][6] == "signal go"
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:.]+Z", by_id["failed"][4])

    def test_a_person_gets_aligned_columns_icons_and_the_next_command(self, typed: Type) -> None:
        lines = typed("runs", "list", "--limit", "3", person=True).stdout.splitlines()
        assert re.match(r"STATUS +WORKFLOW +RUN +STARTED +DURATION +EVENTS", lines[0])
        column = lines[0].index("RUN")
        assert [line[column:].split()[0] for line in lines[1:4]] == [
            "quarantined", "pending", "blocked",
        ]  # fmt: skip
        assert lines[2].startswith("○ pending")
        assert re.match(r"3 runs · more: holdfast runs list --before blocked · open:", lines[4])
        assert all(len(line) <= 112 for line in lines[:4])

    def test_a_narrow_terminal_loses_columns_not_ids(
        self, typed: Type, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "40")
        lines = typed("runs", "list", person=True).stdout.splitlines()
        assert "DURATION" not in lines[0]
        assert any("quarantined" in line.split() for line in lines[1:])
        assert all(len(line) <= 40 for line in lines[:-1])

    def test_colour_only_where_it_is_wanted(self, typed: Type) -> None:
        assert "\x1b[31m✗ failed" in typed("runs", "list", person=True, colour=True).output
        assert "\x1b" not in typed("runs", "list", person=True).output
        assert "\x1b" not in typed("runs", "list", colour=True).output

    def test_filters_and_pages(self, typed: Type) -> None:
        failed = typed("runs", "list", "--status", "failed", "--status", "blocked", "--jsonl")
        assert [json.loads(line)["id"] for line in failed.stdout.splitlines()] == [
            "blocked", "failed",
        ]  # fmt: skip
        greets = json.loads(typed("runs", "list", "--workflow", "greet", "--json=id").stdout)
        assert greets == [{"id": "quarantined"}, {"id": "pending"}, {"id": "completed"}]
        seen: list[str] = []
        page = typed("runs", "list", "--limit", "4")
        while True:
            seen += [line.split("\t")[2] for line in page.stdout.splitlines()]
            more = re.search(r"--before (\S+)", page.stderr)
            if more is None:
                break
            page = typed("runs", "list", "--limit", "4", "--before", more[1])
        assert len(seen) == len(set(seen)) == 9

    def test_json_holds_the_whole_row(self, typed: Type) -> None:
        rows = json.loads(typed("runs", "list", "--json").stdout)
        row = next(row for row in rows if row["id"] == "due")
        assert row["status"] == "waiting"
        assert row["wake_at"] > row["created_at"]
        assert row["closed_at"] is None

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--json=id,colour",), "no field 'colour'"),
            (("--since", "yesterday"), "'yesterday' is no time"),
            (("statuz:failed",), "column 1, in 'statuz:failed': no key 'statuz'"),
            (("--status", "lost"), "is not one of"),
        ],
    )
    def test_wrong_options_are_usage_errors(
        self, typed: Type, words: tuple[str, ...], message: str
    ) -> None:
        result = typed("runs", "list", *words)
        assert result.exit_code == 2
        assert message in result.stderr


@pytest.mark.usefixtures("full")
class TestShow:
    def test_a_person_sees_every_event_and_the_own_line_that_failed(self, typed: Type) -> None:
        text = typed("runs", "show", "failed", person=True).stdout
        assert re.search(r"^✗ failed  fails failed   .* · 2 steps$", text, re.M)
        assert 'input     {"text": "luck"}' in text
        assert re.search(r"3 .* ↻ explode#1 attempt 1 .* ValueError: no luck.* · again after", text)
        assert re.search(r"4 .* ✗ explode#1 .* \(2 attempts\)", text)
        assert re.search(r"^  explode#1  after 2 attempts, ValueError: no luck", text, re.M)
        assert re.search(r"sample\.py:\d+ in explode     raise ValueError", text)
        assert "Next: holdfast runs retry failed  from the failed step" in text
        assert "hosts/worker" not in text

    def test_what_an_error_holds_cannot_reach_the_terminal(self, typed: Type) -> None:
        for person in (False, True):
            assert "\x1b" not in typed("runs", "show", "failed", person=person).output

    def test_a_program_gets_the_history(self, typed: Type) -> None:
        shown = json.loads(typed("runs", "show", "completed", "--json").stdout)
        assert [event["kind"] for event in shown["history"]] == [
            "run.started", "step.completed", "step.completed", "run.completed",
        ]  # fmt: skip
        assert shown["history"][-1]["payload"] == "ADA ADA"
        lines = typed("runs", "show", "completed").stdout.splitlines()
        assert lines[1].split("\t")[2:4] == ["step.completed", "shout#1"]

    def test_each_step_is_shown_once_with_its_attempts(self, typed: Type) -> None:
        text = typed("runs", "show", "failed", "--steps", person=True).stdout
        assert re.search(r"^✗ failed  fails failed ", text, re.M)
        assert re.search(r'^ *\S+ m?s  ✓ shout#1 +1 .* "LUCK"$', text, re.M)
        assert re.search(r"✗ explode#1 +2 .* ValueError: no luck", text)
        assert text.count("explode#1") == 1
        rows = [
            line.split("\t")
            for line in typed("runs", "show", "failed", "--steps").stdout.splitlines()
        ]
        assert [row[:3] for row in rows] == [["shout#1", "done", "1"], ["explode#1", "failed", "2"]]
        told = json.loads(typed("runs", "show", "failed", "--steps", "--json").stdout)
        assert [(step["key"], step["attempts"]) for step in told["steps"]] == [
            ("shout#1", 1), ("explode#1", 2),
        ]  # fmt: skip
        assert told["steps"][0]["payload"] == "LUCK"
        assert "No step is recorded" in typed("runs", "show", "due", "--steps", person=True).stdout

    def test_details_are_whole_values_in_sections(self, typed: Type) -> None:
        text = typed("runs", "show", "completed", "--detail", person=True).stdout
        assert re.search(r'^1  0 ms  ○ started\n    \{\n      "name": "ada",\n', text, re.M)
        assert re.search(r'✓ shout#1 .*\n    "ADA"\n', text)
        steps = typed("runs", "show", "failed", "--steps", "--detail", person=True).stdout
        assert re.search(r'✗ explode#1  2 attempts  .*\n    \{\n      "type": "ValueError",', steps)
        assert "\x1b" not in steps
        lines = typed("runs", "show", "failed", "--detail").stdout.splitlines()
        assert json.loads(lines[3].split("\t")[5])["attempts"] == 2

    @pytest.mark.parametrize(
        "words", [("--steps", "--all"), ("--steps", "--at", "3"), ("--graph", "--at", "3")]
    )
    def test_options_of_another_view_are_refused(self, typed: Type, words: tuple[str, ...]) -> None:
        result = typed("runs", "show", "completed", *words)
        assert result.exit_code == 2
        assert "--all is for events, and --at for --state." in result.stderr

    def test_ids_may_be_short(self, typed: Type) -> None:
        assert typed("runs", "show", "comp", "--json").exit_code == 0
        assert json.loads(typed("runs", "show", "@last", "--json").stdout)["id"] == "quarantined"
        assert json.loads(typed("runs", "show", "@failed", "--json").stdout)["id"] == "failed"
        several = typed("runs", "show", "p")
        assert several.exit_code == 2
        assert "'p' is the beginning of several runs:\n  pending\n  paused" in several.stderr

    def test_a_run_that_is_not_there_is_exit_code_3(self, typed: Type) -> None:
        result = typed("runs", "show", "nobody")
        assert result.exit_code == 3
        assert "No run 'nobody'" in result.stderr
        assert result.stdout == ""


WHY = {
    "completed": ("closed", "It completed", "holdfast runs result completed"),
    "failed": ("closed", "It failed", "holdfast runs retry failed"),
    "terminated": ("closed", "It was terminated", "holdfast runs show terminated"),
    "waiting": (
        "waiting",
        "It has waited for signal go",
        "holdfast runs signal waiting go -d JSON",
    ),
    "due": ("due", "It waits for signal go, but not beyond", "holdfast runs signal due go -d JSON"),
    "paused": ("paused", "It was paused", "holdfast runs resume paused"),
    "blocked": ("blocked", "It is blocked: deadlock", "holdfast runs retry blocked"),
    "quarantined": ("quarantined", "five workers died of it", "holdfast runs retry quarantined"),
    "pending": ("claimable", "No worker is listening", "holdfast worker APP --store"),
}


@pytest.mark.usefixtures("full")
class TestWhy:
    def test_every_bucket_is_told_with_the_next_command(self, typed: Type) -> None:
        for run, (bucket, words, command) in WHY.items():
            told = json.loads(typed("runs", "why", run, "--json").stdout)
            assert told["bucket"] == bucket
            assert words in " ".join(told["why"])
            assert told["next"][0].startswith(command)

    def test_the_worker_to_start_is_the_one_of_the_environment(
        self, typed: Type, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert "next\tholdfast worker APP --store " in typed("runs", "why", "pending").stdout
        monkeypatch.setenv("HOLDFAST_APP", "shop.py")
        assert "next\tholdfast worker shop.py --store " in typed("runs", "why", "pending").stdout

    def test_a_long_reason_ends_in_one_mark(self, typed: Type, url: str) -> None:
        async def fail(*ids: str) -> None:
            async with sample.app.open(url) as client:
                for id in ids:
                    run = await client.start(sample.fails.bind(id), id=id)
                    with pytest.raises(hf.RunFailed):
                        await run.result()

        asyncio.run(fail("luck", "x" * 200))
        assert typed("runs", "why", "luck").stdout.splitlines()[0].endswith("[31m today.")
        assert typed("runs", "why", "xxx").stdout.splitlines()[0].endswith("xx…")

    def test_a_queue_that_no_worker_serves_is_named(self, typed: Type, url: str) -> None:
        async def ask(queues: list[str]) -> str:
            async with sample.app.open(url, settings=hf.Settings(queues=queues)) as client:
                store, greet = client.engine.store, sample.greet.bind("ada")
                held = await client.start(sample.waits.bind(), queue=queues[0])
                start = StartRun(
                    "default", "left", "greet", "", greet.input, digest(greet.input),
                    store.now() - 10_000_000, shape=sample.greet.shape, queue="night", priority=5,
                )  # fmt: skip
                await client.engine.start(start, is_known=True)
                told = await asyncio.to_thread(typed, "runs", "why", "left")
                await held.terminate()
                return str(told.stdout)

        told = asyncio.run(ask(["fast", "also fast"]))
        assert "It waits on queue night, priority 5." in told
        assert "1 worker listening, and none serves queue 'night': only also fast, fast." in told
        assert f"next\tholdfast worker APP --store {url} --queue night\n" in told

    def test_a_run_that_is_pinned_to_a_version_says_so(self, typed: Type, url: str) -> None:
        async def start(version: str) -> None:
            app = hf.App("sample")
            flow = app.workflow(name="versioned", version=version)(sample.waits.plain)
            async with app.open(url, worker=False) as client:
                await client.start(flow.bind(), id=f"of version {version}")

        for version in ("1", "2"):
            asyncio.run(start(version))
        told = typed("runs", "why", "of version 1").stdout
        assert "It was started on version '1' and stays with it." in told
        assert "Versions seen on this store, the latest first: 2, 1." in told

    def test_a_blocked_run_names_the_code_it_is_blocked_on(self, typed: Type) -> None:
        told = typed("runs", "why", "blocked").stdout
        shape = sample.stuck.shape.hex()[:8]
        assert f"It was started on shape {shape}, this code is {shape}." in told
        assert (
            f"code      started on shape {shape}"
            in typed("runs", "show", "blocked", person=True).stdout
        )

    def test_a_person_and_a_program_read_the_same(self, typed: Type) -> None:
        text = typed("runs", "why", "paused", person=True).stdout
        assert "  It was paused" in text
        assert ": lunch." in text
        assert "Next: holdfast runs resume paused  let it go on" in text
        lines = typed("runs", "why", "waiting").stdout.splitlines()
        assert lines[0].startswith("waiting\tIt has waited for signal go")
        assert lines[1] == "next\tholdfast runs signal waiting go -d JSON"


@pytest.mark.usefixtures("full")
class TestVerbs:
    def test_a_verb_prints_the_id_and_says_the_rest_on_stderr(self, typed: Type) -> None:
        result = typed("runs", "cancel", "wait", "--reason", "too late")
        assert (result.exit_code, result.stdout) == (0, "waiting\n")
        assert result.stderr == "waiting is asked to stop\n"
        assert "was asked to stop already" in typed("runs", "cancel", "waiting").stderr
        assert "A cancel is on its way" in typed("runs", "why", "waiting").stdout

    def test_the_reason_of_a_cancel_is_told(self, typed: Type, full: str) -> None:
        assert typed("runs", "cancel", "waiting", "--reason", "too late").exit_code == 0
        asyncio.run(_ended(full, "waiting"))
        assert re.search(r"It was cancelled .*: too late\.", typed("runs", "why", "waiting").stdout)

    def test_each_moves_the_run(self, typed: Type) -> None:
        def status(run: str) -> str:
            return str(json.loads(typed("runs", "show", run, "--json").stdout)["status"])

        assert typed("runs", "resume", "paused").exit_code == 0
        assert status("paused") == "pending"
        assert typed("runs", "retry", "failed").exit_code == 0
        assert status("failed") == "pending"
        assert typed("runs", "terminate", "due", "--reason", "enough").exit_code == 0
        assert status("due") == "terminated"
        assert typed("runs", "pause", "pending").exit_code == 0
        assert "1 message waiting" in typed("runs", "why", "pending").stdout

    def test_a_signal_with_an_id_is_taken_once(self, typed: Type) -> None:
        words = ("runs", "signal", "waiting", "go", "-d", '"now"', "--id", "s1")
        assert "signal go is stored" in typed(*words).stderr
        assert "was there already" in typed(*words).stderr

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("signal", "waiting", "go", "-d", "now"), "is no JSON"),
            (("signal", "completed", "go"), "is completed and takes no more messages"),
            (("resume", "waiting"), "Cannot resume run 'waiting': it is waiting"),
            (("retry", "completed"), "Cannot retry run 'completed'"),
        ],
    )
    def test_what_cannot_be_done_is_said_without_a_traceback(
        self, typed: Type, words: tuple[str, ...], message: str
    ) -> None:
        result = typed("runs", *words)
        assert result.exit_code == 2
        assert message in result.stderr
        assert "Traceback" not in result.output


@pytest.mark.usefixtures("full")
class TestResult:
    def test_the_value_is_json(self, typed: Type) -> None:
        assert typed("runs", "result", "completed").stdout == '"ADA ADA"\n'

    def test_a_failed_run_is_exit_code_1(self, typed: Type) -> None:
        result = typed("runs", "result", "failed")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "Run 'failed' failed with StepFailed" in result.stderr
        assert typed("runs", "result", "terminated").exit_code == 1

    def test_an_open_run_has_none_yet(self, typed: Type) -> None:
        result = typed("runs", "result", "waiting")
        assert result.exit_code == 2
        assert "has no result yet" in result.stderr

    def test_a_blocked_run_is_not_waited_for(self, typed: Type) -> None:
        result = typed("runs", "result", "blocked", "--wait")
        assert result.exit_code == 1
        assert "is blocked: deadlock" in result.stderr


@pytest.mark.usefixtures("full")
class TestWatch:
    def test_a_program_gets_a_line_for_each_event(self, typed: Type) -> None:
        result = typed("runs", "watch", "failed", "--jsonl", "--exit-status")
        kinds = [json.loads(line)["kind"] for line in result.stdout.splitlines()]
        assert kinds[-2:] == ["step.failed", "run.failed"]
        assert result.exit_code == 1
        assert len(typed("runs", "watch", "completed", "--exit-status").stdout.splitlines()) == 4

    def test_a_person_sees_bars_and_what_went_wrong(self, typed: Type) -> None:
        result = typed("runs", "watch", "failed", person=True)
        text = ANSI.sub("", result.stdout)
        assert re.search(r"✓ shout +━+ +\S+ ms", text)
        assert re.search(r"✗ explode +━+ +\d+ ms  1 retry", text)
        assert "explode#1  after 2 attempts, ValueError: no luck" in text
        assert "Next: holdfast runs retry failed" in text
        assert result.exit_code == 0

    def test_a_compact_picture_counts_what_is_done(self, typed: Type) -> None:
        text = ANSI.sub("", typed("runs", "watch", "failed", "--compact", person=True).stdout)
        assert "✓ 1 done" in text
        assert "✓ shout" not in text
        assert re.search(r"✗ explode +━+ +\d+ ms  1 retry", text)
        well = ANSI.sub("", typed("runs", "watch", "completed", "--compact", person=True).stdout)
        assert "✓ 2 done" in well
        assert "━" not in well

    def test_compact_lines_are_those_of_what_does_not_go_well(self, typed: Type) -> None:
        result = typed("runs", "watch", "failed", "--compact", "--jsonl")
        kinds = [json.loads(line)["kind"] for line in result.stdout.splitlines()]
        assert kinds == ["run.started", "step.retrying", "step.failed", "run.failed"]
        lines = typed("runs", "watch", "completed", "--compact").stdout.splitlines()
        assert [line.split("\t")[2] for line in lines] == ["run.started", "run.completed"]

    def test_calls_of_one_step_share_a_bar(self, typed: Type) -> None:
        text = ANSI.sub("", typed("runs", "watch", "completed", person=True).stdout)
        assert re.search(r"✓ shout \u00d72 +━+", text)


@pytest.mark.usefixtures("full")
class TestLogs:
    def test_a_program_gets_fields(self, typed: Type) -> None:
        rows = [line.split("\t") for line in typed("runs", "logs", "failed").stdout.splitlines()]
        assert [row[1:6] for row in rows] == [
            ["INFO", "", "0", "holdfast.log", "this will fail"],
            ["INFO", "explode#1", "1", "holdfast.log", "lighting luck·[31m"],
            ["INFO", "explode#1", "2", "holdfast.log", "lighting luck·[31m"],
        ]

    def test_a_person_sees_who_said_what(self, typed: Type) -> None:
        lines = typed("runs", "logs", "failed", person=True).stdout.splitlines()
        assert re.fullmatch(r"\d\d:\d\d:\d\d  info      body          this will fail", lines[0])
        assert lines[1].endswith("info      explode#1     lighting luck·[31m  fuse=3")
        assert "explode#1 attempt 2  lighting" in lines[2]

    def test_json_is_one_object_a_line(self, typed: Type) -> None:
        told = typed("runs", "logs", "failed", "--step", "explode", "--attempt", "2", "--json")
        [line] = [json.loads(line) for line in told.stdout.splitlines()]
        assert (line["step"], line["attempt"], line["fields"]) == ("explode#1", 2, {"fuse": 3})

    def test_a_run_without_lines_and_a_run_that_is_not_there(self, typed: Type) -> None:
        assert typed("runs", "logs", "completed").stdout == ""
        assert typed("runs", "logs", "nobody").exit_code == 3


async def _ended(url: str, run: str) -> None:
    """Have a worker bring a run to its end, whatever that is."""
    async with sample.app.open(url) as client:
        with pytest.raises(hf.RunCancelled):
            await client.get(run).result()
