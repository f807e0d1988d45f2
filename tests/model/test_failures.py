"""Failures come back as they were stored, and always can be stored."""

import pytest

from holdfast.errors import NonRetryable
from holdfast.model.events import Failure
from holdfast.model.failures import (
    MESSAGE_LIMIT,
    REASON_LIMIT,
    TRACEBACK_LIMIT,
    decode_failure,
    encode_failure,
    failure_of,
    in_a_line,
)


@pytest.mark.parametrize(
    "failure",
    [
        Failure("E", "m"),
        Failure("", ""),
        Failure("E", "größe 💾", attempts=3, traceback="line\n", details={"a": [1, None]}),
        Failure("E", "m", cause=("charge#1", "ship[3]/pack#1")),
    ],
)
def test_a_failure_comes_back_equal(failure: Failure) -> None:
    assert decode_failure(encode_failure(failure)) == failure


def test_nothing_stored_is_an_empty_failure() -> None:
    assert decode_failure(None) == decode_failure(b"") == Failure("", "")


def test_an_error_is_described() -> None:
    def fail() -> None:
        raise ValueError("no such card")

    with pytest.raises(ValueError, match="no such card") as caught:
        fail()
    failure = failure_of(caught.value, attempts=2, details={"card": 1})
    assert failure[:3] == ("ValueError", "no such card", 2)
    assert "in fail" in failure.traceback
    assert failure.details == {"card": 1}


def test_our_own_errors_do_not_repeat_their_code() -> None:
    assert failure_of(NonRetryable("declined")).message == "declined"


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "x" * 1_000_000])
def test_what_no_store_keeps_is_made_printable(text: str) -> None:
    failure = failure_of(RuntimeError(text))
    assert len(failure.message) <= MESSAGE_LIMIT
    assert len(failure.traceback) <= TRACEBACK_LIMIT
    assert b"\x00" not in encode_failure(failure)
    assert decode_failure(encode_failure(failure)) == failure


def test_a_reason_that_is_cut_shows_it() -> None:
    assert in_a_line("E", "m") == "E: m"
    longest = "m" * (REASON_LIMIT - len("E: "))
    assert in_a_line("E", longest) == f"E: {longest}"
    assert in_a_line("E", f"{longest}m") == f"E: {longest[:-1]}…"
