"""How a body ended, in terms of the history."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Iterator
from typing import Any, cast

from holdfast.errors import StepFailed
from holdfast.machine.tasks import Task
from holdfast.machine.values import Schema
from holdfast.model.asks import Ended
from holdfast.model.failures import failure_of


def ended_of(task: Task, result: Schema[Any], *, was_cancelled: bool) -> Ended:
    """Return how the body's task ended: its result as bytes, or why there is none.

    CancelledError is a failure unless the run was asked to cancel; a body that swallows the cancel
    and returns is completed.
    """
    try:
        value = task.result()
    except CancelledError as error:
        return Ended("cancelled") if was_cancelled else _failed(error)
    except BaseException as error:  # SystemExit in a body fails the run, no more
        return _failed(error)
    try:
        return Ended("completed", result.cross(value, where="result of the workflow")[0])
    except Exception as error:  # serialisers of the user may raise anything
        return _failed(error)


def _failed(error: BaseException) -> Ended:
    failure = failure_of(error)._replace(cause=tuple(dict.fromkeys(_causes(error, set()))))
    return Ended("failed", failure=failure)


def _causes(error: BaseException | None, seen: set[int]) -> Iterator[str]:
    """Yield the keys of the failed steps behind `error`, nearest first."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    if isinstance(error, StepFailed):
        yield error.step
    if isinstance(error, BaseExceptionGroup):
        for member in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _causes(member, seen)
    yield from _causes(error.__cause__, seen)
    yield from _causes(error.__context__, seen)
