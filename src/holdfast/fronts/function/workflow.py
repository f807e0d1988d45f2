"""Workflows written as one async function: the body itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

from holdfast.errors import BadDefinition
from holdfast.fronts.function.naming import check_function, check_name, local_names, name_of
from holdfast.machine import current
from holdfast.model.durations import Duration, microseconds
from holdfast.model.queues import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    checked_priority,
    checked_queue,
)

if TYPE_CHECKING:
    from holdfast.machine.values import Signature

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Workflow(Generic[P, R]):
    """A named, versioned definition whose body is `function`."""

    __name__: str
    name: str
    version: str
    timeout: int | None
    queue: str
    priority: int
    function: Callable[P, Coroutine[Any, Any, R]]

    def __init__(
        self,
        function: Callable[P, Coroutine[Any, Any, R]],
        *,
        name: str | None = None,
        version: str = "",
        timeout: Duration | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = DEFAULT_PRIORITY,
    ) -> None:
        check_function(function, "workflow")
        functools.update_wrapper(self, function, updated=())
        self.name = name_of(function, "workflow", name)
        if version:
            check_name(version, "Version")
        self.version = version
        self.timeout = None if timeout is None else microseconds(timeout, field="timeout")
        self.queue = checked_queue(queue)
        self.priority = checked_priority(priority, f"workflow {self.name}")
        self.function = function
        self._names = local_names(function)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the bare function, for unit tests: its steps are plain calls too."""
        if current() is not None:
            raise BadDefinition(
                what=f"Workflow {self.name!r} was called in the body of a workflow",
                hint=(
                    "Child runs come with a later release. To run it as a part of this body, "
                    f"write `await {self.function.__name__}.plain(...)`."
                ),
            )
        return await self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"

    @functools.cached_property
    def signature(self) -> Signature:
        """How the input and the result are stored. Made at first use: it imports pydantic."""
        from holdfast.machine.values import Signature

        return Signature.of(self.function, names=self._names)

    @functools.cached_property
    def shape(self) -> bytes:
        """A few bytes that change when the code does. Made at first use: it reads the source."""
        from holdfast.fronts.function.shape import shape_of

        return shape_of(self.function, self.signature, self.version)

    @property
    def plain(self) -> Callable[P, Coroutine[Any, Any, R]]:
        """The bare function: called in a body it is a part of that body."""
        return self.function

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R]:
        """Return this workflow with its input, checked and encoded, for `client.start`."""
        return Bound(self, self.signature.encode(args, kwargs))


@dataclass(frozen=True, slots=True)
class Bound(Generic[R_co]):
    """A workflow with its input: what a client starts."""

    workflow: Workflow[..., R_co]
    input: bytes = field(repr=False)


class WorkflowDecorator(Protocol):
    """What `@app.workflow(...)` puts on a function."""

    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
