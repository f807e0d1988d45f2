"""A deterministic event loop with virtual time: one thread, no sockets, nothing to wait for.

When nothing is ready, time jumps to the next timer; a day passes in a microsecond. When there is no
timer either, everything waits for something that cannot come, and the loop raises `Deadlock` with
the names of the waiting tasks.

Several processes may live on one loop, each in a `Life` of its own. A life can end between two
callbacks, as by SIGKILL: nothing of it runs any more, not even clean-up code. It can also be
frozen and thawed, as by SIGSTOP and SIGCONT. Which life a callback belongs to is told by its
context, so all tasks, timers and done-callbacks that a life begets are its own.

    loop = VirtualLoop()
    store = MemoryStore(clock=loop.clock)
    loop.run(main())
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import Future, Task, events
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from random import Random
from types import CoroutineType
from typing import Any, NoReturn, TypeVar, cast

from holdfast.testing.clock import BEGINNING

T = TypeVar("T")
Callback = Callable[..., object]

# Made for those who write event loops, as this module does; typed here, once.
_running: Callable[[], asyncio.AbstractEventLoop | None] = events._get_running_loop  # pyright: ignore[reportPrivateUsage]
_set_running: Callable[[asyncio.AbstractEventLoop | None], None] = events._set_running_loop  # pyright: ignore[reportPrivateUsage]

CLOSE_ATTEMPTS = 100
"""How often a coroutine may await in its clean-up code before it is left alone."""


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set."""


class Life:
    """What stands for one process: it lives, is frozen, or is dead."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.was_frozen = False
        self._held: list[Handle] = []
        self._loop: VirtualLoop | None = None

    def __repr__(self) -> str:
        state = "dead" if self.is_dead else "frozen" if self.is_frozen else "alive"
        return f"<life {self.name}, {state}>"

    def spawn(self, main: Coroutine[Any, Any, T]) -> Task[T]:
        """Begin this life on the running loop with one task; what that begets belongs to it."""
        context = copy_context()
        context.run(LIFE.set, self)
        return asyncio.get_running_loop().create_task(main, name=self.name, context=context)

    def kill(self) -> None:
        """End it here and now: none of its callbacks runs any more."""
        self.is_dead = True
        self._held.clear()

    def freeze(self) -> None:
        """Hold back all its callbacks until `thaw`."""
        self.is_frozen = self.was_frozen = True

    def thaw(self) -> None:
        """Let it go on with what was held back, in order."""
        self.is_frozen = False
        held, self._held = self._held, []
        if self._loop is not None:
            self._loop.again(held)

    def hold(self, handle: Handle, loop: VirtualLoop) -> None:
        """Keep a callback that came while it was frozen."""
        self._loop = loop
        self._held.append(handle)


LIFE: ContextVar[Life | None] = ContextVar("holdfast_life", default=None)


class Handle(asyncio.TimerHandle):
    """A callback that is ready, or will be at `due`."""

    __slots__ = ("args", "callback", "context", "due")

    def __init__(
        self, callback: Callback, args: tuple[Any, ...], context: Context | None, due: float
    ) -> None:
        # The base class keeps a loop and a source traceback we have no use for.
        self.callback: Callback | None = callback
        self.args, self.due = args, due
        self.context = copy_context() if context is None else context

    def when(self) -> float:
        """Return the due time by the loop's clock."""
        return self.due

    def cancel(self) -> None:
        """Make sure that the callback never runs."""
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        """Tell whether `cancel` was called."""
        return self.callback is None

    def __repr__(self) -> str:
        return f"<Handle {self.callback!r}>"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class NumberedTask(Task[Any]):
    """A task that hashes by its number: by its address, sets of tasks would have any order."""

    def __init__(self, number: int, coro: Any, **given: Any) -> None:
        self._number = number
        super().__init__(coro, **given)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return self._number


def _one_thread(self: VirtualLoop, *args: object, **kwargs: object) -> NoReturn:
    raise RuntimeError(
        "A virtual loop has one thread. Make stores and workers with threaded=False, and all steps "
        "async."
    )


class VirtualLoop(asyncio.AbstractEventLoop):
    """An event loop on which time is what its timers say.

    Callbacks run in the order in which they became ready. With a `seed`, which of several lives
    goes first is drawn by chance; within one life the order stays.
    """

    def __init__(self, *, seed: int | None = None) -> None:
        self.errors: list[dict[str, Any]] = []
        self._now = 0.0
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._born = 0
        self._chance = None if seed is None else Random(seed)
        self._closed = False
        self._tasks: list[Task[Any]] = []

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run until `main` is done, and return its result. Raises `Deadlock`."""
        if _running() is not None:
            main.close()
            raise RuntimeError("a virtual loop cannot run inside another loop")
        _set_running(self)
        try:
            task: Task[T] = self.create_task(main, name="main")
            while not task.done():
                self._once()
            return task.result()
        finally:
            _set_running(None)

    def clock(self) -> int:
        """Return the time in microseconds since 1970, for a store's `clock=`."""
        return BEGINNING + round(self._now * 1e6)

    def again(self, handles: list[Handle]) -> None:
        """Make these callbacks ready."""
        self._ready.extend(handles)

    def abandon(self) -> None:
        """Let go of every task without a word: those of dead lives are pending for ever."""
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if not task.done():
                _close(task.get_coro())
        self._tasks, self._timers = [], []
        self._ready.clear()
        self._closed = True

    def _once(self) -> None:
        while not self._ready:
            self._jump()
        handle = self._next()
        if handle.callback is None:
            return
        life = handle.context.get(LIFE)
        if life is not None and life.is_dead:
            return
        if life is not None and life.is_frozen:
            life.hold(handle, self)
            return
        try:
            handle.context.run(handle.callback, *handle.args)
        except Exception as error:
            self.call_exception_handler({"message": "a callback raised", "exception": error})

    def _next(self) -> Handle:
        if self._chance is None or len(self._ready) == 1:
            return self._ready.popleft()
        lives = dict.fromkeys(handle.context.get(LIFE) for handle in self._ready)
        life = self._chance.choice(tuple(lives))
        handle = next(each for each in self._ready if each.context.get(LIFE) is life)
        self._ready.remove(handle)
        return handle

    def _jump(self) -> None:
        """Let time pass until something is due."""
        timers = self._timers
        while timers and not self._is_live(timers[0][2]):
            heapq.heappop(timers)
        if not timers:
            raise Deadlock(f"Nothing can go on. Waiting: {', '.join(self._waiting()) or 'nobody'}.")
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(timers)[2])

    def _is_live(self, handle: Handle) -> bool:
        life = handle.context.get(LIFE)
        return handle.callback is not None and (life is None or not life.is_dead)

    def _waiting(self) -> list[str]:
        return [task.get_name() for task in self._tasks if not task.done()]

    # --- what asyncio asks of a loop

    def get_debug(self) -> bool:
        """Return False: asyncio's debug mode looks at the real clock."""
        return False

    def is_running(self) -> bool:
        """Tell whether a callback runs right now."""
        return _running() is self

    def is_closed(self) -> bool:
        """Tell whether everything was abandoned."""
        return self._closed

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callback, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Run `callback` after what is ready already."""
        handle = Handle(callback, args, context, self._now)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callback, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run `callback` after so many virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callback, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run `callback` at that moment; of two at one moment, the first asked for goes first."""
        handle = Handle(callback, args, context, when)
        self._born += 1
        heapq.heappush(self._timers, (when, self._born, handle))
        return handle

    def create_future(self) -> Future[Any]:
        """Return a future of this loop."""
        return Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: object,
    ) -> Task[Any]:
        """Start a task."""
        self._born += 1
        task = NumberedTask(self._born, coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        if len(self._tasks) > 256:
            self._tasks = [each for each in self._tasks if not each.done()]
        return task

    def get_task_factory(self) -> None:
        """Return None: all tasks are of one kind."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what asyncio has to say, for whoever runs the loop to look at."""
        self.errors.append(context)

    call_soon_threadsafe = _one_thread  # pyright: ignore[reportAssignmentType]
    run_in_executor = _one_thread  # pyright: ignore[reportAssignmentType]


def _close(coroutine: Any) -> None:
    """End a coroutine that will never be resumed, whatever its clean-up code says to it.

    The innermost goes first: one that awaits in its clean-up would be left behind by the others.
    """
    for _ in range(CLOSE_ATTEMPTS):
        inner = _innermost(coroutine)
        # Its clean-up may raise, or await what nobody will give it.
        with suppress(BaseException):
            inner.close()
            if inner is coroutine:
                return


def _innermost(coroutine: Any) -> Any:
    while isinstance(coroutine.cr_await, CoroutineType):
        awaited = cast("Any", coroutine.cr_await)
        if awaited.cr_frame is None:
            break
        coroutine = awaited
    return coroutine
