"""`process_parallel`: one function for many items, so many at a time.

It works anywhere. In the body of a workflow, or in a node with `body=True`, give it a step: then
each item is recorded by itself, and after a crash only those run again that were not. There the
limit is that of the hosts; nothing of the machine it runs on may enter a body.
"""

from __future__ import annotations

import asyncio
import os
from asyncio import Future, Task
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar, overload

from holdfast.errors import ParallelError, TaskError
from holdfast.fronts.graph.calling import begun, check_progress, runs_on_threads, tell
from holdfast.fronts.graph.config import ParallelConfig
from holdfast.fronts.graph.telling import Listener, Tell, problem_of, telling
from holdfast.machine import current

T = TypeVar("T")
R = TypeVar("R")
Progress = Callable[[int, int, R], object]

DEFAULT = ParallelConfig()
IN_BODY = 1_000
"""How many steps a body asks for at once: the same on every host."""


@dataclass(frozen=True, slots=True)
class ParallelResult(Generic[R]):
    """What came of all items, in their order: the results of those in `done`, and the errors."""

    results: tuple[R, ...]
    errors: tuple[TaskError, ...]
    done: tuple[int, ...]


@overload
async def process_parallel(
    items: Iterable[T],
    processor: Callable[[T], Awaitable[R]],
    config: ParallelConfig = DEFAULT,
    progress: Progress[R] | None = None,
    *,
    observer: Listener | None = None,
) -> ParallelResult[R]: ...
@overload
async def process_parallel(
    items: Iterable[T],
    processor: Callable[[T], R],
    config: ParallelConfig = DEFAULT,
    progress: Progress[R] | None = None,
    *,
    observer: Listener | None = None,
) -> ParallelResult[R]: ...
async def process_parallel(
    items: Iterable[Any],
    processor: Callable[[Any], Any],
    config: ParallelConfig = DEFAULT,
    progress: Progress[Any] | None = None,
    *,
    observer: Listener | None = None,
) -> ParallelResult[Any]:
    """Call `processor` with each item, several at a time; return what came of them, in order.

    The first error ends all, and raises `ParallelError` with everything that was done; with
    `ParallelConfig(fail_fast=False)` only if nothing succeeded. `progress(completed, total,
    result)` is called after each success; in a body, when that is stored. `observer` is told of all
    items; in a body, those of the graph are.
    """
    check_progress(progress)
    given = list(items)
    workers = worker_count(config, len(given))
    pool = ThreadPoolExecutor(workers) if given and runs_on_threads(processor) else None
    try:
        async with telling("process_parallel", observer) as told:
            has_progress = progress is not None
            told(
                "parallel.start", item_count=len(given), worker_count=workers,
                fail_fast=config.fail_fast, has_progress_callback=has_progress,
            )  # fmt: skip
            work = _Parallel(given, processor, config, progress, pool, told)
            return await work.run()
    finally:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def worker_count(config: ParallelConfig, items: int) -> int:
    """Return how many items are worked on at once; 0 if there are none."""
    if items == 0:
        return 0
    if config.max_workers > 0:
        return config.max_workers
    if current() is not None:
        return min(IN_BODY, items)
    return max(1, min((os.cpu_count() or 1) * 2, config.worker_cap, items))


class _Parallel:
    """One call under way."""

    def __init__(
        self,
        items: list[Any],
        processor: Callable[[Any], Any],
        config: ParallelConfig,
        progress: Progress[Any] | None,
        pool: Executor | None,
        told: Tell,
    ) -> None:
        self._items, self._processor = items, processor
        self._workers, self._fail_fast = worker_count(config, len(items)), config.fail_fast
        self._progress, self._pool = progress, pool
        self._left = iter(enumerate(items))
        self._told = told
        self._running: dict[Task[Any], tuple[int, int]] = {}
        self._idle: list[int] = []
        self._over: deque[Task[Any]] = deque()
        self._wake: Future[None] | None = None
        self._done: dict[int, Any] = {}
        self._failed: list[TaskError] = []

    async def run(self) -> ParallelResult[Any]:
        """Return what came of all items. Raises `ParallelError`."""
        try:
            while not self._is_given_up and (self._begin() or self._running):
                await self._hear()
        except asyncio.CancelledError as error:
            for place in self._running.values():
                self._tell("worker.complete", place, **problem_of(error))
            self._tell_end(error)
            await self._give_up()
            raise
        await self._end()
        return self._result()

    @property
    def _is_given_up(self) -> bool:
        return self._fail_fast and bool(self._failed)

    def _begin(self) -> bool:
        """Begin with items while there is room; tell whether there was one."""
        began = False
        while len(self._running) < self._workers and (one := next(self._left, None)) is not None:
            index, item = one
            place = (index, heappop(self._idle) if self._idle else len(self._running))
            self._tell("worker.start", place)
            # A step takes its key here: in the order of the items, in the task that called us.
            task = asyncio.create_task(begun(self._processor, item, pool=self._pool))
            self._running[task] = place
            task.add_done_callback(self._ended)
            began = True
        return began

    def _ended(self, task: Task[Any]) -> None:
        self._over.append(task)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _hear(self) -> None:
        """Wait until items have ended, and take what came of them."""
        if not self._over:
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        while self._over:
            self._take(self._over.popleft())

    def _take(self, task: Task[Any]) -> None:
        place = self._running.pop(task)
        index, problem = place[0], _problem_in(task)
        heappush(self._idle, place[1])
        self._tell("worker.complete", place, **problem_of(problem))
        try:
            result = self._done[index] = task.result()
        except asyncio.CancelledError:
            if self._is_given_up:
                return  # for the sake of another, whose error it was
            raised = RuntimeError("the processor was cancelled")
            self._failed.append(TaskError(index, self._items[index], raised))
        except Exception as error:
            self._failed.append(TaskError(index, self._items[index], error))
        else:
            tell(self._progress, len(self._done), len(self._items), result)

    def _tell(self, type: str, place: tuple[int, int], **data: Any) -> None:
        index, worker = place
        total = len(self._items)
        self._told(type, worker_id=worker, item_index=index, total_items=total, **data)

    def _tell_end(self, error: BaseException | None) -> None:
        counts = {"items_processed": len(self._done), "items_failed": len(self._failed)}
        self._told("parallel.complete", **counts, **problem_of(error))

    async def _end(self) -> None:
        """Give up what is under way. A thread cannot be stopped: it is waited for."""
        if self._pool is None:
            self._cancel()
        while self._running:
            await self._hear()

    async def _give_up(self) -> None:
        """End with the one who called us. Threads are left to themselves."""
        self._cancel()
        machine = current()
        if self._running and not (machine and machine.loop.dead):
            await asyncio.wait([*self._running])

    def _cancel(self) -> None:
        for task in self._running:
            task.cancel()

    def _result(self) -> ParallelResult[Any]:
        done = tuple(sorted(self._done))
        results = tuple(self._done[index] for index in done)
        failed = sorted(self._failed, key=_index)
        if failed and (self._fail_fast or not done):
            if self._fail_fast:  # the one that ended the others, then those that failed meanwhile
                first = self._failed[0]
                failed = [first, *(each for each in failed if each is not first)]
            error = ParallelError(
                errors=tuple(failed), results=results, done=done, total=len(self._items)
            )
            self._tell_end(error)
            raise error
        self._tell_end(None)
        return ParallelResult(results, tuple(failed), done)


def _problem_in(task: Task[Any]) -> BaseException | None:
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def _index(failed: TaskError) -> int:
    return failed.index
