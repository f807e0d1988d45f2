"""What a body catches: the user's own exceptions as themselves, all else as StepFailed."""

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from holdfast.app import App
from holdfast.errors import BadDefinition, InvalidValue, NonRetryable, StepFailed, StepTimedOut
from holdfast.fronts.function.step import Step
from holdfast.model.events import Failure
from holdfast.model.failures import decode_failure, encode_failure


class CardDeclined(Exception):
    def __init__(self, code: str, amount: Decimal, *, at: datetime | None = None) -> None:
        self.code, self.amount, self.at = code, amount, at
        super().__init__(f"{code}: {amount}")


class CardExpired(CardDeclined):
    pass


class OutOfStock(NonRetryable):
    def __init__(self, item: str) -> None:
        self.item = item
        super().__init__(f"no {item} left")


class Loud(Exception):
    def __init__(self, word: str) -> None:
        super().__init__(f"{word}!")


class Renamed(Exception):
    def __init__(self, name: str) -> None:
        self.name = f"<{name}>"


class Quiet(Exception):
    def __init__(self, word: str) -> None:
        super().__init__(word)


class Passing(Exception):
    def __init__(self, *args: object, **extra: object) -> None:
        super().__init__(*args)


class Kept(Exception):
    def __init__(self, word: str) -> None:
        self._word = word

    @property
    def word(self) -> str:
        return self._word


@dataclass
class Refused(Exception):
    reason: str
    codes: tuple[int, ...] = ()


def raising(*classes: type[Exception]) -> Step[[], None]:
    @App("shop").step(raises=classes)
    def charge() -> None: ...

    return charge


def crossed(step: Step[[], None], error: Exception, attempts: int = 1) -> Exception:
    failure = step.describe(error, attempts)
    return step.error_of(decode_failure(encode_failure(failure)), "charge#2")


def thrown(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_an_error_nobody_listed_is_step_failed() -> None:
    caught = crossed(raising(), thrown(ValueError("no card")), attempts=3)
    assert type(caught) is StepFailed
    told = "Step charge#2 failed after 3 attempts: ValueError: no card"
    assert str(caught) == f"{told}. {StepFailed.hint} [HF401]"
    assert caught.args == (told,)
    assert (caught.step, caught.type, caught.message) == ("charge#2", "ValueError", "no card")
    assert (caught.attempts, caught.details) == (3, {})
    assert "raise error\nValueError: no card\n" in caught.traceback


def test_a_time_out_is_a_timeout_error() -> None:
    failure = Failure(type="StepTimedOut", message="longer than 5 s")
    caught = raising(TimeoutError).error_of(failure, "charge#1")
    assert isinstance(caught, StepTimedOut)
    assert isinstance(caught, TimeoutError)


def test_a_time_out_stays_one_where_timeout_error_is_listed() -> None:
    error = StepTimedOut(step="charge#2", type="StepTimedOut", message="longer than 5 s")
    assert type(crossed(raising(TimeoutError), error)) is StepTimedOut


def test_a_listed_error_crosses_as_itself_with_its_fields() -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    caught = crossed(raising(CardDeclined), CardDeclined("51", Decimal("9.90"), at=at), attempts=2)
    assert type(caught) is CardDeclined
    assert (caught.code, caught.amount, caught.at) == ("51", Decimal("9.90"), at)
    assert str(caught) == "51: 9.90"
    assert isinstance(caught.__cause__, StepFailed)
    assert (caught.__cause__.type, caught.__cause__.attempts) == ("CardDeclined", 2)


@pytest.mark.parametrize(
    "error",
    [
        OutOfStock("apples"),
        Quiet("hush"),
        Passing("a", 1, None),
        Kept("word"),
        Refused("late", (1, 2)),
        ValueError(),
        ValueError("text", 42),
        KeyError("missing"),
        FileNotFoundError(2, "no such file"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_kinds_of_exceptions_that_cross(error) -> None:
    caught = crossed(raising(type(error)), error)
    assert type(caught) is type(error)
    assert (caught.args, str(caught)) == (error.args, str(error))
    assert {name: value for name, value in vars(caught).items() if name != "__cause__"} == vars(
        error
    )


def test_a_subclass_crosses_as_the_nearest_listed_class() -> None:
    step = raising(Exception_ := LookupError, CardDeclined)
    caught = crossed(step, CardExpired("54", Decimal(1)))
    assert type(caught) is CardDeclined
    assert isinstance(caught.__cause__, StepFailed)
    assert caught.__cause__.type == "CardExpired"
    assert type(crossed(step, KeyError("k"))) is Exception_


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (Loud("hey"), "Loud.args: args: ('hey!',) became ('hey!!',)"),
        (Renamed("ada"), "Renamed.name: name: '<ada>' became '<<ada>>'"),
    ],
    ids=["args", "field"],
)
def test_an_error_that_would_change_is_step_failed_and_says_why(error, why) -> None:
    caught = crossed(raising(type(error)), error)
    assert isinstance(caught, StepFailed)
    assert caught.details["not_raised"].startswith(why)


def test_an_argument_that_cannot_be_stored_is_step_failed_and_says_why() -> None:
    caught = crossed(raising(ValueError), ValueError(object()))
    assert isinstance(caught, StepFailed)
    assert "ValueError.args" in caught.details["not_raised"]


def test_a_class_no_longer_listed_is_step_failed() -> None:
    failure = raising(OutOfStock).describe(OutOfStock("apples"))
    assert type(raising().error_of(failure, "charge#1")) is StepFailed


def test_stored_fields_that_no_longer_fit_are_refused() -> None:
    failure = raising(OutOfStock).describe(OutOfStock("apples"))
    failure = failure._replace(details={**failure.details, "fields": {"thing": "apples"}})
    with pytest.raises(InvalidValue, match=r"OutOfStock\.__init__: fields: TypeError"):
        raising(OutOfStock).error_of(failure, "charge#1")


class HalfKept(Exception):
    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class KeywordLost(Exception):
    def __init__(self, *, message: str) -> None:
        super().__init__(message)


class Bare(Exception):
    def __init__(self, code) -> None:
        self.code = code


class Variadic(Exception):
    def __init__(self, code: str, *more: str) -> None:
        self.code, self.more = code, more


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (
            HalfKept,
            "HalfKept in raises cannot be rebuilt: its __init__ does not keep message. "
            "Write self.message = message.",
        ),
        (
            KeywordLost,
            "KeywordLost in raises cannot be rebuilt: its __init__ does not keep message. "
            "Write self.message = message.",
        ),
        (
            Bare,
            "Bare in raises cannot be rebuilt: code has no annotation. "
            "Write its type, for example code: str.",
        ),
        (
            Variadic,
            "Variadic in raises cannot be rebuilt: its __init__ takes *more. "
            "Name each parameter, with its annotation.",
        ),
        (
            UnicodeDecodeError,
            "UnicodeDecodeError in raises cannot be rebuilt: its arguments are no plain values. "
            "Raise an exception of your own with annotated fields instead.",
        ),
        (
            Exception,
            "Exception in raises is too wide. "
            "List the classes the body catches; all others are StepFailed.",
        ),
        (
            KeyboardInterrupt,
            "KeyboardInterrupt in raises is no Exception class. "
            "List classes derived from Exception.",
        ),
        (
            "CardDeclined",
            "'CardDeclined' in raises is no Exception class. List classes derived from Exception.",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", "") or "text",
)
def test_a_class_that_cannot_be_rebuilt_is_refused_at_registration(listed, message) -> None:
    with pytest.raises(BadDefinition) as refused:
        raising(listed)
    assert str(refused.value) == f"Step 'charge': {message} [HF101]"


def test_a_class_listed_twice_is_refused() -> None:
    with pytest.raises(BadDefinition, match="OutOfStock in raises is listed twice"):
        raising(OutOfStock, OutOfStock)
