"""Running steps: a bounded number at once, async ones on the loop, sync ones on threads.

A step that was asked for waits here until there is a slot; a step between two attempts holds none.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import StepTimedOut
from holdfast.fronts.function.context import CURRENT, NO_SECRETS, Attempt
from holdfast.hosts.worker.isolating import Processes
from holdfast.hosts.worker.threads import Threads
from holdfast.hosts.worker.voice import Silence, Voice
from holdfast.model.annotations import LogLine
from holdfast.model.asks import StepAsk
from holdfast.model.makers import maker
from holdfast.model.run import Run
from holdfast.model.secrets import Secret

if TYPE_CHECKING:
    from holdfast.hosts.worker.session import Session


class Result(NamedTuple):
    """How one attempt ended: with a value (and its bytes), or with an error."""

    ask: StepAsk
    number: int
    took: int
    payload: bytes | None = None
    value: Any = None
    error: BaseException | None = None


_new_result = maker(Result)

log = logging.getLogger("holdfast.worker")

SHOWN_AFTER = 0.1
"""Seconds after which a running step is recorded as started."""

PATIENCE = 1.0
"""Seconds a cancelled step may take to end before the worker leaves without it."""

Settle = Callable[[Result], None]
Show = Callable[["StepRun"], None]
Limit = Callable[[], int]
"""Tells how long an attempt that begins now may take, in microseconds."""


class StepRun(Attempt):
    """One attempt under way, or waiting for a slot."""

    __slots__ = (
        "ask", "began", "end", "is_shown", "limit", "session", "settle", "show", "task", "voice",
    )  # fmt: skip

    def __init__(
        self, run: Run, ask: StepAsk, number: int, limit: Limit | None, settle: Settle, show: Show
    ) -> None:
        self.ns, self.run, self.generation = run.ns, run.id, run.generation
        self.key, self.number = ask.key, number
        self.stopped = None
        self.ask, self.limit = ask, limit
        self.settle, self.show = settle, show
        self.session: Session | None = None
        self.voice: Voice | None = None
        self.task: asyncio.Task[None] | None = None
        self.end: Callable[[StepRun], None] | None = None
        self.began = 0.0
        self.is_shown = False

    def stop(self) -> None:
        """Have nobody wait for this attempt any more."""
        if self.stopped is not None:
            self.stopped.set()
        self.settle = nobody
        if self.task is not None:
            self.task.cancel()
            if not self.began and self.end is not None:
                self.end(self)  # its code will never run, not even a `finally`

    @property
    def secrets(self) -> Mapping[str, Secret]:
        """What the step lists, by name."""
        needs = None if self.session is None else self.session.needs
        return NO_SECRETS if needs is None else needs.of(self.key)

    @property
    def keyed_as(self) -> int:
        """The generation in its idempotency key."""
        return self.generation if self.session is None else self.session.keyed_as

    @property
    def epoch(self) -> int:
        """The epoch under which its run is held."""
        return 0 if self.session is None else self.session.run.epoch

    def beat(self, details: bytes | None) -> None:
        """Say that this attempt is alive, and how far it is."""
        self.speak().beat(details)

    def say(self, line: LogLine) -> None:
        """Leave a line in the run's log."""
        self.speak().say(line)

    def earlier(self) -> bytes | None:
        """Return the details that an earlier attempt left."""
        beat = self.speak().earlier
        return None if beat is None else beat.details

    def token(self) -> str:
        """Return what names this attempt to whoever completes it; empty if nobody can."""
        waits = self.session.waits if self.session is not None else None
        return "" if waits is None else waits.token(self.key)

    def callbacks(self) -> str:
        """Return the address at which outcomes are taken; empty if there is none."""
        return self.session.callbacks if self.session is not None else ""

    def speak(self) -> Voice:
        """Return the voice of this attempt; most never need one."""
        if self.voice is None:
            assert self.task is not None  # noqa: S101 - its code runs
            assert self.session is not None  # noqa: S101 - it was set before the start
            self.voice = Voice(self, self.session, self.task.get_loop())
        return self.voice


class Steps:
    """The slots of one worker."""

    def __init__(self, *, slots: int, threads: int, processes: int = 1) -> None:
        self._slots, self._threads = slots, threads
        self._waiting: deque[StepRun] = deque()
        # Not a set, whose order would be that of addresses: steps are told in the order they began.
        self._running: dict[StepRun, None] = {}
        self._context = contextvars.copy_context()
        self._ticks: asyncio.TimerHandle | None = None
        self._pool: Threads | None = None
        self._busy_threads: asyncio.Semaphore = asyncio.Semaphore(threads)
        self.written_off = 0
        self.entered: Callable[[StepRun], None] | None = None
        """What is called in the context of an attempt before it begins."""
        self.isolates = True
        """Whether isolated steps run in processes; else they run as others do."""
        self._processes = Processes()
        self._busy_processes = asyncio.Semaphore(processes)

    @property
    def running(self) -> int:
        """How many steps hold a slot."""
        return len(self._running)

    @property
    def free(self) -> int:
        """How many more could begin at once."""
        return max(self._slots - len(self._running) - len(self._waiting), 0)

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

    def context_of(self, run: StepRun) -> contextvars.Context:
        """Return a context of the worker's in which `run` is the attempt under way."""
        context = self._entered(run)
        context.run(CURRENT.set, run)
        return context

    def _entered(self, run: StepRun) -> contextvars.Context:
        # The worker's own: not that of the step whose end made room for this one.
        context = self._context.copy()
        if self.entered is not None:
            context.run(self.entered, run)
        return context

    async def stop(self) -> None:
        """Cancel what runs and let go of the threads."""
        self._waiting.clear()
        if self._ticks is not None:
            self._ticks.cancel()
        tasks = [run.task for run in self._running if run.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=PATIENCE)
            if stubborn:
                log.warning("%d steps ignored their cancellation and were left", len(stubborn))
        await self._processes.stop()
        if self._pool is not None:
            self._pool.stop()

    def _begin(self, run: StepRun) -> None:
        loop = asyncio.get_running_loop()
        run.end = self._end
        execution = self._execute(run, loop.time)
        run.task = loop.create_task(execution, name=run.key, context=self._entered(run))
        self._running[run] = None
        if self._ticks is None:
            self._ticks = loop.call_later(SHOWN_AFTER, self._tick)

    def _tick(self) -> None:
        """Have people see what has been running for a while, by looking ten times a second."""
        loop = asyncio.get_running_loop()
        self._ticks = loop.call_later(SHOWN_AFTER, self._tick) if self._running else None
        for run in self._running:
            if not run.is_shown and run.began and loop.time() - run.began >= SHOWN_AFTER:
                run.is_shown = True
                run.show(run)

    def _end(self, run: StepRun) -> None:
        """Give the slot back."""
        self._running.pop(run, None)
        waiting = self._waiting
        while waiting and len(self._running) < self._slots:
            following = waiting.popleft()
            if following.settle is not nobody:
                self._begin(following)

    async def _execute(self, run: StepRun, clock: Callable[[], float]) -> None:
        if run.task is None:  # of an eager factory: whoever starts it is not done yet
            await asyncio.sleep(0)
        ask, step, number = run.ask, run.ask.step, run.number
        began = run.began = clock()
        token = CURRENT.set(run)
        result: Result | None = None
        try:
            try:
                args, kwargs = step.signature.decode(ask.args)
                if step.is_async and run.limit is None:
                    value = await step.function(*args, **kwargs)
                else:
                    value = await self._call(run, args, kwargs)
                payload, value = step.signature.result.cross(
                    value, where=f"result of step {ask.key}"
                )
                result = _new_result((ask, number, _us(clock() - began), payload, value, None))
            except asyncio.CancelledError as error:
                if run.settle is nobody or _is_cancelled():
                    raise
                result = Result(ask, number, _us(clock() - began), error=error)
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:  # also of exit(): it ends the step, no more
                result = Result(ask, number, _us(clock() - began), error=error)
            CURRENT.reset(token)  # the next turn may be made right here, and is no part of the step
            run.settle(result)
        finally:
            result = None  # its error knows this frame
            self._end(run)

    async def _call(self, run: StepRun, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        step, limit = run.ask.step, run.limit
        if limit is not None and self.isolates and step.settings.isolate is not None:
            async with self._busy_processes, self._processes.one() as process:
                # Nor is the start of a process.
                return await _within(run, limit(), process.call, (run,), {})
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
        stopped = run.stopped = threading.Event()
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
    silence: Silence | None = None
    try:
        if not limit:
            raise timed_out(run, "had no time left to begin")
        async with timeout:
            silence = _silence_of(run, timeout)
            return await call(*args, **kwargs)
    except TimeoutError as error:
        if not timeout.expired():
            raise  # the step's own
        message = f"took longer than {seconds:g} s"
        if silence is not None and silence.is_over:
            message = f"sent no heartbeat for {silence.seconds:g} s"
        raise timed_out(run, message) from error
    finally:
        if silence is not None:
            silence.stop()


def _silence_of(run: StepRun, timeout: asyncio.Timeout) -> Silence | None:
    limit: int | None = (run.ask.options or run.ask.step.settings).heartbeat_timeout
    return None if limit is None else Silence(run.speak(), timeout, limit / 1e6)


def timed_out(run: StepRun, message: str) -> StepTimedOut:
    """Return the failure of an attempt that took too long."""
    return StepTimedOut(step=run.ask.key, type="StepTimedOut", message=message, attempts=run.number)


def nobody(result: Result) -> None:
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
