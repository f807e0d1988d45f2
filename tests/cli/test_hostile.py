"""What users' data holds steers no terminal, and breaks no line."""

import asyncio
import io
import json
import sys

import pytest

import holdfast as hf
from holdfast.cli.entry import root
from tests.cli import sample
from tests.cli.conftest import Type

TEXT = "red \x1b[31m, c1 \x9b31m, bidi \u202e, line\u2028sep\x85, tag \U000e0001, del \x7f, 漢字 é"
HARMFUL = set("\x1b\x9b\u202e\u2028\x85\U000e0001\x7f")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def hostile(url: str) -> str:
    async def fill() -> None:
        async with sample.app.open(url) as client:
            await (await client.start(sample.greet.bind(TEXT), id="said")).result()
            with pytest.raises(hf.RunFailed):
                await (await client.start(sample.fails.bind(TEXT), id="raised")).result()

    asyncio.run(fill())
    return url


SHOWING = (
    "runs list", "runs list --json", "runs list --jsonl", "runs show said", "runs show raised",
    "runs show raised --detail", "runs show raised --steps", "runs show raised --json",
    "runs result said", "runs result raised", "runs result raised --wait", "runs why raised",
    "runs why raised --json", "runs watch raised", "runs watch raised --jsonl",
    "runs logs raised", "runs logs raised --json", "runs export said", "runs retry said",
)  # fmt: skip


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("is_person", [False, True])
def test_no_command_prints_what_steers_a_terminal(typed: Type, is_person: bool) -> None:
    for words in SHOWING:
        told = typed(*words.split(), person=is_person)
        said = told.stdout + told.stderr
        if "watch" in words and is_person:  # the picture itself is drawn with escapes
            continue
        assert isinstance(told.exception, SystemExit | None), words
        assert said, words
        assert not HARMFUL & set(said), words


@pytest.mark.usefixtures("hostile")
def test_what_is_escaped_comes_back_equal(typed: Type) -> None:
    assert json.loads(typed("runs", "result", "said").stdout) == TEXT.upper()


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("words", ["runs list --jsonl", "runs watch said --jsonl"])
def test_one_object_a_line_also_at_a_terminal(
    typed: Type, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    piped = typed(*words.split()).stdout
    monkeypatch.setattr(sys, "stdout", Screen())
    root.main(words.split(), prog_name="holdfast", standalone_mode=False)
    assert isinstance(sys.stdout, Screen)
    assert sys.stdout.getvalue() == piped
    assert all(isinstance(json.loads(line), dict) for line in piped.splitlines())
