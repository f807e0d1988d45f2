"""How the code of a step is called where it is more than awaited: in its time, on a thread, apart.

A thread cannot be stopped. One that is still at work when its step has timed out is *written off*:
its place goes to the next step, and there are twice as many threads as places, so that some may be
stuck. When more are, places go with them: no step begins that has no thread to run on.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.errors import StepTimedOut
from holdfast.hosts.worker.isolating import Processes
from holdfast.hosts.worker.threads import Threads
from holdfast.hosts.worker.voice import Silence

if TYPE_CHECKING:
    from holdfast.hosts.worker.steps import StepRun

log = logging.getLogger("holdfast.worker")


class Calls:
    """The threads and processes of one worker, and what is left of them."""

    def __init__(self, *, threads: int, processes: int) -> None:
        self._threads = threads
        self._places = asyncio.Semaphore(threads)
        self._processes = Processes()
        self._busy_processes = asyncio.Semaphore(processes)
        self.pool = Threads(2 * threads, "holdfast-step")
        self.isolates = True
        """Whether isolated steps run in processes; else they run as others do."""
        self.written_off = 0
        self.noticed: Callable[[], None] = lambda: None
        """Called when threads get stuck or come back, or a step wants one where none is left."""

    @property
    def is_healthy(self) -> bool:
        """Tell whether fewer threads are stuck in timed-out steps than the pool has spare."""
        return self.written_off < self._threads

    @property
    def is_stuck(self) -> bool:
        """Tell whether no thread is left."""
        return self.written_off >= 2 * self._threads

    async def call(self, run: StepRun, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the code of an attempt that is sync, or has its limits."""
        step, limit = run.ask.step, run.limit
        if limit is not None and self.isolates and step.settings.isolate is not None:
            async with self._busy_processes, self._processes.one() as process:
                # Nor is the start of a process.
                return await _within(run, limit(), process.call, (run,), {})
        if step.is_async and limit is not None:
            return await _within(run, limit(), step.function, args, kwargs)
        return await self._call_on_thread(run, args, kwargs)

    async def _call_on_thread(
        self, run: StepRun, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        # The wait for a thread is no part of the attempt: the limit is read when there is one.
        run.is_in_line = True
        if self.is_stuck:
            self._tell()
        await self._places.acquire()
        run.is_in_line = False
        call = self._call_in_thread
        try:
            if run.limit is None:
                return await call(run, args, kwargs)
            return await _within(run, run.limit(), call, (run, args, kwargs), {})
        finally:
            if not run.keeps_place:
                self._places.release()

    async def stop(self) -> None:
        """Let go of the threads, and end the processes."""
        await self._processes.stop()
        self.pool.stop()

    async def _call_in_thread(
        self, run: StepRun, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        stopped = run.stopped = threading.Event()
        context = contextvars.copy_context()
        future = self.pool.submit(context.run, run.ask.step.function, *args, **kwargs)
        outcome = asyncio.wrap_future(future)
        outcome.add_done_callback(_heard)
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            stopped.set()
            if not future.cancel() and not future.done():
                self._write_off(run, future)
            raise

    def _write_off(self, run: StepRun, future: Any) -> None:
        self.written_off += 1
        run.keeps_place = self.written_off > self._threads
        if self.written_off == self._threads:
            log.warning(
                "unhealthy: %d threads are stuck in steps that have timed out, or that nobody "
                "waits for; the last is %s of run %s. No thread can be stopped: have the step look "
                'at hf.cancelled(), or give it isolate="process". When %d are stuck, this worker '
                "takes no more runs until it is started again.",
                self.written_off, run.key, run.run, 2 * self._threads,
            )  # fmt: skip
        if self.written_off in (self._threads, 2 * self._threads):
            self._tell()
        loop = asyncio.get_running_loop()

        def back(_: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._come_back)

        future.add_done_callback(back)

    def _come_back(self) -> None:
        self.written_off -= 1
        if self.written_off >= self._threads:
            self._places.release()
        if self.written_off == self._threads - 1:
            log.warning("healthy again: only %d threads are stuck", self.written_off)
        if self.written_off in (self._threads - 1, 2 * self._threads - 1):
            self._tell()

    def _tell(self) -> None:
        # Not from within: a step that is told to stop may be the one that has noticed.
        asyncio.get_running_loop().call_soon(self.noticed)


class Span:
    """The time that one attempt has: its limit, and how long it may be silent."""

    def __init__(self, run: StepRun, limit: int) -> None:
        self._run, self._limit = run, limit
        self.timeout = asyncio.timeout(limit / 1e6)
        self._silence: Silence | None = None

    def begin(self) -> None:
        """Count from now on, also between two heartbeats."""
        run = self._run
        limit: int | None = (run.ask.options or run.ask.step.settings).heartbeat_timeout
        if limit is not None:
            self._silence = Silence(run.speak(), self.timeout, limit / 1e6)

    def end(self) -> None:
        """Count no more."""
        if self._silence is not None:
            self._silence.stop()

    def ended_at(self) -> float | None:
        """Return when it was over, by the loop's time, or None if it is not."""
        return self.timeout.when() if self.timeout.expired() else None

    def failure(self) -> StepTimedOut:
        """Return the failure of an attempt that took longer."""
        if self._silence is not None and self._silence.is_over:
            return timed_out(self._run, f"sent no heartbeat for {self._silence.seconds:g} s")
        options = self._run.ask.options or self._run.ask.step.settings
        total: int | None = options.total_timeout
        if total is None or self._limit == options.timeout:
            return timed_out(self._run, f"took longer than {self._limit / 1e6:g} s")
        told = f"had not ended {total / 1e6:g} s after it was asked for (total_timeout)"
        return timed_out(self._run, told)


async def _within(
    run: StepRun,
    limit: int,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Return what the call comes to in its time. Its result counts no more when that is over."""
    if not limit:
        raise no_time_for(run)
    run.span = span = Span(run, limit)
    try:
        async with span.timeout:
            span.begin()
            value = await call(*args, **kwargs)
    except TimeoutError as error:
        if not span.timeout.expired():
            raise  # the step's own
        raise span.failure() from error
    finally:
        run.span = None
        span.end()
    if span.timeout.expired():  # it caught its cancellation, and went on
        raise span.failure()
    return value


def no_time_for(run: StepRun) -> StepTimedOut:
    """Return the failure of an attempt whose time was over before it could begin."""
    return timed_out(run, "had no time left to begin")


def timed_out(run: StepRun, message: str) -> StepTimedOut:
    """Return the failure of an attempt that took too long."""
    return StepTimedOut(step=run.ask.key, type="StepTimedOut", message=message, attempts=run.number)


def _heard(outcome: asyncio.Future[Any]) -> None:
    """Take note of an error that comes after its step was given up."""
    if not outcome.cancelled():
        outcome.exception()
