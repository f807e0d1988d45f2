"""Lengths of time: users give seconds or timedelta, the engine keeps whole microseconds."""

from datetime import timedelta

import pytest

from holdfast.errors import InvalidDuration
from holdfast.model.durations import LONGEST, microseconds


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0, 0),
        (1, 1_000_000),
        (0.5, 500_000),
        (1e-6, 1),
        (4e-7, 0),
        (timedelta(0), 0),
        (timedelta(microseconds=1), 1),
        (timedelta(days=2), 2 * 24 * 3600 * 1_000_000),
        (timedelta(days=100 * 366), LONGEST),
    ],
)
def test_a_duration_becomes_microseconds(given: float | timedelta, expected: int) -> None:
    assert microseconds(given, field="x") == expected


@pytest.mark.parametrize(
    "given",
    [
        -1,
        -1e-9,
        float("nan"),
        float("inf"),
        -float("inf"),
        1e300,
        timedelta(seconds=-1),
        timedelta(days=100 * 366, microseconds=1),
        timedelta.max,
        True,
        False,
        "1",
        None,
        1j,
        [1],
    ],
)
def test_what_is_no_duration_is_refused(given) -> None:
    with pytest.raises(InvalidDuration, match="sleep="):
        microseconds(given, field="sleep")
