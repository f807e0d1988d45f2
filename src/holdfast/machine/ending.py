"""How a body ended, in terms of the history."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from holdfast.errors import ChildFailed, CompensationFailed, ExecutionError, StepFailed
from holdfast.machine.tasks import Task
from holdfast.machine.values import Schema
from holdfast.model.asks import Ended
from holdfast.model.failures import failure_of, not_compensated

if TYPE_CHECKING:
    from holdfast.machine.machine import Machine


class Continued(BaseException):
    """Ends a body that begins again with other input. No Exception: nobody should stop it."""

    def __init__(self, input: bytes) -> None:
        self.input = input
        super().__init__("the run continues as new")


def ended_of(task: Task, machine: Machine) -> Ended:
    """Return how the body's task ended: its result as bytes, or why there is none.

    CancelledError is a failure unless the run was asked to cancel; a body that swallows the cancel
    and returns is completed, but one that would continue is cancelled: the next generation knew
    nothing of it. What is owed to a saga outweighs all of it.
    """
    ended = _ended_of(task, machine.signature.result, is_cancelled=bool(machine.cancelled_by))
    return unless_owed(ended, machine)


def unless_owed(ended: Ended, machine: Machine) -> Ended:
    """Return how the run ends, if it would end so but for what its sagas still owe."""
    owed = machine.sagas.pending() if machine.sagas is not None else ()
    if not owed:
        return ended
    return Ended("compensation_failed", failure=not_compensated(ended, machine.cancelled_by, owed))


def _ended_of(task: Task, result: Schema[Any], *, is_cancelled: bool) -> Ended:
    try:
        value = task.result()
    except BaseException as raised:  # SystemExit in a body fails the run, no more
        error = raised
        while isinstance(error, CompensationFailed):  # once all is undone, what led to it counts
            error = error.original
        if isinstance(error, CancelledError | Continued) and is_cancelled:
            return Ended("cancelled")
        if isinstance(error, Continued):
            return Ended("continued", error.input)
        return _failed(error)
    try:
        return Ended("completed", result.cross(value, where="result of the workflow")[0])
    except Exception as error:  # serialisers of the user may raise anything
        return _failed(error)


def _failed(error: BaseException) -> Ended:
    details = error.details if isinstance(error, ExecutionError) else None
    causes = tuple(dict.fromkeys(_causes(error, set())))
    return Ended("failed", failure=failure_of(error, details=details)._replace(cause=causes))


def _causes(error: BaseException | None, seen: set[int]) -> Iterator[str]:
    """Yield the keys of the failed steps behind `error`, nearest first."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    if isinstance(error, StepFailed):
        yield error.step
    if isinstance(error, ChildFailed):
        yield error.key
    if isinstance(error, BaseExceptionGroup):
        for member in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _causes(member, seen)
    yield from _causes(error.__cause__, seen)
    yield from _causes(error.__context__, seen)
