"""The table of defects that graphs do not have names every one, and only tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/design/graph-defects.md").read_text("utf-8")
ROWS = re.findall(r"^\| (\d+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
TESTS = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_defect_has_a_row_with_a_test_or_a_reason() -> None:
    assert [int(number) for number, _, _ in ROWS] == [*range(1, 33)]
    assert all(TESTS.search(here) or here.endswith(".") for _, _, here in ROWS)


def test_every_test_that_the_table_names_exists() -> None:
    named = TESTS.findall(PAGE)
    assert len(named) > 30
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text("utf-8"), f"{file}::{test}"
