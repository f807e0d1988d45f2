"""How a body is run: ready callbacks in the order asked for, until none is left.

While it runs, the loop is the thread's running loop, and asynchronous generators that begin are
kept: one that the body abandons is ended with the body, when it can ask for nothing, since the
moment at which the garbage collector finds it is no function of the events. The running loop is put
back in any case, so a machine may spin inside the callbacks of a host's own loop.

A *dead* loop belongs to a body that has ended or was closed. On it nothing can be asked for.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import events
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from holdfast.errors import BodyStuck, MachineClosed
from holdfast.machine.source import source_of
from holdfast.machine.tasks import Coro, Scope, Task
from holdfast.machine.timers import NO_TIMERS, Callback, Timer

if TYPE_CHECKING:
    from holdfast.machine.machine import Machine

# Made for those who write event loops, as this module does; typed here, once.
running_loop: Callable[[], asyncio.AbstractEventLoop | None] = events._get_running_loop  # pyright: ignore[reportPrivateUsage]
_set_running: Callable[[asyncio.AbstractEventLoop | None], None] = events._set_running_loop  # pyright: ignore[reportPrivateUsage]

SPIN_LIMIT = 5_000_000
"""Callbacks in one turn after which a body counts as endless."""

GENERATORS = 64
"""How many asynchronous generators a machine holds before it looks for finished ones."""

REFUSALS = 1_000
"""How often a dead loop raises before it lets a body through to an endless wait."""

Outside = tuple[Any, ...]
"""What `enter` found and `leave` puts back."""


class Handle(asyncio.Handle):
    """A callback that runs in this turn."""

    __slots__ = ("args", "callback", "context")

    def __init__(self, callback: Callback, args: tuple[Any, ...], context: Context) -> None:
        self.callback: Callback | None = callback
        self.args = args
        self.context = context

    def cancel(self) -> None:
        """Make sure that the callback never runs."""
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        """Tell whether `cancel` was called."""
        return self.callback is None

    def __repr__(self) -> str:
        return f"<Handle {self.callback!r}>"


class Spinner(asyncio.AbstractEventLoop):
    """The half of the loop that a machine uses; `Loop` adds the half that asyncio uses."""

    __slots__ = ("_ordinal", "_places", "_prune_at", "_refusals", "_unheard", "dead", "generators",
                 "is_last", "machine", "main", "ready", "start", "tasks", "timers")  # fmt: skip

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.main: Task | None = None
        self.tasks: list[Task] = []
        self.generators: list[Any] | None = None
        self.timers = NO_TIMERS
        self.start = 0
        self.dead = False
        self.ready: list[Handle | Timer] = []
        self.is_last = False
        self._ordinal = self._places = 0
        self._prune_at = 32
        self._refusals = 0
        self._unheard: int = 0

    def enter(self) -> Outside:
        """Make this the running loop; `leave` must be called with what is returned."""
        host = running_loop()
        if host is self:
            raise RuntimeError("a machine cannot be fed or closed by its own body")
        first = sys.get_asyncgen_hooks().firstiter
        if type(first) is not Sorter:
            sys.set_asyncgen_hooks(firstiter=Sorter(first))
        _set_running(self)
        return host, _swap_current_task and _swap_current_task(host, None)

    def leave(self, outside: Outside) -> None:
        """Put back what `enter` found."""
        host, task = outside
        _set_running(host)
        if _swap_current_task:
            _swap_current_task(host, task)

    def drain(self) -> None:
        """Run until nothing is ready. Raises `BodyStuck` if that does not come about."""
        left = SPIN_LIMIT
        while batch := self.ready:
            self.ready = []
            left -= len(batch)
            if left < 0:
                raise BodyStuck(source=source_of(self.tasks))
            last = batch[-1]
            for handle in batch:
                if handle.callback is not None:
                    self.is_last = handle is last
                    try:
                        handle.context.run(handle.callback, *handle.args)
                    except BaseException as error:  # the rest of the batch must run
                        self._caught(handle, error)

    def _caught(self, handle: Handle | Timer, error: BaseException) -> None:
        # A task keeps its SystemExit and KeyboardInterrupt, and raises them here once more.
        if not isinstance(getattr(handle.callback, "__self__", None), Task):
            self.call_exception_handler({"message": "a callback raised", "exception": error})

    def fire(self, timer: Timer) -> None:
        """Let the callback of a timer run in this turn."""
        self.ready.append(timer)

    def begin(self, coro: Coro) -> None:
        """Start the body itself, in an empty context."""
        self.main = Task(coro, self, scope=Scope(""), context=Context(), name=None)
        self.tasks.append(self.main)

    def branch(self, coro: Coro, scope: Scope) -> Task:
        """Start a task of ours at a place that is not counted."""
        task = Task(coro, self, scope=scope, context=copy_context(), name=None)
        self.tasks.append(task)
        return task

    def take(self, name: str) -> str:
        """Return the next key of that name in the running task."""
        main = self.main
        # Most bodies have no other task, and this is asked at every step.
        scope = main.scope if main is not None and len(self.tasks) == 1 else self.scope()
        counts = scope.counts
        count = counts[name] = counts.get(name, 0) + 1
        return f"{scope.path}{name}#{count}"

    def scope(self) -> Scope:
        """Return the place of the running task, whose counters give the next key."""
        task = asyncio.current_task(self) or self.main
        if not isinstance(task, Task):
            raise MachineClosed
        return task.scope

    def refuse(self, coro: Coro | None = None) -> None:
        """Raise `MachineClosed`, to be called on a dead loop. `coro` is closed first.

        After many refusals nothing is raised any more: a body that catches everything in an
        endless loop must be let through to its next await, or it would never come back.
        """
        self._refusals += 1
        if self._refusals > REFUSALS:
            return
        if coro is not None:
            coro.close()
        raise MachineClosed

    @contextmanager
    def looked_at(self) -> Generator[Look]:
        """Let somebody look at a body in which nothing is ready, on a loop that counts as dead."""
        look, outside = Look(), self.enter()
        before = (self.dead, self._refusals, self._unheard)
        self.dead, self._refusals, self._unheard = True, 0, 0
        try:
            yield look
        finally:
            look.asked, look.woke = self._refusals, self._unheard
            self.dead, self._refusals, self._unheard = before
            self.leave(outside)

    def forget(self) -> None:
        """Let go of everything, so that a closed machine is freed at once."""
        self.main, self.tasks, self.ready, self.generators = None, [], [], None
        self.timers = NO_TIMERS
        if hasattr(self, "machine"):
            del self.machine

    def keep(self, generator: Any) -> None:
        """Hold on to an asynchronous generator: whoever frees it half-way runs its clean-up."""
        if self.generators is None:
            self.generators = []
        count = len(self.generators)
        if count >= GENERATORS and count & (count - 1) == 0:  # each time it has doubled
            self.generators = [each for each in self.generators if each.ag_frame is not None]
        self.generators.append(generator)

    def next_ordinal(self) -> int:
        """Return a number no task has yet."""
        self._ordinal += 1
        return self._ordinal

    def next_place(self) -> int:
        """Return a number no future has yet. Not an ordinal: those of tasks stay as they were."""
        self._places += 1
        return self._places


class Look:
    """What somebody did who was only to look."""

    __slots__ = ("asked", "woke")

    def __init__(self) -> None:
        self.asked = self.woke = 0

    @property
    def has_touched(self) -> bool:
        """Tell whether anything was asked for, or woken."""
        return bool(self.asked or self.woke)

    @property
    def is_spoilt(self) -> bool:
        """Tell whether something in the body was woken or cancelled, which cannot be taken back."""
        return bool(self.woke)

    @property
    def touched(self) -> str:
        """Say what was done."""
        return "woke or cancelled something in the body" if self.woke else "asked for something"


class Sorter:
    """Gives an asynchronous generator that begins to the machine whose body began it, or to the
    host. It stays when the machine is left: to swap hooks at every turn would cost more."""

    __slots__ = ("outer",)

    def __init__(self, outer: Callable[[Any], object] | None) -> None:
        self.outer = outer

    def __call__(self, generator: Any) -> None:
        loop = running_loop()
        if isinstance(loop, Spinner):
            loop.keep(generator)
        elif self.outer is not None:
            self.outer(generator)


def _swap_of_this_python() -> Callable[[Any, Any], Any] | None:
    """Return what hides the host's task: from 3.14 on, one task is current in a thread."""
    if sys.version_info < (3, 14):
        return None
    swap: Callable[[Any, Any], Any] = asyncio.tasks._swap_current_task
    return lambda loop, task: swap(loop, task) if loop is not None else None


_swap_current_task = _swap_of_this_python()
