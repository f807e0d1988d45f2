"""Times, lengths of time, and tables: the small parts of what a person reads."""

import pytest

from holdfast.cli.failures import frames, own_frame
from holdfast.cli.runs.show import WORDS
from holdfast.cli.terminal import clean, cut, width_of
from holdfast.cli.words import ago, ahead, count, iso, span
from holdfast.model.events import Event

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "0 ms"), (400, "<1 ms"), (246_000, "246 ms"), (12_140_000, "12.1 s"),
        (59_990_000, "0m 59s"), (242 * SECOND, "4m 02s"), (8_040 * SECOND, "2h 14m"),
        (277_200 * SECOND, "3d 5h"), (-5, "0 ms"),
    ],
)  # fmt: skip
def test_a_span_is_short(length: int, text: str) -> None:
    assert span(length) == text


def test_times_are_told_from_now() -> None:
    now = 1_000 * 86_400 * SECOND
    assert ago(now, now) == "just now"
    assert [ago(now - n * SECOND, now) for n in (12, 250, 7_300, 200_000)] == [
        "12s ago", "4m ago", "2h ago", "2d ago",
    ]  # fmt: skip
    assert [ahead(now + n * SECOND, now) for n in (0, 12, 250)] == ["now", "in 12s", "in 4m"]
    assert iso(1_500_000) == "1970-01-01T00:00:01.500000Z"
    assert iso(None) is None
    assert [count(n, "step") for n in (0, 1, 1_200)] == ["0 steps", "1 step", "1,200 steps"]


def test_wide_letters_count_twice_and_harmful_ones_go() -> None:
    assert width_of("注文") == 4
    assert cut("注文注文", 5) == "注文…"
    assert cut("abc", 3) == "abc"
    assert clean("a\x1b[31m\tb\n") == "a·[31m b "


def test_the_own_frame_is_neither_ours_nor_a_librarys() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/x/site-packages/holdfast/hosts/worker/steps.py", line 9, in _call\n'
        "    return await call()\n"
        '  File "/home/me/shop.py", line 88, in publish\n'
        "    resp = post(url)\n"
        '  File "/usr/lib/python3.12/json/__init__.py", line 1, in loads\n'
        "    raise\n"
        "ValueError: no\n"
    )
    assert [frame.line for frame in frames(text)] == [9, 88, 1]
    found = own_frame(text)
    assert found is not None
    assert found.place == "/home/me/shop.py:88 in publish"


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"from":"a","to":"b"}', "a -> b"),
        (b'{"from":"a","fork":["b","c"],"join":"d"}', "a -> b, c"),
        (b'{"shape":"0f","state":{}}', "graph drawn"),
    ],
)
def test_a_decision_is_told_in_a_few_words(payload: bytes, text: str) -> None:
    assert WORDS["note.decided"](Event("note.decided", 0, payload=payload)) == text
