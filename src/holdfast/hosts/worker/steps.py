"""Running steps: a bounded number at once, async ones on the loop, sync ones on threads.

A step that was asked for waits here until there is a slot; a step between two attempts holds none.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.errors import StepTimedOut
from holdfast.fronts.function.context import CURRENT, Attempt
from holdfast.hosts.worker.threads import Threads
from holdfast.model.asks import StepAsk


class Result(NamedTuple):
    """How one attempt ended: with a value (and its bytes), or with an error."""

    ask: StepAsk
    number: int
    took: int
    payload: bytes | None = None
    value: Any = None
    error: BaseException | None = None


log = logging.getLogger("holdfast.worker")

SHOWN_AFTER = 0.1
"""Seconds after which a running step is recorded as started."""

PATIENCE = 1.0
"""Seconds a cancelled step may take to end before the worker leaves without it."""

Settle = Callable[[Result], None]
Show = Callable[[Attempt], None]
Limit = Callable[[], int]
"""Tells how long an attempt that begins now may take, in microseconds."""


class StepRun:
    """One attempt under way, or waiting for a slot."""

    __slots__ = ("ask", "attempt", "began", "is_shown", "limit", "settle", "show", "task")

    def __init__(
        self, ask: StepAsk, attempt: Attempt, limit: Limit | None, settle: Settle, show: Show
    ) -> None:
        self.ask, self.attempt, self.limit = ask, attempt, limit
        self.settle, self.show = settle, show
        self.task: asyncio.Task[None] | None = None
        self.began = 0.0
        self.is_shown = False

    def stop(self) -> None:
        """Have nobody wait for this attempt any more."""
        if self.attempt.stopped is not None:
            self.attempt.stopped.set()
        if self.task is not None:
            self.task.cancel()
        self.settle = _nobody


class Steps:
    """The slots of one worker."""

    def __init__(self, *, slots: int, threads: int) -> None:
        self._slots, self._threads = slots, threads
        self._waiting: deque[StepRun] = deque()
        self._running: dict[asyncio.Task[None], StepRun] = {}
        self._ticks: asyncio.TimerHandle | None = None
        self._pool: Threads | None = None
        self._busy_threads: asyncio.Semaphore = asyncio.Semaphore(threads)
        self.written_off = 0

    @property
    def running(self) -> int:
        """How many steps hold a slot."""
        return len(self._running)

    @property
    def is_healthy(self) -> bool:
        """Tell whether fewer threads are stuck in timed-out steps than the pool has spare."""
        return self.written_off < self._threads

    def start(self, run: StepRun) -> None:
        """Begin the attempt now, or when a slot is free."""
        if len(self._running) < self._slots:
            self._begin(run)
        else:
            self._waiting.append(run)

    async def stop(self) -> None:
        """Cancel what runs and let go of the threads."""
        self._waiting.clear()
        if self._ticks is not None:
            self._ticks.cancel()
        tasks = tuple(self._running)
        for task in tasks:
            task.cancel()
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=PATIENCE)
            if stubborn:
                log.warning("%d steps ignored their cancellation and were left", len(stubborn))
        if self._pool is not None:
            self._pool.stop()

    def _begin(self, run: StepRun) -> None:
        task = run.task = asyncio.create_task(self._execute(run))
        self._running[task] = run
        task.add_done_callback(self._ended)
        if self._ticks is None:
            self._ticks = asyncio.get_running_loop().call_later(SHOWN_AFTER, self._tick)

    def _tick(self) -> None:
        """Have people see what has been running for a while, by looking ten times a second."""
        loop = asyncio.get_running_loop()
        self._ticks = loop.call_later(SHOWN_AFTER, self._tick) if self._running else None
        for run in self._running.values():
            if not run.is_shown and run.began and loop.time() - run.began >= SHOWN_AFTER:
                run.is_shown = True
                run.show(run.attempt)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        waiting = self._waiting
        while waiting and len(self._running) < self._slots:
            following = waiting.popleft()
            if following.settle is not _nobody:
                self._begin(following)

    async def _execute(self, run: StepRun) -> None:
        ask, step = run.ask, run.ask.step
        clock = asyncio.get_running_loop().time
        began = run.began = clock()
        CURRENT.set(run.attempt)
        try:
            args, kwargs = step.signature.decode(ask.args)
            if step.is_async and run.limit is None:
                value = await step.function(*args, **kwargs)
            else:
                value = await self._call(run, args, kwargs)
            where = f"result of step {ask.key}"
            payload, value = step.signature.result.cross(value, where=where)
        except asyncio.CancelledError as error:
            if run.settle is _nobody or _is_cancelled():
                raise
            result = Result(ask, run.attempt.number, _us(clock() - began), error=error)
        except (Exception, SystemExit) as error:  # exit() in a step ends the step, no more
            result = Result(ask, run.attempt.number, _us(clock() - began), error=error)
        else:
            result = Result(ask, run.attempt.number, _us(clock() - began), payload, value)
        run.settle(result)

    async def _call(self, run: StepRun, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        step, limit = run.ask.step, run.limit
        if step.is_async and limit is not None:
            return await _within(run, limit(), step.function, args, kwargs)
        # The wait for a thread is no part of the attempt: the limit is read when there is one.
        async with self._busy_threads:
            call = self._call_in_thread
            if limit is None:
                return await call(run, args, kwargs)
            return await _within(run, limit(), call, (run, args, kwargs), {})

    async def _call_in_thread(
        self, run: StepRun, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        stopped = run.attempt.stopped = threading.Event()
        if self._pool is None:
            # Twice the slots: a thread stuck in a timed-out step must not block the next.
            self._pool = Threads(2 * self._threads, "holdfast-step")
        context = contextvars.copy_context()
        future = self._pool.submit(context.run, run.ask.step.function, *args, **kwargs)
        outcome = asyncio.wrap_future(future)
        outcome.add_done_callback(_heard)
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            stopped.set()
            if not future.cancel() and not future.done():
                self._write_off(future)
            raise

    def _write_off(self, future: Any) -> None:
        self.written_off += 1
        loop = asyncio.get_running_loop()

        def back(_: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._come_back)

        future.add_done_callback(back)

    def _come_back(self) -> None:
        self.written_off -= 1


async def _within(
    run: StepRun, limit: int, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    seconds = limit / 1e6
    timeout = asyncio.timeout(seconds)
    try:
        if not limit:
            raise _timed_out(run, seconds)  # before it begins
        async with timeout:
            return await call(*args, **kwargs)
    except TimeoutError as error:
        if not timeout.expired():
            raise  # the step's own
        raise _timed_out(run, seconds) from error


def _timed_out(run: StepRun, seconds: float) -> StepTimedOut:
    return StepTimedOut(
        step=run.ask.key,
        type="StepTimedOut",
        message=f"took longer than {seconds:g} s" if seconds else "had no time left to begin",
        attempts=run.attempt.number,
    )


def _nobody(result: Result) -> None:
    """Take a result that nobody waits for."""


def _heard(outcome: asyncio.Future[Any]) -> None:
    """Take note of an error that comes after its step was given up."""
    if not outcome.cancelled():
        outcome.exception()


def _is_cancelled() -> bool:
    """Tell whether the present task was cancelled from outside, not by the step's own doing."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)
