"""The deterministic event loop: asyncio without I/O and without a clock.

It runs callbacks in the order in which they were asked for until none is ready, and then returns.
Time stands still meanwhile: `time()` is the time of the event being processed, in seconds since the
run's start. So the order of everything in a body is a function of the events fed, and nothing else.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from contextvars import Context, copy_context
from typing import Any

from holdfast.machine.refusals import refuse_the_rest
from holdfast.machine.spin import Handle, Spinner, running_loop
from holdfast.machine.tasks import Coro, Promise, Task, refuse_as_completed, scope_for
from holdfast.machine.timers import NO_TIMERS, Callback, Timer, Timers
from holdfast.model.durations import microseconds


class Loop(Spinner):
    """The event loop of one machine, as asyncio sees it."""

    __slots__ = ()

    def get_debug(self) -> bool:
        """Return False: asyncio's debug mode looks at the clock."""
        return False

    def is_running(self) -> bool:
        """Tell whether the body runs right now."""
        return running_loop() is self

    def is_closed(self) -> bool:
        """Tell whether the body has ended or was closed."""
        return self.dead

    def time(self) -> float:
        """Return the seconds between the run's start and the event being processed."""
        return (self.machine.now - self.start) / 1e6

    def call_soon(  # type: ignore[override]
        self, callback: Callback, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run `callback` in this turn, after what is ready already."""
        handle = Handle(callback, args, copy_context() if context is None else context)
        if self.dead:
            self._unheard += 1
        else:
            self.ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callback, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Open a durable timer of the running task."""
        if self.dead:
            self.refuse()
        due = self.machine.now + (microseconds(delay, field="delay") if not delay < 0 else 0)
        return self.schedule("", due, callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callback, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Open a durable timer that is due at `when`, by the loop's own clock."""
        due = self.start + (microseconds(when, field="when") if not when < 0 else 0)
        return self.schedule("", due, callback, args, context)

    def schedule(
        self, key: str, due: int, callback: Callback, args: tuple[Any, ...] = (),
        context: Context | None = None,
    ) -> Timer:  # fmt: skip
        """Open a timer under `key`, or the running task's next; one already due just runs."""
        if self.dead:
            self.refuse()
        is_due = due <= self.machine.now
        key = key or ("" if is_due else self.take("timer"))
        timer = Timer(key, due, (due - self.start) / 1e6, callback, args)
        timer.context = copy_context() if context is None else context
        timer.asked_seq = self.machine.seq
        if is_due:
            self.ready.append(timer)
        else:
            if self.timers is NO_TIMERS:
                self.timers = Timers()
            self.timers.add(timer)
        return timer

    def create_future(self) -> Future[Any]:
        """Return a future of this loop. Raises if `asyncio.as_completed` asks for it."""
        if self.dead:
            self.refuse()
        refuse_as_completed()
        return Promise(loop=self)

    def create_task(
        self, coro: Coro, *, name: str | None = None, context: Context | None = None, **_: object
    ) -> Task:
        """Start `coro` as a branch of the running task."""
        if self.dead:
            self.refuse(coro)
        scope = scope_for(coro, self.scope())
        context = copy_context() if context is None else context
        task = Task(coro, self, scope=scope, context=context, name=name)
        self.tasks.append(task)
        if len(self.tasks) > self._prune_at:
            self.tasks = [task for task in self.tasks if not task.done()]
            self._prune_at = 2 * len(self.tasks) + 32
        return task

    def get_task_factory(self) -> None:
        """Return None: all tasks of a body are of one kind."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep for the host's log what asyncio has to say."""
        if not self.dead:
            error = context.get("exception")
            text = f": {type(error).__name__}: {error}" if error is not None else ""
            self.machine.warnings += (f"{context.get('message', 'asyncio')}{text}",)


refuse_the_rest(Loop)  # type: ignore[type-abstract]
