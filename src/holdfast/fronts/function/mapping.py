"""Fan-out: one call for each of many items, so many at once, in order.

Items are taken one by one as places get free, and the results stand in the order of the items. What
fails is told for each item. When more fails than is tolerated, the rest is given up.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sized
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar, cast, overload

from holdfast.errors import BadDefinition, MapFailed
from holdfast.fronts.function.chunks import run_chunk
from holdfast.fronts.function.step import Later, Step
from holdfast.machine.asking import MAX_ASKS
from holdfast.machine.machine import Machine
from holdfast.machine.primitives import here
from holdfast.machine.tasks import Task, transparent

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

LIMIT = 100
"""How many calls are under way at once, unless the body says so. The same on every host."""


class Item(Generic[R_co]):
    """What came of one item: a value, or an error."""

    __slots__ = ("_value", "error", "index")

    def __init__(self, index: int, value: R_co | None, error: Exception | None = None) -> None:
        self.index, self.error = index, error
        self._value = value

    @property
    def ok(self) -> bool:
        """Tell whether there is a value."""
        return self.error is None

    @property
    def value(self) -> R_co:
        """What the call returned. Raises what it raised."""
        if self.error is not None:
            raise self.error
        return cast("R_co", self._value)

    def __repr__(self) -> str:
        told = f"{self._value!r:.60}" if self.error is None else repr(self.error)
        return f"<item {self.index}: {told}>"


class Job(NamedTuple):
    """A call that is about to begin: of one item, or of a chunk of them."""

    first: int
    call: Coroutine[Any, Any, Any]
    is_chunk: bool = False


Call = Callable[[T], Coroutine[Any, Any, R]]


@overload
def map(
    call: Call[T, R], items: Iterable[T], *, limit: int = LIMIT, chunk: int = 1
) -> Coroutine[Any, Any, list[R]]: ...
@overload
def map(
    call: Call[T, R],
    items: Iterable[T],
    *,
    tolerate: float,
    limit: int = LIMIT,
    chunk: int = 1,
) -> Coroutine[Any, Any, list[Item[R]]]: ...
def map(
    call: Call[T, R],
    items: Iterable[T],
    *,
    tolerate: float | None = None,
    limit: int = LIMIT,
    chunk: int = 1,
) -> Coroutine[Any, Any, Any]:
    """Call a step or a workflow once for each item, `limit` at a time; return all results in order.

    With `tolerate`, so many items may fail (or such a share of them, below 1), and what is returned
    are `hf.Item`s: a value or an error each. More failures, or any without it, raise `MapFailed`
    and give up the rest. With `chunk`, so many items are done by one execution of the step, with
    one record; an item that fails there is tried again alone.
    """
    machine = here("hf.map()")
    _check("limit", limit, MAX_ASKS)
    _check("chunk", chunk, MAX_ASKS)
    allowed = 0 if tolerate is None else _allowed(tolerate, items)
    jobs = _jobs(call, items) if chunk == 1 else _chunks(machine, call, items, chunk)
    return _map(machine, jobs, limit, allowed, tolerate is not None)


@transparent
async def _map(
    machine: Machine, jobs: Iterator[Job], limit: int, allowed: int, as_items: bool
) -> list[Any]:
    found = await _Mapping(machine, jobs, limit, allowed).run()
    return found if as_items else [item.value for item in found]


class _Mapping:
    """One fan-out under way."""

    def __init__(self, machine: Machine, jobs: Iterator[Job], limit: int, allowed: int) -> None:
        self._machine, self._jobs = machine, jobs
        self._limit, self._allowed = limit, allowed
        self._running: dict[Task, Job] = {}
        self._done: deque[Task] = deque()
        self._wake: Future[None] | None = None
        self._found: list[Item[Any]] = []
        self._failed: list[Item[Any]] = []

    async def run(self) -> list[Item[Any]]:
        """Return what came of each item, in their order. Raises `MapFailed`."""
        try:
            while self._begin() or self._running:
                if not self._done:
                    self._wake = Future(loop=self._machine.loop)
                    await self._wake
                while self._done:
                    self._take(self._done.popleft())
                if len(self._failed) > self._allowed:
                    raise self._failure()
        except BaseException:
            await self._give_up()
            raise
        return sorted(self._found, key=lambda item: item.index)

    def _begin(self) -> bool:
        """Begin calls while there is room; tell whether one began."""
        began = False
        while len(self._running) < self._limit and (job := next(self._jobs, None)) is not None:
            task = self._machine.loop.create_task(job.call)
            self._running[task] = job
            task.add_done_callback(self._hear)
            began = True
        return began

    def _hear(self, task: Any) -> None:
        self._done.append(task)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _take(self, task: Task) -> None:
        job = self._running.pop(task)
        items: list[Item[Any]]
        try:
            value = task.result()
        except Exception as error:
            items = [Item(job.first, None, error)]
        else:
            items = _of_chunk(job, value) if job.is_chunk else [Item(job.first, value)]
        self._found += items
        self._failed += [item for item in items if item.error is not None]

    def _failure(self) -> MapFailed:
        errors = [(item.index, item.error) for item in self._failed if item.error is not None]
        failure = MapFailed(failed=tuple(errors), done=len(self._found), tolerated=self._allowed)
        failure.__cause__ = ExceptionGroup("what failed", [error for _, error in errors])
        return failure

    async def _give_up(self) -> None:
        """Cancel what is under way, and let it end."""
        for task in self._running:
            task.cancel()
        if self._running and not self._machine.loop.dead:
            await asyncio.wait([*self._running])


def _of_chunk(job: Job, outcomes: list[Any]) -> list[Item[Any]]:
    return [
        Item(n, None, each) if isinstance(each, Exception) else Item(n, *each)
        for n, each in enumerate(outcomes, start=job.first)
    ]


def _jobs(call: Call[T, R], items: Iterable[T]) -> Iterator[Job]:
    # A key is taken at the call: in the order of the items, by the task that maps.
    return (Job(index, call(item)) for index, item in enumerate(items))


def _chunks(machine: Machine, call: Any, items: Iterable[Any], size: int) -> Iterator[Job]:
    if not isinstance(call, Step) or isinstance(call, Later) or not call.fits_chunks:
        raise BadDefinition(
            what=f"hf.map was given chunk={size} and {call!r:.60}, which cannot be done in chunks",
            hint=(
                "Give a step that completes by itself, may be tried again, has no cache and is no "
                "transaction. A child workflow maps over its own part."
            ),
        )
    step, left = cast("Step[..., Any]", call), iter(items)

    def chunks() -> Iterator[Job]:
        index = 0
        while batch := list(islice(left, size)):
            yield Job(index, run_chunk(machine, step, batch), is_chunk=True)
            index += len(batch)

    return chunks()


def _allowed(tolerate: float, items: object) -> int:
    if type(tolerate) is int and tolerate >= 0:
        return tolerate
    if type(tolerate) is float and 0 <= tolerate < 1 and isinstance(items, Sized):
        return int(tolerate * len(items))
    raise BadDefinition(
        what=f"hf.map was given tolerate={tolerate!r:.60}",
        hint="Give how many items may fail, or a share below 1 of a list whose length is known.",
    )


def _check(name: str, value: object, most: int) -> None:
    if type(value) is not int or not 1 <= value <= most:
        raise BadDefinition(
            what=f"hf.map was given {name}={value!r:.60}", hint=f"Give an int from 1 to {most:,}."
        )
