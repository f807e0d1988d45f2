"""Every error: a code that is never used twice, a hint, an example, and a page that tells of it.

Whoever adds an error to `holdfast/errors.py` also adds, and these tests say so one by one:

1. `code = "HFnnn"` and `hint = "What to do next."` in the class;
2. a line in `docs/errors/ledger.txt`;
3. an instance in `scripts/error_examples.py`;
4. the page `docs/errors/HFnnn.md`: `make docs` writes its frame, and you write the why.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, NonRetryable, RetryAfter
from scripts.error_examples import EXAMPLES
from scripts.reference import errors

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "errors"
SOURCES = sorted(
    path for path in (ROOT / "src" / "holdfast").rglob("*.py") if "testing" not in path.parts
)
ERRORS = sorted(set(errors(HoldfastError)), key=lambda error: error.code)
IDS = [f"{error.code}-{error.__name__}" for error in ERRORS]
IN_THEIR_WORDS = {NonRetryable, RetryAfter}
"""Raised by users, who say what they want."""

every_error = pytest.mark.parametrize("error", ERRORS, ids=IDS)


def ledger() -> dict[str, str]:
    lines = (PAGES / "ledger.txt").read_text("utf-8").splitlines()
    entries = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert [code for code, _ in entries] == sorted({code for code, _ in entries})
    return dict(map(tuple, entries))  # type: ignore[arg-type]


@every_error
def test_it_has_a_code_and_a_hint_of_its_own(error: type[HoldfastError]) -> None:
    own = vars(error)
    assert re.fullmatch(r"HF\d{3}", own.get("code", "")), f"give {error.__name__} a code"
    hint = own.get("hint", "")
    assert hint.endswith("."), f"give {error.__name__} a `hint`: a sentence that says what to do"


@every_error
def test_its_code_stands_in_the_ledger(error: type[HoldfastError]) -> None:
    line = f"{error.code} {error.__name__}"
    assert ledger().get(error.code) == error.__name__, f"docs/errors/ledger.txt misses `{line}`"


def test_no_code_is_used_twice_or_lost() -> None:
    used = {error.code: error.__name__ for error in ERRORS}
    assert len(used) == len(ERRORS)
    gone = {code for code, name in ledger().items() if not name.endswith(" retired")} - set(used)
    assert not gone, f"write `retired` behind these in docs/errors/ledger.txt: {gone}"


@every_error
def test_its_message_ends_with_what_to_do_and_the_code(error: type[HoldfastError]) -> None:
    example = EXAMPLES.get(error)
    assert example, f"add an instance of {error.__name__} to scripts/error_examples.py"
    assert str(example).endswith(f"[{error.code}]")
    assert example.page == f"docs/errors/{error.code}.md"
    if error not in IN_THEIR_WORDS:
        told = str(example).removesuffix(f" [{error.code}]")
        assert told.endswith(example.hint) or _has_advice(told), f"what to do? {told}"


@every_error
def test_it_has_its_page(error: type[HoldfastError]) -> None:
    page = PAGES / f"{error.code}.md"
    assert page.exists(), f"`make docs` writes the frame of docs/errors/{page.name}"
    text = page.read_text("utf-8")
    assert text.startswith(f"# {error.code} {error.__name__}\n"), f"run `make docs` for {page.name}"
    assert str(EXAMPLES[error]) in text, f"run `make docs` for {page.name}"
    assert "**Why.**" in text
    assert "**What to do.**" in text
    assert "TODO" not in text, f"write docs/errors/{page.name} to its end"


def test_every_page_has_its_error() -> None:
    assert {page.stem for page in PAGES.glob("HF*.md")} == {error.code for error in ERRORS}


def test_errors_in_free_words_say_what_to_do() -> None:
    """Where an error is made with a text, as those of stores are, the text has advice."""
    mute = [f"{path}:{line}: {text}" for path, line, text in _free_words() if not _has_advice(text)]
    assert mute == []


def _free_words() -> Iterator[tuple[Path, int, str]]:
    """Yield each text that one of our errors is made with, fields replaced by a letter."""
    names = {error.__name__ for error in ERRORS}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in names:
                continue
            if node.args and isinstance(node.args[0], ast.Constant | ast.JoinedStr):
                words = _words(node.args[0])
                if words != "x":  # made of fields alone
                    yield path.relative_to(ROOT), node.lineno, words


def _words(text: ast.Constant | ast.JoinedStr) -> str:
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in parts)


def _has_advice(text: str) -> bool:
    """Tell whether a second sentence follows what happened."""
    return bool(re.search(r"[.?:] (`|[A-Z])[^.]*.*\.$", text, re.DOTALL))
