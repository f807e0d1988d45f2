"""Tasks of a body: where they stand in the tree, in which order they came, and how they end.

A task has a *path*, the prefix of every key its code takes: the parent's path, the coroutine's
name, and a count of such children. The name a user gives a task never counts.

Some tasks are no branch of the user's making and are *transparent*: they share the path and the
counters of the task that made them. These are the tasks asyncio makes around a step call or a
primitive of ours, whose key was taken at the call; and the one that `asyncio.wait_for` makes in
Python 3.11 but not in 3.12, which would otherwise rename keys on an upgrade.

Sets of tasks are walked by TaskGroup and `asyncio.wait`, in the order of hashes. An address would
make that order differ between two runs of one history, so a task's hash is its ordinal. Only while
asyncio registers it in its process-wide set of weak references, which keep the hash they first
saw, is the hash the address: the first tasks of a thousand machines would collide there.

Futures are hashed by the order in which that is first asked for, what `asyncio.gather` returns too:
`asyncio.wait` may be given some.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import CancelledError, Future, tasks
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import suppress
from contextvars import Context
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast.errors import BadDefinition

if TYPE_CHECKING:
    from holdfast.machine.spin import Spinner

Coro = Coroutine[Any, Any, Any] | Generator[Any, Any, Any]
F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])

CLOSE_ATTEMPTS = 100
_TRANSPARENT: set[CodeType] = set()
_UNDYING: list[Any] = []


def transparent(function: F) -> F:
    """Mark an async function whose coroutines never make a branch of their own."""
    _TRANSPARENT.add(function.__code__)
    return function


def _codes(*functions: Any) -> frozenset[CodeType]:
    """Return the code of these functions and of the functions written inside them."""
    found: list[CodeType] = [function.__code__ for function in functions]
    for code in found:
        found.extend(inner for inner in code.co_consts if isinstance(inner, CodeType))
    return frozenset(found)


_ITERATOR = getattr(tasks, "_AsCompletedIterator", None)  # a class since Python 3.13
_AS_COMPLETED = _codes(
    asyncio.as_completed,
    *((_ITERATOR.__init__, _ITERATOR._wait_for_one) if _ITERATOR else ()),
)
_ENSURE = _codes(asyncio.ensure_future, getattr(tasks, "_ensure_future", asyncio.ensure_future))
_WAIT_FOR = asyncio.wait_for.__code__
_QUEUE_GET = asyncio.Queue[Any].get.__code__
_frame: Callable[[int], FrameType] = getattr(sys, "_getframe")  # noqa: B009 - CPython's own


class Scope:
    """A place in the tree of tasks: the prefix of its keys, and how many were taken of each name.

    Transparent tasks share the scope of the task that made them.
    """

    __slots__ = ("counts", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.counts: dict[str, int] = {}

    def next(self, name: str) -> str:
        """Return the key that `Spinner.take` would, without taking it."""
        return f"{self.path}{name}#{self.counts.get(name, 0) + 1}"

    def branch(self, name: str) -> Scope:
        """Return the scope of the next child whose coroutine has that name."""
        kind = f"{name}["
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        return Scope(f"{self.path}{kind}{count}]/")


class Task(asyncio.Task[Any]):
    """An asyncio task with an ordinal and a scope."""

    __slots__ = ("context", "ordinal", "scope")

    def __init__(
        self, coro: Coro, loop: Spinner, *, scope: Scope, context: Context, name: str | None
    ) -> None:
        self.scope, self.context = scope, context
        self.ordinal = id(self)
        super().__init__(
            cast("Coroutine[Any, Any, Any]", coro),
            loop=loop,
            context=context,
            # asyncio's own names count the tasks of the process: a body must not see that number.
            name=name or scope.path[:-1] or "body",
        )
        self.ordinal = loop.next_ordinal()

    def __hash__(self) -> int:
        return self.ordinal

    @property
    def label(self) -> str:
        """Name the task for people: the key it waits for, or its place in the tree."""
        coro: Any = self.get_coro()
        if is_transparent(coro) and coro.cr_frame is not None:
            return key_of(coro) or str(coro.__name__)
        return self.scope.path[:-1] or "body"


class Promise(Future[Any]):
    """A future of a body, hashed by its place."""

    __slots__ = ("place",)

    def __hash__(self) -> int:
        return _place_of(self)


def _place_of(future: Any) -> int:
    """Return the place of a future in its machine, taken now if it has none; else its address."""
    loop = future.get_loop()
    if not hasattr(loop, "next_place"):
        return object.__hash__(future)
    try:
        place: int = future.place
    except AttributeError:
        place = future.place = loop.next_place()
    return place


_GATHERED: Any = getattr(tasks, "_GatheringFuture", None)
if _GATHERED is not None:  # nothing else tells apart what `asyncio.gather` makes in a body
    _GATHERED.__hash__ = _place_of


def key_of(coro: Any) -> str:
    """Return the key that a step call or a primitive of ours took, if it took one."""
    return str(coro.cr_frame.f_locals.get("key") or "") if coro.cr_frame is not None else ""


def is_transparent(coro: object) -> bool:
    """Tell whether `coro` is a step call or a primitive of ours."""
    return getattr(coro, "cr_code", None) in _TRANSPARENT


def scope_for(coro: Coro, parent: Scope) -> Scope:
    """Return where the task of `coro` stands, for the caller's caller.

    Raises `BadDefinition` if that is `asyncio.as_completed`.
    """
    is_waited_for = _from_wait_for(_frame(2), coro)
    if is_waited_for or is_transparent(coro):
        return parent
    return parent.branch(getattr(coro, "__name__", type(coro).__name__))


def _from_wait_for(frame: FrameType | None, coro: Coro) -> bool:
    """Tell whether `asyncio.wait_for` makes this task. Refuses `asyncio.as_completed`."""
    if frame is None or frame.f_code not in _ENSURE:
        return False
    while frame is not None and frame.f_code in _ENSURE:
        frame = frame.f_back
    if frame is None:
        return False
    if frame.f_code in _AS_COMPLETED:
        _close_all(coro, frame)
        raise unordered()
    return frame.f_code is _WAIT_FOR


def _close_all(coro: Coro, frame: FrameType | None) -> None:
    """Close what `as_completed` was given, so that Python does not warn about each of them."""
    coro.close()
    while frame is not None and frame.f_code in _AS_COMPLETED:
        given = frame.f_locals.get("fs") or frame.f_locals.get("aws")
        if isinstance(given, list | tuple | set):
            for other in cast("Iterable[object]", given):
                if asyncio.iscoroutine(other):
                    other.close()
        frame = frame.f_back


def refuse_as_completed() -> None:
    """Raise if the caller's caller, who asks for a future, is `asyncio.as_completed`."""
    frame = _frame(2)
    if frame.f_code is _QUEUE_GET and frame.f_back and frame.f_back.f_code in _AS_COMPLETED:
        raise unordered()


def unordered() -> BadDefinition:
    """Return the error for `asyncio.as_completed`."""
    return BadDefinition(
        what="asyncio.as_completed has no fixed order in a workflow body",
        hint="Use hf.as_completed, which takes the same arguments.",
    )


def half_way(generator: Any) -> str:
    """Say what became of an asynchronous generator that a body abandoned."""
    return (
        f"async generator {generator.__qualname__} was left half-way, and its clean-up could "
        f"ask for nothing. Wrap it in contextlib.aclosing(...)."
    )


def unfinished(all_tasks: Iterable[Task]) -> Iterator[Task]:
    """Yield the tasks that have not ended."""
    return (task for task in all_tasks if not task.done())


def retire(left: list[Task], *, cancel: bool) -> None:
    """End these tasks for good, the youngest first; what their clean-up raises is dropped.

    The loop must be the running one and dead, so that clean-up code cannot ask for anything.
    """
    for task in reversed(left):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        coro: Any = task.get_coro()
        task.context.run(unwind, coro, cancel=cancel)
        # A future and the task it would wake hold each other; on a dead loop this only parts them.
        waiter: Any = getattr(task, "_fut_waiter", None)
        if waiter is not None:
            waiter.cancel()


def unwind(coro: Any, *, cancel: bool) -> None:
    """Run `coro` to its end with CancelledError or GeneratorExit, however often that takes."""
    if cancel:
        _quietly(coro.throw, CancelledError())
    for _ in range(CLOSE_ATTEMPTS):
        _quietly(coro.close)
        if is_closed(coro):
            return
    _keep_for_ever(coro)


def unwind_generator(generator: Any) -> None:
    """Run an asynchronous generator to its end, as `unwind` does with a coroutine."""
    closing = generator.aclose()
    _quietly(closing.send, None)
    for _ in range(CLOSE_ATTEMPTS):
        if generator.ag_frame is None:
            return
        _quietly(closing.throw, GeneratorExit())
    _keep_for_ever(generator)


def _keep_for_ever(coro: Any) -> None:
    """Make sure that a coroutine which catches everything and awaits again is never freed.

    Freeing closes it once more, outside of any machine, and at the interpreter's exit that would
    go on for ever. Only a reference that nobody counts outlives the exit.
    """
    import ctypes

    _UNDYING.append(coro)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coro))


def is_closed(coro: Any) -> bool:
    """Tell whether a coroutine has ended or was closed."""
    return getattr(coro, "cr_frame", None) is None and getattr(coro, "gi_frame", None) is None


def _quietly(call: Callable[..., object], *args: object) -> None:
    # Whatever a closing body raises has no one to go to.
    with suppress(BaseException):
        call(*args)
