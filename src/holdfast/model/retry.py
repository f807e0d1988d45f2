"""When a failed step is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from holdfast.errors import BadDefinition, NonRetryable, RetryAfter, Unserialisable
from holdfast.model.durations import LONGEST, Duration, microseconds
from holdfast.model.jobs import Reported

ErrorTypes = tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how fast a failed step is tried again.

    The n-th wait is `initial * factor ** (n - 1)`, at most `cap`, times a jitter drawn uniformly
    from 0.5 to 1; `initial` may not be above `cap`. `retry_on` limits retries to these errors;
    `give_up_on` ends them at once.
    """

    max_attempts: int = 5
    initial: Duration = 1.0
    factor: float = 2.0
    cap: Duration = 100.0
    jitter: bool = True
    retry_on: ErrorTypes = (Exception,)
    give_up_on: ErrorTypes = ()

    def __post_init__(self) -> None:
        initial = microseconds(self.initial, field="Retry.initial")
        if initial > microseconds(self.cap, field="Retry.cap"):
            raise BadDefinition(
                what=f"Retry.initial is {self.initial!s:.60}, above Retry.cap, {self.cap!s:.60}",
                hint="No wait is longer than `cap`: raise it too.",
            )
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            raise BadDefinition(
                what=f"Retry.max_attempts is {self.max_attempts!r}",
                hint="Give an int of at least 1; 1 means no second attempt.",
            )
        if type(self.factor) not in (int, float) or not 1 <= self.factor < float("inf"):
            raise BadDefinition(
                what=f"Retry.factor is {self.factor!r}", hint="Give a finite number of at least 1."
            )
        for name in ("retry_on", "give_up_on"):
            _check_types(name, getattr(self, name))

    def gives_up(self, error: BaseException, attempt: int) -> bool:
        """Tell whether `error`, raised by this attempt (counted from 1), is the step's last."""
        if attempt >= self.max_attempts or _is_a(error, (NonRetryable, Unserialisable)):
            return True
        if _is_a(error, self.give_up_on) or (isinstance(error, Reported) and error.final):
            return True
        return not _is_a(error, (*self.retry_on, RetryAfter))

    def wait(self, error: BaseException, attempt: int, chance: float) -> int:
        """Return the microseconds to wait after this attempt; `chance` is from 0 to 1."""
        if isinstance(error, RetryAfter):
            return min(max(error.delay // timedelta(microseconds=1), 0), LONGEST)
        if isinstance(error, Reported) and error.delay is not None:
            return min(max(error.delay, 0), LONGEST)
        cap = microseconds(self.cap, field="Retry.cap")
        initial = microseconds(self.initial, field="Retry.initial")
        try:
            # Not in whole numbers: those of the thousandth attempt would be long ones.
            growth = float(self.factor) ** (attempt - 1) if attempt > 1 else 1
            delay = min(initial * growth, cap)
        except OverflowError:  # surely longer than any cap
            delay = cap if initial else 0
        return round(delay * (0.5 + chance / 2 if self.jitter else 1))


def _is_a(error: BaseException, types: ErrorTypes) -> bool:
    """Tell what an error is, also of one that another worker reported."""
    return isinstance(error, types) or (isinstance(error, Reported) and error.is_a(types))


def _check_types(name: str, types: object) -> None:
    is_good = isinstance(types, tuple) and all(_is_error(each) for each in cast("Any", types))
    if not is_good:
        raise BadDefinition(
            what=f"Retry.{name} is {types!r:.60}",
            hint=f"Give a tuple of exception classes, such as {name}=(ConnectionError,).",
        )


def _is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


NO_RETRY = Retry(max_attempts=1)
