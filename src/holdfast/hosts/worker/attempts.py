"""What follows from an attempt: an answer, or another attempt later.

Pure: the policy, the time and the chance come in, the event goes out. Retries belong to the host;
the body sees only the last outcome.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import NamedTuple

from holdfast.errors import StepOutcomeUnknown
from holdfast.hosts.worker.steps import Limit, Result
from holdfast.model.asks import StepAsk
from holdfast.model.durations import LONGEST
from holdfast.model.events import Event, Failure
from holdfast.model.failures import encode_failure, in_a_line, said
from holdfast.model.jobs import NOBODY_KNOWS, Reported
from holdfast.model.options import StepOptions

PLAIN = StepOptions()[1:]
"""What says how a step is attempted that is only retried."""


class Retrying(NamedTuple):
    """A step between two attempts."""

    attempts: int
    at: int
    error: str = ""


class Decided(NamedTuple):
    """The event of an attempt's end, and the wait before the next one if there is one."""

    event: Event
    retrying: Retrying | None = None


def decide(result: Result, raised: BaseException, chance: float, at: int) -> Decided:
    """Turn the end of a failed attempt into an event."""
    ask = result.ask
    error = as_error(raised)
    retrying = _retrying(ask, error, result.number, chance, at)
    failure = describe(ask, error, result.number)
    if retrying is None:
        payload = encode_failure(failure)
        return Decided(
            Event("step.failed", at, ask.key, payload, ask.asked_seq, ask.digest, result.took)
        )
    fields = {
        "attempt": result.number, "retry_at": retrying.at, "type": failure.type,
        "message": failure.message, "traceback": failure.traceback,
    }  # fmt: skip
    payload = json.dumps(fields, ensure_ascii=False).encode()
    event = Event("step.retrying", at, ask.key, payload, ask.asked_seq, ask.digest, result.took)
    return Decided(event, retrying)


def describe(ask: StepAsk, error: BaseException, number: int) -> Failure:
    """Return what is stored of a failed attempt, wherever it failed."""
    if isinstance(error, Reported):
        return error.failure._replace(attempts=number)
    failure: Failure = ask.step.describe(error, number)
    return failure


def unknown(ask: StepAsk) -> Result:
    """Return the end of an attempt that began, and of which nothing more is known."""
    error = StepOutcomeUnknown(step=ask.key, type="StepOutcomeUnknown", message=NOBODY_KNOWS)
    return Result(ask, 1, 0, error=error)


def is_plain(ask: StepAsk) -> bool:
    """Tell whether nothing is to be seen to before a step begins, or while it runs."""
    options: StepOptions = ask.options or ask.step.settings
    return options[1:] == PLAIN and not ask.step.secrets


def limit_of(ask: StepAsk, clock: Callable[[], int]) -> Limit | None:
    """Return what tells an attempt, when it begins, how long it may take; None for no limit."""
    options = options_of(ask)
    total = options.total_timeout
    return limit_until(options, None if total is None else ask.asked_at + total, clock)


def limit_until(options: StepOptions, due: int | None, clock: Callable[[], int]) -> Limit | None:
    """Return the same of an attempt that must be over when it is `due`."""
    timeout = options.timeout
    is_free = timeout is None and due is None and options.heartbeat_timeout is None
    if is_free and options.isolate is None:  # what is isolated is always watched
        return None

    def limit() -> int:
        left = LONGEST if due is None else max(due - clock(), 0)
        return left if timeout is None else min(left, timeout)

    return limit


def _retrying(
    ask: StepAsk, error: BaseException, number: int, chance: float, at: int
) -> Retrying | None:
    options = options_of(ask)
    if options.at_most_once or options.retry.gives_up(error, number):
        return None
    again = at + options.retry.wait(error, number, chance)
    if options.total_timeout is not None and again >= ask.asked_at + options.total_timeout:
        return None
    kind = error.failure.type if isinstance(error, Reported) else type(error).__name__
    return Retrying(number, again, in_a_line(kind, said(error)))


def options_of(ask: StepAsk) -> StepOptions:
    """Return how a step is attempted: as the call says, or its definition."""
    options: StepOptions = ask.options or ask.step.settings
    return options


def as_error(error: BaseException) -> BaseException:
    """A step that cancels itself, or calls itself off in another way, has failed like any other."""
    if isinstance(error, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt):
        return RuntimeError(f"the step raised {type(error).__name__} by itself")
    return error
