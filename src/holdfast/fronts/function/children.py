"""Child runs in a body: start one, and talk to it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from holdfast.fronts.function.step import KEEP, Keep
from holdfast.fronts.function.workflow import Bound, not_bound
from holdfast.machine import children
from holdfast.machine.children import Known
from holdfast.machine.machine import Machine
from holdfast.machine.primitives import here
from holdfast.machine.signals import Signal
from holdfast.machine.tasks import transparent
from holdfast.model.checks import checked_reason
from holdfast.model.durations import Duration
from holdfast.model.family import ParentClose

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class Child(Generic[R_co]):
    """A child run, as the body of its parent sees it. Made by `hf.start_child`."""

    __slots__ = ("_known", "_machine")

    def __init__(self, machine: Machine, known: Known) -> None:
        self._machine, self._known = machine, known

    @property
    def id(self) -> str:
        """The id of the child's run."""
        return self._known.id

    @transparent
    async def result(self) -> R_co:
        """Return what the child returned, when it has. Raises `ChildFailed`.

        Whoever gives up waiting leaves the child alone: call `cancel` to have it stop.
        """
        result: R_co = await self._known.result(self._machine)
        return result

    def cancel(self, reason: str = "") -> None:
        """Ask the child to stop; its body may clean up. It is asked with the commit of this turn.

        A child that has ended stays as it is.
        """
        machine = here("child.cancel()")
        children.cancel(machine, self._known, checked_reason(reason, "cancel"))

    def signal(self, signal: Signal[T], value: T) -> None:
        """Send the child a signal, once, with the commit of this turn.

        A child that has ended does not get it.
        """
        machine = here("child.signal()")
        payload, _ = signal.schema.cross(value, where=f"signal {signal.name}")
        children.signal(machine, self._known, signal.name, payload)

    def __repr__(self) -> str:
        return f"<child {self.id}>"


def start_child(  # noqa: PLR0913 - each by its name
    bound: Bound[R],
    *,
    id: str | None = None,
    on_parent_close: ParentClose = "terminate",
    timeout: Duration | Keep | None = KEEP,
    queue: str | None = None,
    priority: int | None = None,
    queue_key: str | None = None,
    queue_timeout: Duration | None = None,
) -> Coroutine[Any, Any, Child[R]]:
    """Start a child run and return a handle on it.

    It is stored in the commit of this turn, before anything starts that the body asks for after it.
    `on_parent_close` says what becomes of it if it is open when this run closes: "terminate" it,
    "cancel" it, or "abandon" it, so that it goes on alone. Raises `ChildFailed` if the id is taken
    by other work.
    """
    machine = here("hf.start_child()")
    if not isinstance(bound, Bound):
        raise not_bound(bound, "hf.start_child")
    options = bound.workflow.child_options(
        id=id, on_parent_close=on_parent_close, timeout=timeout, queue=queue, priority=priority,
        queue_key=queue_key, queue_timeout=queue_timeout,
    )  # fmt: skip

    def made(known: Known) -> Child[R]:
        return Child(machine, known)

    return children.start(machine, bound.workflow, bound.input, options, made)
