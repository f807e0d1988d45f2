"""The lint finds what could not be replayed, says what to write, and nothing else."""

import ast
import gc
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.fronts.function import lint
from holdfast.fronts.function.lint.rules import rule_for
from tests.fronts.function import bodies

LINES = Path(bodies.__file__).read_text("utf-8").splitlines()
MARK = re.compile(r"#\s(\w+)$")
RULES = {rule.name for rule in lint.RULES}
FLOWS = bodies.app.workflows
FIRST = FLOWS["clocks"].function.__code__.co_firstlineno
CALLED = {"clocks": ("clock", "uuid"), "forgets": ("uuid",), "swallows": ("clock",)}
"""What helpers do that stand above the first workflow, by who calls them."""


def marked(first: int, last: int) -> set[tuple[int, str]]:
    """The lines that must be found, by their comments."""
    marks = ((n, MARK.search(LINES[n - 1])) for n in range(first, last + 1))
    return {(n, mark[1]) for n, mark in marks if mark and mark[1] in RULES}


def found(flow: hf.Workflow[..., Any]) -> set[tuple[int, str]]:
    return {(finding.line, finding.rule) for finding in lint.findings(flow)}


@pytest.mark.parametrize("name", FLOWS)
def test_the_marked_lines_are_found_and_no_others(name: str) -> None:
    lines = [line for _, _, line in FLOWS[name].function.__code__.co_lines() if line]
    helpers = {place for place in marked(1, FIRST) if place[1] in CALLED.get(name, ())}
    expected = marked(min(lines), max(lines) + 1) | helpers
    assert found(FLOWS[name]) == expected


def test_a_node_that_hides_errors_is_named() -> None:
    hidden = {place for place in marked(1, len(LINES)) if place[1] == "hidden"}
    assert found(bodies.drawn.workflows["drawn"]) == hidden
    first = lint.findings(bodies.drawn.workflows["drawn"])[0]
    assert re.match(
        r"bodies\.py:\d+ in hides: except Exception that does nothing in a node: ", str(first)
    )
    assert str(first).endswith("# holdfast: allow(hidden)")


def test_every_rule_is_tried() -> None:
    tried = {rule for _, rule in marked(1, len(LINES))}
    assert tried == RULES


def test_a_finding_names_the_place_the_reason_and_the_way_out() -> None:
    finding = next(f for f in lint.findings(FLOWS["chance"]) if f.what == "random.choice()")
    text = str(finding)
    assert re.match(r"bodies\.py:\d+ in chance: random\.choice\(\) in a workflow body: ", text)
    assert "a replay would draw something else" in text
    assert "hf.random().choice(...)" in text
    assert text.endswith("# holdfast: allow(random)")


def test_each_place_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    app = hf.App("once")

    @app.workflow
    async def flow() -> None:
        print("x")

    with caplog.at_level(logging.WARNING, "holdfast.lint"):
        lint.tell(app.workflows.values())
        lint.tell(app.workflows.values())
    assert [record.name for record in caplog.records] == ["holdfast.lint"]


def test_a_body_without_source_is_passed_over() -> None:
    names: dict[str, Any] = {}
    exec("async def flow() -> None:\n    print('x')\n", names)
    assert lint.findings(hf.App("made").workflow(names["flow"])) == []


def test_a_file_that_was_edited_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "edited.py"
    file.write_text("async def flow() -> None:\n    print('x')\n")
    names: dict[str, Any] = {"__name__": "edited"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    file.write_text("def ((")
    assert lint.findings(hf.App("made").workflow(names["flow"])) == []


def test_the_example_and_the_shops_of_the_tests_are_clean() -> None:
    sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "demo"))
    import shop  # type: ignore[import-not-found]

    from tests.cli import sample
    from tests.crash import scenarios
    from tests.e2e import shop as other

    apps = [shop.app, sample.app, scenarios.app, other.app]
    assert [str(f) for app in apps for w in app.workflows.values() for f in lint.findings(w)] == []


@pytest.mark.parametrize(
    ("dotted", "rule"),
    [
        ("requests.api.get", "network"),
        ("httpx.AsyncClient", "network"),
        ("asyncio.threads.to_thread", "threads"),
        ("concurrent.futures.thread.ThreadPoolExecutor", "threads"),
        ("requests.exceptions.HTTPError", None),
        ("datetime.timedelta", None),
        ("os.path.join", None),
        ("shop.open", None),
    ],
)
def test_a_name_is_known_by_its_outer_module_too(dotted: str, rule: str | None) -> None:
    known = rule_for(dotted)
    assert (known.name if known else None) == rule


def test_a_parse_that_other_code_disturbs_is_tried_again() -> None:
    """As a thread does that parses at the same moment: `python/cpython#106905`, before 3.11.8."""
    left, expected = 60, found(FLOWS["clocks"])

    def parse_elsewhere(depth: int) -> None:
        """On another stack than the lint's: that is what the interpreter mistakes."""
        if depth:
            parse_elsewhere(depth - 1)
        else:
            ast.parse("x = 1")

    def disturb(phase: str, info: dict[str, int]) -> None:
        nonlocal left
        if phase == "start" and left:
            left -= 1
            parse_elsewhere(100)

    lint.tell(())  # forgets what it has parsed
    thresholds = gc.get_threshold()
    gc.callbacks.append(disturb)
    gc.set_threshold(5)
    try:
        assert found(FLOWS["clocks"]) == expected
    finally:
        gc.callbacks.remove(disturb)
        gc.set_threshold(*thresholds)
    assert left == 0, "nothing disturbed the parse"
