"""What people are asked, and how they answer, at the command line."""

import asyncio
import json
from typing import Literal

import pytest

import holdfast as hf
from tests.cli.conftest import Type
from tests.engine.places import status_of

app = hf.App("asking")
TOKENS: list[str] = []


@app.workflow
async def ships() -> bool:
    return await hf.ask("Ship it?", to="ada", details={"n": 1}, timeout=86_400)


@app.workflow
async def chooses() -> list[str]:
    both = hf.ask("Which?", Literal["red", "blue"]), hf.ask("Why?", str, to=["ada", "bob"])
    return list(await asyncio.gather(*both))


@app.step(completes_later=True)
async def convert() -> int:
    TOKENS[:] = [hf.completion_token()]
    hf.complete_later()


@app.workflow
async def converts() -> int:
    return await convert()


@pytest.fixture
def asked(url: str) -> None:
    async def fill() -> None:
        async with app.open(url) as client:
            for flow in (ships, chooses, converts):
                run = await client.start(flow.bind(), id=flow.name)
                await status_of(run, "waiting")

    asyncio.run(fill())


def result(url: str, run: str) -> object:
    async def wait() -> object:
        async with app.open(url) as client:
            return await client.get(run).result()

    return asyncio.run(wait())


@pytest.mark.usefixtures("asked")
def test_questions_are_listed_the_oldest_first(typed: Type) -> None:
    lines = typed("questions").stdout.splitlines()
    assert lines == [
        "ships\task#1\tada\tShip it?",
        "chooses\task#1\t\tWhich?",
        "chooses\task#2\tada,bob\tWhy?",
    ]
    assert typed("questions", "--to", "bob").stdout.splitlines() == lines[2:]
    assert typed("questions", "--run", "ships").stdout.splitlines() == lines[:1]
    page = json.loads(typed("questions", "--limit", "1", "--json").stdout)
    [first] = page["questions"]
    assert (first["run"], first["key"], first["to"]) == ("ships", "ask#1", ["ada"])
    assert (first["details"], first["schema"]) == ({"n": 1}, {"type": "boolean"})
    again = typed("questions", "--limit", "5", "--after", page["next"])
    assert again.stdout.splitlines() == lines[1:]
    shown = typed("questions", person=True).stdout
    assert "3 questions · answer: holdfast approve ships 'ask#1' --yes" in shown
    assert 'Ship it? {"n": 1}' in shown


def test_no_questions_are_said_to_be_none(url: str, typed: Type) -> None:
    assert typed("db", "migrate").exit_code == 0
    assert typed("questions", person=True).stdout == "No question is open.\n"
    assert typed("questions").stdout == ""


@pytest.mark.usefixtures("asked")
def test_a_yes_is_enough(url: str, typed: Type) -> None:
    done = typed("approve", "ships", "--by", "ada")
    assert (done.exit_code, done.stdout) == (0, "ships\n")
    assert "ask#1 is answered" in done.stderr
    again = typed("approve", "ships", "ask#1", "--no", "--by", "bob")
    assert again.exit_code == 2
    assert "takes no answer to ask#1: it asks no such question" in again.stderr
    assert result(url, "ships") is True


@pytest.mark.usefixtures("asked")
def test_a_no_and_who_says_it(url: str, typed: Type) -> None:
    assert "✓ ships  ask#1 is answered" in typed("approve", "ships", "--no", person=True).stdout
    assert result(url, "ships") is False


@pytest.mark.usefixtures("asked")
def test_other_answers_are_json_that_fits(url: str, typed: Type) -> None:
    several = typed("approve", "chooses", "--answer", '"red"')
    assert several.exit_code == 2
    assert "2 open questions. Name one of them:\n  ask#1  Which?\n  ask#2  Why?" in several.stderr
    for words, told in (
        (("--answer", '"green"'), 'is not one of "red", "blue"'),
        (("--answer", "red"), "is no JSON"),
        (("--yes",), "is not one of"),
        ((), 'Give one of "red", "blue", as --answer JSON'),
        (("--answer", "1", "--yes"), "Give --answer, or one of --yes and --no"),
    ):
        refused = typed("approve", "chooses", "ask#1", *words)
        assert refused.exit_code == 2
        assert told in refused.stderr
    assert typed("approve", "chooses", "ask#1", "--answer", '"red"').exit_code == 0
    assert typed("approve", "chooses", "ask#2", "--answer", '"so"').exit_code == 0
    assert typed("approve", "nobody").exit_code == 3
    assert result(url, "chooses") == ["red", "so"]


@pytest.mark.usefixtures("asked")
def test_why_says_what_is_asked_and_what_to_type(typed: Type) -> None:
    told = typed("runs", "why", "ships", person=True).stdout
    assert "It asked ada just now, until " in told or "It asked ada " in told
    assert ": Ship it?" in told
    assert "holdfast approve ships 'ask#1' --yes" in told
    told = typed("runs", "why", "chooses").stdout
    assert "It has waited for an answer" in told
    assert "It asked ada, bob" in told
    assert "next\tholdfast approve chooses 'ask#2' --answer JSON" in told
    told = typed("runs", "why", "converts").stdout
    assert "Step convert#1 is completed from outside." in told
    assert f"next\tholdfast steps complete {TOKENS[0]} JSON" in told


@pytest.mark.usefixtures("asked")
def test_show_tells_the_story(url: str, typed: Type) -> None:
    typed("approve", "ships", "--by", "ada")
    result(url, "ships")
    shown = typed("runs", "show", "ships", person=True).stdout
    assert "? ask#1" in shown
    assert "Ship it? · ada" in shown
    assert "true · ada" in shown
    assert "‖ convert#1 is completed later" in typed("runs", "show", "converts", person=True).stdout
    assert typed("runs", "watch", "ships").exit_code == 0


@pytest.mark.usefixtures("asked")
def test_a_step_is_completed_by_its_token(url: str, typed: Type) -> None:
    token = TOKENS[0]
    for words, told in (
        (("complete", "nonsense", "1"), "is none that a step was given"),
        (("complete", token, "x"), "is no JSON"),
        (("complete", token, '"x"'), "is not a whole number"),
        (("fail", token, "not a name"), "is no name of a class"),
    ):
        refused = typed("steps", *words)
        assert refused.exit_code == 2
        assert told in refused.stderr
    done = typed("steps", "complete", token, "42", "--by", "converter")
    assert (done.exit_code, done.stdout) == (0, "converts\n")
    assert "convert#1 of converts is complete" in done.stderr
    assert result(url, "converts") == 42


@pytest.mark.usefixtures("asked")
def test_a_step_is_failed_by_its_token(url: str, typed: Type) -> None:
    done = typed("steps", "fail", TOKENS[0], "Broken", "for good", "--no-retry")
    assert done.exit_code == 0
    with pytest.raises(hf.RunFailed, match="Broken: for good"):
        result(url, "converts")
