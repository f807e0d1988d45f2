"""Retry: how often, how fast, and when it is over."""

from datetime import timedelta

import pytest

from holdfast.errors import (
    BadDefinition,
    InvalidDuration,
    NonRetryable,
    RetryAfter,
    Unserialisable,
)
from holdfast.model.durations import LONGEST
from holdfast.model.retry import NO_RETRY, Retry

SECOND = 1_000_000
BOOM = RuntimeError("boom")


class Declined(NonRetryable):
    pass


@pytest.mark.parametrize(
    ("retry", "error", "attempt", "expected"),
    [
        (Retry(), BOOM, 1, False),
        (Retry(), BOOM, 4, False),
        (Retry(), BOOM, 5, True),
        (Retry(), BOOM, 6, True),
        (NO_RETRY, BOOM, 1, True),
        (Retry(), NonRetryable("no"), 1, True),
        (Retry(), Declined("no"), 1, True),
        (Retry(), Unserialisable(where="w", path="p", found="f", wanted="w", hint="h"), 1, True),
        (Retry(give_up_on=(RuntimeError,)), BOOM, 1, True),
        (Retry(give_up_on=(ValueError,)), BOOM, 1, False),
        (Retry(retry_on=(ValueError,)), BOOM, 1, True),
        (Retry(retry_on=(ValueError,)), ValueError(), 1, False),
        (Retry(retry_on=(OSError,)), ConnectionResetError(), 1, False),
        (Retry(retry_on=(OSError,), give_up_on=(FileNotFoundError,)), FileNotFoundError(), 1, True),
        (Retry(retry_on=(ValueError,)), RetryAfter(1), 1, False),
        (Retry(retry_on=(ValueError,)), RetryAfter(1), 5, True),
        (Retry(give_up_on=(RetryAfter,)), RetryAfter(1), 1, True),
        (Retry(), KeyboardInterrupt(), 1, True),
        (Retry(), TimeoutError(), 1, False),
    ],
)
def test_when_it_gives_up(
    retry: Retry, error: BaseException, attempt: int, *, expected: bool
) -> None:
    assert retry.gives_up(error, attempt) is expected


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [(1, 1), (2, 2), (3, 4), (4, 8), (7, 64), (8, 100), (9, 100), (1_000, 100), (10**9, 100)],
)
def test_the_wait_doubles_up_to_its_cap(attempt: int, expected: int) -> None:
    assert Retry(jitter=False).wait(BOOM, attempt, chance=0.3) == expected * SECOND


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_jitter_takes_up_to_a_half(chance: float, expected: float) -> None:
    assert Retry().wait(BOOM, 1, chance) == expected * SECOND


@pytest.mark.parametrize(
    ("retry", "attempt", "expected"),
    [
        (Retry(initial=0.001, jitter=False), 1, 1_000),
        (Retry(initial=timedelta(minutes=1), cap=90, jitter=False), 2, 90 * SECOND),
        (Retry(initial=0, jitter=False), 9, 0),
        (Retry(factor=1, jitter=False), 9, SECOND),
        (Retry(factor=1e300, jitter=False), 2, 100 * SECOND),
        (Retry(factor=1.5, jitter=False), 3, 2_250_000),
        (Retry(factor=1.01, jitter=False), 201, round(1.01**200 * SECOND)),
        (Retry(factor=1.01, jitter=False), 500, 100 * SECOND),
        (Retry(initial=0, factor=1e300, jitter=False), 3, 0),
        (Retry(factor=10**400, jitter=False), 2, 100 * SECOND),
    ],
)
def test_settings_shape_the_wait(retry: Retry, attempt: int, expected: int) -> None:
    assert retry.wait(BOOM, attempt, chance=0) == expected


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (3, 3 * SECOND),
        (timedelta(hours=1), 3600 * SECOND),
        (-5, 0),
        (timedelta(days=200 * 366), LONGEST),
    ],
)
def test_a_step_may_say_how_long_to_wait(delay: float | timedelta, expected: int) -> None:
    assert Retry().wait(RetryAfter(delay), 3, chance=0) == expected


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"max_attempts": 0}, BadDefinition),
        ({"max_attempts": -1}, BadDefinition),
        ({"factor": 0.9}, BadDefinition),
        ({"factor": float("inf")}, BadDefinition),
        ({"factor": float("nan")}, BadDefinition),
        ({"initial": -1}, InvalidDuration),
        ({"cap": float("nan")}, InvalidDuration),
        ({"cap": timedelta.max}, InvalidDuration),
    ],
)
def test_a_wrong_setting_is_refused_at_once(fields, error: type[Exception]) -> None:
    with pytest.raises(error):
        Retry(**fields)
