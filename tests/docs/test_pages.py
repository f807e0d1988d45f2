"""The pages tell of what there is: every error, name, command and word, and no dead link."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import holdfast
from holdfast.cli.entry import root
from holdfast.errors import HoldfastError
from holdfast.testing import conformance
from scripts.reference import errors
from tests.docs.test_blocks import blocks

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
FOR_USERS = [ROOT / "README.md", *DOCS.rglob("*.md")]
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
WORD = re.compile(r"^\| \*\*(?P<word>[^*]+)\*\* \|", re.MULTILINE)


ERRORS = set(errors(HoldfastError))


def read(path: Path) -> str:
    return path.read_text("utf-8")


def prose(text: str) -> str:
    """The page without its code, where brackets mean something else."""
    found = blocks(text)
    inside = {n for b in found for n in range(b.line, b.line + len(b.code.splitlines()))}
    lines = enumerate(text.splitlines(), start=1)
    return re.sub(r"`[^`\n]*`", "", "\n".join(line for n, line in lines if n not in inside))


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_codes_that_are_named_exist(page: Path) -> None:
    codes = {error.code for error in ERRORS}
    assert set(re.findall(r"\bHF\d{3}\b", read(page))) <= codes


@pytest.mark.parametrize("name", holdfast.__all__)
def test_every_public_name_is_told(name: str) -> None:
    told = re.compile(rf"\bhf\.{name}\b")
    assert any(told.search(read(page)) for page in FOR_USERS), f"no page tells of hf.{name}"


def test_names_that_are_told_are_public() -> None:
    told = {name for page in FOR_USERS for name in re.findall(r"\bhf\.(\w+)", read(page))}
    assert told <= set(holdfast.__all__)


def commands(group: click.Group, path: str) -> Iterator[str]:
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from commands(command, f"{path} {name}")
            else:
                yield f"{path} {name}"


@pytest.mark.parametrize("command", [*commands(root, "holdfast")])
def test_every_command_is_told(command: str) -> None:
    """Alone (`holdfast runs list`), or after one of its group (`holdfast db migrate`, `status`)."""
    group, _, name = command.rpartition(" ")
    rows = [line for line in read(DOCS / "cli.md").splitlines() if line.startswith("|")]
    told = [row for row in rows if f"`{group} " in row and re.search(rf"[` ]{name}\b", row)]
    assert told, f"docs/cli.md does not name `{command}`"


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(prose(read(page))):
        target, _, _ = match["target"].partition("#")
        if target and not target.startswith(("https://", "http://")):
            assert (page.parent / target).exists(), f"{names(page)}: {match['target']}"


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_anchors_lead_to_headings(page: Path) -> None:
    for match in LINK.finditer(prose(read(page))):
        target, _, anchor = match["target"].partition("#")
        file = page.parent / target if target else page
        if anchor and file.suffix == ".md" and ":" not in target:
            assert anchor in anchors(read(file)), f"{names(page)}: {match['target']}"


def anchors(text: str) -> set[str]:
    """Return the anchors that a page's headings have where it is shown."""
    code = {n for b in blocks(text) for n in range(b.line, b.line + len(b.code.splitlines()))}
    lines = [line for n, line in enumerate(text.splitlines(), start=1) if n not in code]
    headings = [line.lstrip("#").strip().lower() for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in headings}


def test_every_page_is_found_from_the_first() -> None:
    seen: set[Path] = set()
    to_read = [DOCS / "README.md"]
    while to_read:
        page = to_read.pop()
        if page in seen:
            continue
        seen.add(page)
        links = [match["target"] for match in LINK.finditer(prose(read(page)))]
        local = [
            (page.parent / link.partition("#")[0]).resolve() for link in links if ":" not in link
        ]
        to_read += [path for path in local if path.suffix == ".md" and path.is_file()]
    assert set(DOCS.rglob("*.md")) <= seen


@pytest.mark.parametrize("word", WORD.findall(read(DOCS / "glossary.md")))
def test_words_of_the_glossary_are_used(word: str) -> None:
    used = re.compile(rf"\b{word}", re.IGNORECASE)
    elsewhere = [page for page in PAGES if page.name != "glossary.md"]
    assert any(used.search(read(page)) for page in elsewhere), f"nobody says {word!r}"


def test_the_glossary_is_sorted() -> None:
    words = WORD.findall(read(DOCS / "glossary.md"))
    assert words == sorted(words)
    assert words


def test_promises_name_tests_that_exist() -> None:
    text = read(DOCS / "guarantees.md")
    for file, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text):
        assert f"def {test}(" in read(ROOT / file), f"{file} has no {test}"
    topics = "|".join({case.topic for case in ALL_CASES})
    named = re.findall(rf"`((?:{topics})\.\w+)`", text)
    assert named
    assert set(named) <= {str(case) for case in ALL_CASES}


def test_every_promise_names_what_would_refute_it() -> None:
    promises = re.split(r"^## (?=G\d)", read(DOCS / "guarantees.md"), flags=re.MULTILINE)[1:]
    assert promises
    for promise in promises:
        assert "*Not promised:*" in promise, promise[:40]
        assert "*Would refute it:*" in promise, promise[:40]


def test_the_architecture_fits_its_limit() -> None:
    assert len(read(ROOT / "ARCHITECTURE.md").splitlines()) <= 300


ALL_CASES = conformance.cases("durable", "shared", "rings", "knows_dead")
