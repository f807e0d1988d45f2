"""Workflows written as one async function: the body itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

from holdfast.errors import BadDefinition, InvalidValue
from holdfast.fronts.function.naming import check_function, check_name, local_names, name_of
from holdfast.fronts.function.step import KEEP, Keep
from holdfast.machine import children, current
from holdfast.model.asks import ChildOptions
from holdfast.model.checks import checked_id
from holdfast.model.durations import Duration, microseconds
from holdfast.model.family import POLICIES, ParentClose
from holdfast.model.limits import placed
from holdfast.model.queues import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    checked_priority,
    checked_queue,
)

if TYPE_CHECKING:
    from holdfast.machine.values import Signature
    from holdfast.model.secrets import Secret

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

    if TYPE_CHECKING:
        # Declared as `async def`, as with steps.
        async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    else:

        def __call__(self, *args, **kwargs):
            """Return a coroutine that gives the result.

            In a body it is that of a child run, whose key is taken here. Elsewhere, as in a unit
            test, the bare function is called, and its steps are plain calls too.
            """
            return _called(self, args, kwargs, self._as_child)

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"

    def options(  # noqa: PLR0913 - each by its name
        self,
        *,
        id: str | None = None,
        on_parent_close: ParentClose = "terminate",
        timeout: Duration | Keep | None = KEEP,
        queue: str | None = None,
        priority: int | None = None,
        queue_key: str | None = None,
        queue_timeout: Duration | None = None,
    ) -> ChildCall[P, R]:
        """Return this workflow with settings for one call in a body: `ship.options(id=...)(order)`.

        What is not given stays as the definition has it; `timeout=None` takes the limit away.
        """
        options = self.child_options(
            id=id, on_parent_close=on_parent_close, timeout=timeout, queue=queue,
            priority=priority, queue_key=queue_key, queue_timeout=queue_timeout,
        )  # fmt: skip
        return ChildCall(self, options)

    def child_options(  # noqa: PLR0913 - each by its name
        self,
        *,
        id: str | None = None,
        on_parent_close: ParentClose = "terminate",
        timeout: Duration | Keep | None = KEEP,
        queue: str | None = None,
        priority: int | None = None,
        queue_key: str | None = None,
        queue_timeout: Duration | None = None,
    ) -> ChildOptions:
        """Return how a child of this workflow is started. Raises on what is no setting."""
        if on_parent_close not in POLICIES:
            listed = ", ".join(repr(each) for each in POLICIES)
            raise BadDefinition(
                what=f"on_parent_close={on_parent_close!r:.60} is no policy",
                hint=f"Give one of {listed}.",
            )
        where = self.queue if queue is None else checked_queue(queue)
        return ChildOptions(
            id=None if id is None else checked_id(id, field="child id"),
            policy=on_parent_close,
            timeout=self.timeout if isinstance(timeout, Keep) else _limit(timeout),
            queue=where,
            priority=self.priority if priority is None else checked_priority(priority, self.name),
            place=placed(where, queue_key, queue_timeout, f"a child of workflow {self.name}"),
        )

    @functools.cached_property
    def _as_child(self) -> ChildOptions:
        return self.child_options()

    @functools.cached_property
    def signature(self) -> Signature:
        """How the input and the result are stored. Made at first use: it imports pydantic."""
        from holdfast.machine.values import Signature

        return Signature.of(self.function, names=self._names)

    @functools.cached_property
    def shape(self) -> bytes:
        """A few bytes that change when the code does. Made at first use: it reads the source."""
        from holdfast.fronts.function.shape import shape_of

        return shape_of(self.sources, self.signature, self.version)

    @property
    def sources(self) -> tuple[Callable[..., Any], ...]:
        """The functions that a run of it depends on: the body, whose helpers are found by name."""
        return (self.function,)

    @property
    def nodes(self) -> tuple[Callable[..., Any], ...]:
        """The functions that do its work, if it is a graph."""
        return ()

    @property
    def plain(self) -> Callable[P, Coroutine[Any, Any, R]]:
        """The bare function: called in a body it is a part of that body."""
        return self.function

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R]:
        """Return this workflow with its input, checked and encoded, for `client.start`."""
        return Bound(self, self.signature.encode(args, kwargs))


class ChildCall(Generic[P, R]):
    """A workflow with settings for one call in a body. Made by `Workflow.options`."""

    __slots__ = ("settings", "workflow")

    def __init__(self, workflow: Workflow[P, R], settings: ChildOptions) -> None:
        self.workflow, self.settings = workflow, settings

    if TYPE_CHECKING:

        async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    else:

        def __call__(self, *args, **kwargs):
            """Return a coroutine that gives the result, as a call of the workflow does."""
            return _called(self.workflow, args, kwargs, self.settings)

    def __repr__(self) -> str:
        return f"<child call of {self.workflow.name}>"


def _called(
    workflow: Workflow[..., R], args: tuple[Any, ...], kwargs: dict[str, Any], options: ChildOptions
) -> Coroutine[Any, Any, R]:
    machine = current()
    if machine is None:
        return _plainly(workflow, args, kwargs)
    if machine.loop.dead:
        machine.loop.refuse()
    return children.call(machine, workflow, workflow.signature.encode(args, kwargs), options)


async def _plainly(self: Workflow[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
    """Call the bare function. `not_bound` finds the workflow in this frame, by the name `self`."""
    return await self.function(*args, **kwargs)


def _limit(timeout: Duration | None) -> int | None:
    return None if timeout is None else microseconds(timeout, field="timeout")


@dataclass(frozen=True, slots=True)
class Bound(Generic[R_co]):
    """A workflow with its input: what a client starts, and the secrets its run is given."""

    workflow: Workflow[..., R_co]
    input: bytes = field(repr=False)
    secrets: Mapping[str, Secret] | None = field(repr=False, default=None)


def must_have_no_secrets(bound: Bound[Any], call: str) -> None:
    """Refuse input whose secrets nobody would keep. Raises `InvalidValue`."""
    if bound.secrets:
        listed = ", ".join(bound.secrets)
        raise InvalidValue(
            where=call, path="secrets", problem=f"the state has {listed}, and they are not stored",
            hint="Use client.start, which keeps them, or a state without them, and give them to "
            "the run with supply_secret.",
        )  # fmt: skip


def not_bound(given: object, call: str) -> BadDefinition:
    """Return the error of a start with something else than a workflow and its input."""
    told = f"{given!r:.60}"
    if iscoroutine(given):  # `order("lamp")`, where `order.bind("lamp")` was meant
        called = given.cr_frame.f_locals.get("self") if given.cr_frame else None
        given.close()
        given, told = called, f"a call of {called!r:.60}" if called else told
    name = getattr(given, "__name__", "order")
    return BadDefinition(
        what=f"{call.rpartition('.')[2]} was given {told}, not a workflow with its input",
        hint=f"Write {call}({'input=' if call == 'run.fork' else ''}{name}.bind(...)).",
    )


class WorkflowDecorator(Protocol):
    """What `@app.workflow(...)` puts on a function."""

    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
