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


def test_a_code_of_an_error_of_the_users_changes_nothing() -> None:
    """Its arguments may be anything, a request with its headers for one."""

    class Refused(Exception):
        code = 404

        def __str__(self) -> str:
            return f"{self.code}, no such order"

    assert failure_of(Refused({"Authorization": "Bearer 1234"})).message == "404, no such order"


def test_an_error_that_cannot_be_asked_is_described() -> None:
    class Odd(Exception):
        @property
        def code(self) -> int:
            raise AttributeError("too early")

        def __str__(self) -> str:
            raise RuntimeError("no text")

    failure = failure_of(Odd("x"))
    assert failure[:2] == (Odd.__qualname__, "(its message cannot be read: RuntimeError)")


class Untrue(Exception):
    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


class Odd(SyntaxError):
    text = 5  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [Untrue, Odd])
def test_an_error_whose_traceback_cannot_be_written_is_described(kind: type[Exception]) -> None:
    def fail() -> None:
        raise kind("odd")

    with pytest.raises(kind) as caught:
        fail()
    failure = failure_of(caught.value)
    assert failure[:2] == (kind.__qualname__, "odd")
    assert "in fail" in failure.traceback


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


@pytest.mark.parametrize(("text", "kept"), [("a\x00b", "a\\x00b"), ("\ud800", "\\ud800")])
def test_a_reason_holds_nothing_that_no_store_keeps(text: str, kept: str) -> None:
    assert in_a_line("E", text) == f"E: {kept}"
