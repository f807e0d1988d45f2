"""`holdfast explain`, and the way to it from every error."""

import pytest

from tests.cli.conftest import Type


@pytest.mark.parametrize("code", ["HF201", "hf201", "[HF201]"])
def test_it_prints_the_page_of_a_code(typed: Type, code: str) -> None:
    result = typed("explain", code)
    assert result.exit_code == 0
    assert result.stdout.startswith("# HF201 RunNotFound\n")
    assert "**What to do.**" in result.stdout


def test_without_a_code_it_lists_them(typed: Type) -> None:
    assert "[HF201](HF201.md)" in typed("explain").stdout


@pytest.mark.parametrize("code", ["HF999", "../cli", "nonsense"])
def test_a_code_that_is_none_is_said(typed: Type, code: str) -> None:
    result = typed("explain", code)
    assert result.exit_code == 3
    assert "`holdfast explain` lists them all" in result.stderr


def test_an_error_says_where_to_read_more(typed: Type, full: str) -> None:
    result = typed("runs", "show", "nobody")
    assert result.exit_code == 3
    assert "[HF201]\n" in result.stderr
    assert result.stderr.endswith("more: holdfast explain HF201\n")
