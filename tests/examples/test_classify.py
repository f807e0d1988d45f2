"""The rules of the classification example: how replies are read, bounded and put together."""

import asyncio
import importlib
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "classify"


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("rules")


@pytest.fixture
def marking(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("marking")


def page(rules: Any, *markings: tuple[str, float, bool], clarity: float = 0.5, **more: Any) -> Any:
    found = [
        rules.Marking(text=text, location="header", legibility=legibility, faded=faded)
        for text, legibility, faded in markings
    ]
    return rules.Detection(markings_found=found, clarity_score=clarity, **more)


@pytest.mark.parametrize(
    "text",
    [
        '  {"overall_score": 7}\n',
        'Sure!\n```json\n{"overall_score": 7}\n```\n```json\n{"overall_score": 0}\n```',
        '```\n{"overall_score": 7}\n```',
    ],
)
def test_a_reply_is_read_as_it_is_or_from_its_first_fence_and_bounded(
    rules: Any, text: str
) -> None:
    assert rules.parsed(text, rules.Confidence).overall_score == 1.0


@pytest.mark.parametrize("text", ["", "no", "[]", '{"overall_score": "high"}', "```json\n{\n```"])
def test_a_reply_that_is_something_else_is_refused(rules: Any, text: str) -> None:
    with pytest.raises(rules.ParseFailed, match="no Confidence in"):
        rules.parsed(text, rules.Confidence)


def test_every_share_and_filter_is_kept_in_its_bounds(rules: Any) -> None:
    asked = rules.Filter(brightness=900, contrast=-900, saturation=-1)
    assert (asked.brightness, asked.contrast, asked.saturation) == (200, -100, 0)
    assert page(rules, ("A", -3.0, False), clarity=2).clarity_score == 1.0
    assert page(rules, ("A", -3.0, False)).markings_found[0].legibility == 0.0


@pytest.mark.parametrize(
    ("suggested", "legibility", "needs"),
    [(True, 0.39, True), (True, 0.4, False), (False, 0.1, False)],
)
def test_a_page_is_looked_at_again_if_it_is_dim_and_a_filter_may_help(
    rules: Any, suggested: bool, legibility: float, needs: bool
) -> None:
    more = {"filter_suggestion": rules.Filter()} if suggested else {}
    assert rules.needs_enhancement(page(rules, ("A", legibility, False), **more)) is needs


def test_a_second_look_counts_only_where_it_saw_more(rules: Any) -> None:
    before = page(
        rules, ("DIM", 0.2, False), ("FADED", 0.6, True), ("GOOD", 0.8, False),
        ("LOST", 0.3, True), clarity=0.6, filter_suggestion=rules.Filter(), page_number=3,
        original_image_id="a",
    )  # fmt: skip
    after = page(
        rules, ("NEW", 0.5, False), ("GOOD", 0.9, False), ("LOST", 0.3, False),
        ("FADED", 0.7, False), ("DIM", 0.9, False), clarity=0.4, enhanced_image_id="b",
    )  # fmt: skip
    found = rules.merged(before, after)
    seen = [(each.text, each.legibility) for each in found.markings_found]
    assert seen == [("DIM", 0.9), ("FADED", 0.7), ("GOOD", 0.8), ("LOST", 0.3), ("NEW", 0.5)]
    assert (found.clarity_score, found.filter_suggestion) == (0.6, None)
    assert (found.page_number, found.original_image_id, found.enhanced_image_id) == (3, "a", "b")


@pytest.mark.parametrize(
    ("score", "said", "kept"),
    [
        (0.9, "maybe", "ACCEPT"),
        (0.7, "", "REVIEW"),
        (0.69, "yes", "REJECT"),
        (0.1, "ACCEPT", "ACCEPT"),
    ],
)
def test_a_recommendation_is_kept_or_derived(
    rules: Any, score: float, said: str, kept: str
) -> None:
    given = rules.Confidence(overall_score=score, recommendation=said)
    assert rules.recommended(given).recommendation == kept


@pytest.mark.parametrize("params", [{}, {"document_id": 7}, {"document_id": ""}])
def test_params_without_a_document_are_refused_before_a_run(marking: Any, params: Any) -> None:
    with pytest.raises(ValueError, match="names no document"):
        marking.extract_document_id(params)


@pytest.mark.parametrize(
    ("document", "problem"), [("none", "there is no document"), ("blank", "has no pages")]
)
def test_a_document_that_cannot_be_read_fails_its_run(
    marking: Any, document: str, problem: str
) -> None:
    async def story() -> None:
        async with marking.app.open("memory://") as client:
            run = await client.start(marking.graph.bind(marking.Paper(document)))
            with pytest.raises(hf.RunFailed, match=f"at node init: .*{problem}"):
                await run.result()

    asyncio.run(story())


def test_the_token_is_in_nothing_that_is_stored(marking: Any, tmp_path: Path) -> None:
    async def story() -> None:
        ring = hf.KeyRing({"one": hf.KeyRing.new_key()})
        async with marking.app.open(f"sqlite:///{tmp_path / 'm.db'}", keys=ring) as client:
            secrets = {"token": hf.Secret(marking.model.TOKEN)}
            run = await client.start(marking.graph.bind(marking.Paper("treaty")), secrets=secrets)
            assert (await run.result()).enhancement_applied
            assert marking.model.TOKEN not in repr(await run.history())

    asyncio.run(story())
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert marking.model.TOKEN.encode() not in kept
