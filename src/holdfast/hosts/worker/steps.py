"""Running steps: a bounded number at once, async ones on the loop, sync ones on threads.

A step that was asked for waits here until there is a slot; a step between two attempts holds none.

To make a task and have the loop come round to it takes longer than many a step. So one task, a
*server*, runs the steps that have begun, one after the other, and those that begin meanwhile. The
first that has to be waited for keeps the task to itself, and each of the others gets a server of
its own: no step waits for another, and none finds anything of another in its task. Each has a
context of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.fronts.function.context import CURRENT, NO_SECRETS, Attempt
from holdfast.hosts.worker.calling import Calls, Span, no_time_for
from holdfast.hosts.worker.inside import inside
from holdfast.hosts.worker.voice import Voice
from holdfast.model.annotations import LogLine
from holdfast.model.asks import StepAsk
from holdfast.model.makers import maker
from holdfast.model.run import Run
from holdfast.model.secrets import Secret
from holdfast.ports.reply import Reply

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
"""Seconds a cancelled step may take to end before the worker goes on, or leaves, without it."""

LOOK = 1.0
"""Seconds between two looks at what waits for a slot."""

TURN = 0.002
"""Seconds for which steps that never wait, and begin one after the other, may keep the loop."""

NO_NAMES: Mapping[str, Any] = {}

Settle = Callable[[Result], None]
Show = Callable[["StepRun"], None]
Limit = Callable[[], int]
"""Tells how long an attempt that begins now may take, in microseconds."""


class StepRun(Attempt):
    """One attempt under way, or waiting for a slot."""

    # In the class, so that nothing has to be set for a step that is over at once.
    session: Session | None = None
    voice: Voice | None = None
    loop: asyncio.AbstractEventLoop | None = None
    task: asyncio.Task[None] | None = None
    """The task that its code runs in, while it does."""
    steps: Steps | None = None
    """Where it holds a slot, if it does."""
    began = 0.0
    is_shown = has_waited = False
    span: Span | None = None
    """Its time, while its code runs and that has a limit."""
    left_at: float | None = None
    """Since when nobody waits for it, by the loop's time, though its code may still run."""
    is_in_line = False
    """Whether it waits for a thread: its code has not begun."""
    keeps_place = False
    """Whether its place among the threads is stuck with it."""

    def __init__(
        self, run: Run, ask: StepAsk, number: int, limit: Limit | None, settle: Settle, show: Show
    ) -> None:
        self.ns, self.run, self.generation = run.ns, run.id, run.generation
        self.key, self.number = ask.key, number
        self.ask, self.limit, self.settle, self.show = ask, limit, settle, show

    def stop(self) -> None:
        """Have nobody wait for this attempt any more."""
        if self.stopped is not None:
            self.stopped.set()
        self.settle = nobody
        if self.task is not None:
            self.task.cancel()
            self.left_at = asyncio.get_running_loop().time()
        elif self.steps is not None:
            self.steps.end(self)  # its code has not begun, and never will

    def over_at(self) -> float | None:
        """Return since when its code should have ended, by the loop's time, or None."""
        if self.left_at is not None:
            # A process is given a while to end, and killed.
            return self.left_at if self.ask.step.settings.isolate is None else None
        return None if self.span is None else self.span.ended_at()

    def is_late(self) -> bool:
        """Tell whether it has no time left to begin, and somebody waits for it."""
        return self.settle is not nobody and self.limit is not None and not self.limit()

    def wait(self) -> None:
        """Keep the task that its code runs in: no other step's will."""
        self.has_waited = True
        if self.task is not None:
            self.task.set_name(self.key)
        if self.steps is not None:
            self.steps.leave()

    @property
    def args(self) -> bytes:
        """Its arguments, as they are stored."""
        return self.ask.args

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
            assert self.loop is not None  # noqa: S101 - its code runs
            assert self.session is not None  # noqa: S101 - it was set before the start
            self.voice = Voice(self, self.session, self.loop)
        return self.voice


class Steps:
    """The slots of one worker."""

    def __init__(self, *, slots: int, threads: int, processes: int = 1) -> None:
        self._slots = slots
        self._waiting: deque[StepRun] = deque()
        # Not a set, whose order would be that of addresses: steps are told in the order they began.
        self._running: dict[StepRun, None] = {}
        self._left: dict[StepRun, None] = {}
        self._begun: deque[StepRun] = deque()
        self._beginnings: deque[Callable[[], None]] = deque()
        self.unpushed: Reply[Any] | None = None
        """A commit that a server carries out itself, when it has nothing else to do."""
        self.pushes = False
        """Whether a server is at work, and will do that."""
        self._pusher: asyncio.Task[None] | None = None
        self._servers = 0
        self._is_calling = False
        self._context = contextvars.copy_context()
        self._ticks: asyncio.TimerHandle | None = None
        self._looked_at = 0.0
        self.calls = Calls(threads=threads, processes=processes)
        self.entered: Callable[[StepRun], None] | None = None
        """What is called in the context of an attempt before it begins."""

    @property
    def running(self) -> int:
        """How many steps hold a slot."""
        return len(self._running)

    @property
    def free(self) -> int:
        """How many more could begin at once."""
        if self.calls.is_stuck:
            return 0
        return max(self._slots - len(self._running) - len(self._waiting), 0)

    def start(self, run: StepRun) -> None:
        """Begin the attempt now, or when a slot is free."""
        if len(self._running) >= self._slots:
            self._waiting.append(run)
            return
        loop = asyncio.get_running_loop()
        run.loop, run.steps = loop, self
        self._running[run] = None
        self._begun.append(run)
        if not self._servers and not self._is_pushing():
            self._call_server(loop)
        if self._ticks is None:
            self._ticks = loop.call_later(SHOWN_AFTER, self._tick)

    def soon(self, begin: Callable[[], None]) -> None:
        """Call `begin` soon, in a task that then runs the steps which it begins."""
        self._beginnings.append(begin)
        if not self._servers:
            self._call_server(asyncio.get_running_loop())

    def context_of(self, run: StepRun) -> contextvars.Context:
        """Return a context of the worker's in which `run` is the attempt under way."""
        # The worker's own: not that of the step whose end made room for this one.
        context = self._context.copy()
        if self.entered is not None:
            context.run(self.entered, run)
        context.run(CURRENT.set, run)
        return context

    async def stop(self) -> None:
        """Cancel what runs and let go of the threads."""
        self._waiting.clear()
        self._begun.clear()
        if self._ticks is not None:
            self._ticks.cancel()
        runs = (*self._running, *self._left)
        tasks = [run.task for run in runs if run.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=PATIENCE)
            if stubborn:
                log.warning("%d steps ignored their cancellation and were left", len(stubborn))
        await self.calls.stop()

    def _tick(self) -> None:
        """Have people see what has been running for a while, by looking ten times a second."""
        loop = asyncio.get_running_loop()
        self._ticks = loop.call_later(SHOWN_AFTER, self._tick) if self._running else None
        now = loop.time()
        for run in tuple(self._running):
            if run.is_in_line:
                self._turn_away_if_late(run)
            elif not run.is_shown and run.began and now - run.began >= SHOWN_AFTER:
                run.is_shown = True
                run.show(run)
            over = run.over_at()
            if over is not None and now - over >= PATIENCE:
                self._leave_behind(run, now)
        if self._waiting and now - self._looked_at >= LOOK:  # there may be thousands
            self._looked_at = now
            for run in tuple(self._waiting):
                self._turn_away_if_late(run)

    def _turn_away_if_late(self, run: StepRun) -> None:
        """End an attempt whose time has passed while it waited for a slot, or a thread."""
        if run.is_late():
            settle = run.settle
            run.stop()
            settle(Result(run.ask, run.number, 0, error=no_time_for(run)))

    def _leave_behind(self, run: StepRun, now: float) -> None:
        """Go on without an attempt that ignores that it should have ended."""
        log.warning(
            "step %s of run %s ignores that %s, and is left behind. Have it raise the "
            "CancelledError that it catches.",
            run.key, run.run, "its time is over" if run.left_at is None else "nobody waits for it",
        )  # fmt: skip
        self.end(run)
        self._left[run] = None
        if run.left_at is None and run.span is not None:
            settle, run.settle = run.settle, nobody
            settle(Result(run.ask, run.number, _us(now - run.began), error=run.span.failure()))

    def end(self, run: StepRun) -> None:
        """Give the slot back."""
        self._running.pop(run, None)
        self._left.pop(run, None)
        waiting = self._waiting
        while waiting and len(self._running) < self._slots:
            following = waiting.popleft()
            if following.settle is not nobody:
                self.start(following)

    # --- the servers

    def _call_server(self, loop: asyncio.AbstractEventLoop) -> None:
        self._servers += 1
        context, self._is_calling = self._context.copy(), True
        try:
            loop.create_task(self._serve(loop), name="holdfast steps", context=context)
        finally:
            self._is_calling = False

    def leave(self) -> None:
        """Serve no more: what has begun meanwhile, and may wait as well, is for others."""
        self._servers -= 1
        if self.unpushed is not None:
            self.unpushed.call()
            self.unpushed = None
        wanted = len(self._begun) or bool(self._beginnings)
        for _ in range(wanted - self._servers):
            self._call_server(asyncio.get_running_loop())

    async def _serve(  # noqa: C901, PLR0912 - each step passes here: a call more is one for each
        self, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Begin what is to begin, and run what has begun, up to the first step that waits.

        When that is done it carries out the commit that came of it, if it is alone, and goes on
        with the steps that are asked for then: all of a lone chain runs in one task.
        """
        if self._is_calling:  # of an eager factory: whoever begins a step is not done yet
            await asyncio.sleep(0)
        task: Any = asyncio.current_task()
        begun, beginnings, clock = self._begun, self._beginnings, _clock_of(loop)
        came, together = clock(), len(begun) + len(beginnings)
        run: StepRun | None = None
        try:
            while True:
                if beginnings:
                    self._begin(beginnings.popleft())
                    now = clock()
                elif begun:
                    run = begun.popleft()
                    if run.settle is nobody:
                        continue
                    await self._execute(run, task, clock)
                    if run.has_waited or task.cancelling() or task._must_cancel:
                        return  # what was left behind in the task would hit the next step
                    now = run.began
                elif self.unpushed is not None and await self._pushed(task):
                    # The loop came round to others meanwhile.
                    came, together = clock(), len(begun) + len(beginnings)
                    continue
                else:
                    return
                together -= 1
                if together <= 0 and now - came > TURN:
                    await asyncio.sleep(0)
                    came, together = clock(), len(begun) + len(beginnings)
        finally:
            if run is None or not run.has_waited:
                self.leave()

    def _begin(self, begin: Callable[[], None]) -> None:
        self.pushes = not (self.unpushed or self._pusher)
        try:
            begin()
        finally:
            self.pushes = False

    async def _pushed(self, task: asyncio.Task[None]) -> bool:
        """Do for the store what it has to do now; tell whether there was anything.

        No step that somebody else begins meanwhile waits for it.
        """
        reply, self.unpushed = self.unpushed, None
        work = None if reply is None else reply.push()
        if work is None:
            return False
        self._servers, self._pusher = self._servers - 1, task
        try:
            await work
        finally:
            self._servers, self._pusher = self._servers + 1, None
        return True

    def _is_pushing(self) -> bool:
        """Tell whether whoever begins a step now is the server that pushes, and will run it."""
        return self._pusher is not None and asyncio.current_task() is self._pusher

    async def _execute(
        self, run: StepRun, task: asyncio.Task[None], clock: Callable[[], float]
    ) -> None:
        ask, step, number = run.ask, run.ask.step, run.number
        run.task, began = task, clock()
        run.began = began
        result: Result | None = None
        try:
            try:
                call, args, kwargs = step.function, ask.values, NO_NAMES
                if args is None:
                    args, kwargs = step.signature.decode(ask.args)
                if run.limit is not None or not step.is_async:
                    call, args, kwargs = self.calls.call, (run, args, kwargs), NO_NAMES
                value = await inside(self.context_of(run), call, args, kwargs, run.wait)
                payload, value = step.signature.result.cross(
                    value, where=f"result of step {ask.key}"
                )
                took = round((clock() - began) * 1_000_000)
                result = _new_result((ask, number, took, payload, value, None))
            except asyncio.CancelledError as error:
                result = Result(ask, number, _us(clock() - began), error=error)
                if run.settle is nobody or task.cancelling():
                    self._settle_later(run, result, PATIENCE)
                    raise
            except GeneratorExit as error:
                # Nothing may be awaited any more. If the loop goes on, it came from the step.
                self._settle_later(run, Result(ask, number, _us(clock() - began), error=error))
                return
            except BaseException as error:  # also of exit(): it ends the step, no more
                if is_interrupt(error):
                    raise
                result = Result(ask, number, _us(clock() - began), error=error)
            run.task = None  # the next turn may be made right here, and is no part of the step
            self.pushes = not (run.has_waited or self.unpushed or self._pusher)
            run.settle(result)
        finally:
            self.pushes = False
            run.task = result = None  # its error knows this frame
            self.end(run)

    def _settle_later(self, run: StepRun, result: Result, delay: float = 0) -> None:
        """Settle it if the loop goes on and somebody waits for it.

        Whoever cancels all tasks of a loop is about to close it; else it was the step's own code.
        """
        loop = asyncio.get_running_loop() if run.loop is None else run.loop
        if not run.has_waited:
            run.wait()
        if run.settle is not nobody and not loop.is_closed():
            loop.call_later(delay, lambda: run.settle(result))


def is_interrupt(error: BaseException) -> bool:
    """Tell whether a person may have pressed Ctrl-C, which ends more than a step.

    Not so if the process hears of that in a way of its own, as `holdfast worker` does.
    """
    if not isinstance(error, KeyboardInterrupt):
        return False
    handler = signal.getsignal(signal.SIGINT)
    return handler is signal.default_int_handler or isinstance(handler, partial)  # of `asyncio.run`


def _clock_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Return what tells the loop's time, without asyncio's own call around the system's clock."""
    clock = loop.time
    is_usual = getattr(clock, "__func__", None) is asyncio.BaseEventLoop.time
    return time.monotonic if is_usual else clock


def nobody(result: Result) -> None:
    """Take a result that nobody waits for."""


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)
