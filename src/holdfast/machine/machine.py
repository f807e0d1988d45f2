"""The machine: one body, the events it was fed, and what it asks for.

A body is one async function that runs on a loop of ours. It is fed the events of its history one by
one, the same way live as in replay, and after each it runs until nothing in it is ready. Then it
waits, and everything it waits for is known: steps, timers, signals. The machine does no I/O, has no
clock and no chance of its own, so equal histories leave equal machines behind.

That is checked, not hoped for. An answer must be for something the body waits for at that moment,
and the answer to a step names the arguments it was asked with, by digest. Anything else means that
the code has changed under the history, and raises `ReplayMismatch`.

A machine is closed, never left to the garbage collector, which would go on with the body's clean-up
code where its steps are plain calls.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from holdfast.errors import HoldfastError, ReplayMismatch, TooManyAsks, Undecodable
from holdfast.machine.changes import Changes, changes_of
from holdfast.machine.ending import ended_of
from holdfast.machine.lines import Lines
from holdfast.machine.loop import Loop
from holdfast.machine.signals import Letter, Mailbox
from holdfast.machine.source import source_of
from holdfast.machine.spin import running_loop
from holdfast.machine.tasks import (
    half_way,
    is_closed,
    retire,
    transparent,
    unfinished,
    unwind_generator,
)
from holdfast.machine.values import Signature
from holdfast.model.asks import Ended, StepAsk, Turn
from holdfast.model.events import Event, Failure
from holdfast.model.failures import decode_failure
from holdfast.model.makers import maker
from holdfast.model.settings import Guard

if TYPE_CHECKING:
    from holdfast.machine.sagas import Sagas

Body = Callable[..., Coroutine[Any, Any, Any]]

MISSING: Final = object()
"""Says that `feed` was given no decoded value."""

_new_ask = maker(StepAsk)

BLANK = blake2b(digest_size=8)
"""Copied for each payload, at three quarters of the price of a new one."""

MAX_ASKS = 10_000
"""How many steps a body may wait for at once. The same on every host: a body may notice it."""

NOTHING_AHEAD: Iterator[Event] = iter(())

LISTED = 5
"""How many awaited things a message names."""


class StepLike(Protocol):
    """What the machine needs to know of a step's definition."""

    @property
    def name(self) -> str:
        """The first part of its keys."""
        ...

    @property
    def signature(self) -> Signature:
        """How its arguments and its result cross the line."""
        ...

    def error_of(self, failure: Failure, key: str) -> Exception:
        """Return what the body catches when the step failed for good."""
        ...


def current() -> Machine | None:
    """Return the machine whose body is running right now, if one is."""
    loop = running_loop()
    return loop.machine if type(loop) is Loop else None


class Machine:
    """One run's body: fed with events, asked for what it wants. See the module's theory."""

    __slots__ = ("_ahead", "_dropped", "_fresh", "_futures", "_is_inside", "_mailbox", "_next",
                 "_unstarted", "asks", "body", "cancelled_by", "changes", "ended", "generation",
                 "guard", "is_quiet", "lines", "loop", "notes", "now", "ns", "past", "run", "sagas",
                 "seq", "signature", "unawaited", "violation", "warnings")  # fmt: skip

    def __init__(
        self, body: Body, signature: Signature, *, ns: str, run: str, guard: Guard = "raise"
    ) -> None:
        self.body, self.signature = body, signature
        self.ns, self.run = ns, run
        self.seq = self.now = 0
        self.asks: dict[str, StepAsk] = {}
        self.ended: Ended | None = None
        self.guard: Guard = guard
        self.violation: HoldfastError | None = None
        self.warnings: tuple[str, ...] = ()
        self.lines: Lines | None = None
        self.is_quiet = False
        self.unawaited: tuple[str, ...] = ()
        self.loop = Loop(self)  # type: ignore[abstract]
        self._futures: dict[str, Future[Any]] = {}
        self._fresh: dict[str, StepAsk] = {}
        self._dropped: list[str] | None = None
        self._unstarted: dict[str, Coroutine[Any, Any, Any]] = {}
        self._mailbox: Mailbox | None = None
        self.changes: Changes | None = None
        self.sagas: Sagas | None = None
        self.notes: tuple[Event, ...] = ()
        self.past: Sequence[Event] | None = None
        self.generation = 1
        self.cancelled_by = ""
        self._is_inside = False
        self._ahead: Iterator[Event] = NOTHING_AHEAD
        self._next: Event | None = None

    # --- what a host does with it

    def feed(self, event: Event, value: object = MISSING) -> None:
        """Let the body see `event` and run until nothing in it is ready.

        `value` is the decoded result of a step, when the host has it already. Marks only move
        `seq`; a note is compared with what the body said. Raises `ReplayMismatch`, `Undecodable`
        or what the body may not go on with; close the machine then.
        """
        self.seq = event.seq
        take = self._TAKERS.get(event.kind)
        if take is None:
            return
        self.now = event.at
        take(self, event, value)

    def feed_all(
        self, events: Sequence[Event], generation: int = 1, *, is_new: bool = False
    ) -> tuple[int, ...]:
        """Feed a stored history: the same as feeding its events one by one, and faster.

        `is_new` says that no body has ever been fed these events, so that nothing was asked for
        in their turns yet: such a body takes up every change of the code.

        Answers of an earlier generation that the body does not wait for are left out: it came to
        them by way of a failure that no longer counts. Their seqs are returned.

        A step that is asked for while nothing else in the body is ready, and whose result is the
        next event, gets it at once instead of waiting to be fed: see `_foreseen`.
        """
        self._ahead = iter(events)
        self.is_quiet = len(events) > 1
        self.generation, self.past = generation, None if is_new else events
        left_out: list[int] = []
        try:
            with self.entered():
                self._next = next(self._ahead, None)
                while (event := self._next) is not None:
                    self._next = next(self._ahead, None)
                    if event.generation < generation and not self._waits_for(event):
                        left_out.append(event.seq)
                    else:
                        self.feed(event)
        finally:
            self._ahead, self._next, self.past = NOTHING_AHEAD, None, None
            self.is_quiet = False
        return tuple(left_out)

    @contextmanager
    def entered(self) -> Generator[None]:
        """Enter the loop once for several events that are fed one after another."""
        outside = self.loop.enter()
        self._is_inside = True
        try:
            yield
        finally:
            self._is_inside = False
            self.loop.leave(outside)

    def take_turn(self) -> Turn:
        """Return what changed since the last take: new asks, asks given up, and the end."""
        turn = Turn([*self._fresh.values()], [], self.ended)
        if self._fresh:
            self._fresh = {}
        if self._dropped:
            turn.dropped, self._dropped = self._dropped, None
        return turn

    def next_timer(self) -> tuple[int, str] | None:
        """Return due time and key of the timer that fires next."""
        return None if self.loop.dead else self.loop.timers.earliest()

    def awaited_signals(self) -> tuple[str, ...]:
        """Return the names of the signals the body waits for."""
        return self._mailbox.awaited() if self._mailbox and not self.loop.dead else ()

    def is_stuck(self) -> bool:
        """Tell whether the body waits, but for nothing that can ever come."""
        loop = self.loop
        if self.ended or loop.dead or not loop.main or self.asks:
            return False
        return not loop.timers and not self.awaited_signals()

    def source(self) -> str:
        """Return `file.py:42 in checkout`: where in the user's code the body waits."""
        return source_of(self.loop.tasks)

    def fingerprint(self) -> tuple[Any, ...]:
        """Return all the body waits for, or how it ended: equal for equal histories."""
        ended = self.ended
        asks = tuple((key, ask.digest, ask.asked_seq) for key, ask in self.asks.items())
        timers = tuple((timer.key, timer.due) for timer in self.loop.timers)
        failed = ended.failure.type if ended and ended.failure else ""
        end = ended and (ended.status, ended.payload, failed, ended.leftovers)
        changes = self.changes.told() if self.changes else ()
        return (asks, timers, self.awaited_signals(), end, changes)

    def close(self) -> None:
        """End the body without letting it ask for anything more. May be called again."""
        loop = self.loop
        if not loop.dead or loop.tasks or loop.generators or self._unstarted:
            outside = loop.enter()
            try:
                self._retire(cancel=False)
            finally:
                loop.leave(outside)
        loop.forget()
        self.asks, self._futures, self._fresh, self._mailbox = {}, {}, {}, None
        self.violation = self.changes = self.sagas = None  # their frames and their machine

    # --- what a body does with it

    def call(
        self, step: StepLike, args: tuple[Any, ...], kwargs: dict[str, Any], options: Any = None
    ) -> Coroutine[Any, Any, Any]:
        """Take the key and the arguments of a step call; the step is asked for when awaited."""
        loop = self.loop
        if loop.dead:
            loop.refuse()
        payload = step.signature.encode(args, kwargs)
        key = loop.scope().take(step.name)
        call = self._unstarted[key] = self._ask(key, step, payload, options)
        return call

    @transparent
    async def _ask(self, key: str, step: StepLike, payload: bytes, options: Any) -> Any:
        loop = self.loop
        if loop.dead:
            loop.refuse()
        self._unstarted.pop(key, None)
        if len(self.asks) >= MAX_ASKS:
            raise TooManyAsks(key=key, limit=MAX_ASKS)
        hashed = BLANK.copy()
        hashed.update(payload)
        checked = hashed.digest() + step.signature.schema
        event = self._next
        if event is not None and event.key == key and event.digest == checked:
            found = self._foreseen(step, event)
            if found is not MISSING:
                return found
        ask = _new_ask((key, step, payload, checked, self.seq, self.now, options))
        self.asks[key] = self._fresh[key] = ask
        future = self._futures[key] = Future(loop=loop)
        try:
            return await future
        except BaseException:
            self._drop(key)
            raise

    def take_key(self, name: str) -> str:
        """Return the next key of that name in the running task."""
        if self.loop.dead:
            self.loop.refuse()
        return self.loop.scope().take(name)

    def track(self, key: str, call: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Remember a call that took `key`, until it is awaited."""
        self._unstarted[key] = call
        return call

    def begin(self, key: str) -> None:
        """Note that a tracked call is awaited now."""
        if self.loop.dead:
            self.loop.refuse()
        self._unstarted.pop(key, None)

    @property
    def mailbox(self) -> Mailbox:
        """The signals that came, and who waits for some."""
        if self._mailbox is None:
            self._mailbox = Mailbox(self)
        return self._mailbox

    # --- the events

    def _start(self, event: Event, _: object) -> None:
        loop = self.loop
        if loop.main is not None or loop.dead:
            raise self._mismatch("the start of the run", "has started already")
        try:
            args, kwargs = self.signature.decode(event.payload or b"{}")
        except HoldfastError as error:
            raise Undecodable(seq=event.seq, what="the input", problem=error.args[0]) from error
        loop.start = event.at
        loop.begin(self.body(*args, **kwargs))
        self._spin()

    def _complete(self, event: Event, value: object) -> None:
        key = event.key
        ask = self.asks.get(key)
        if ask is None or ask.digest != event.digest:
            ask = self._answered(event, "the result of step ")
        if value is MISSING:
            value = self._decoded(ask.step, event)
        self._settle(key).set_result(value)
        self._spin()

    def _fail(self, event: Event, _: object) -> None:
        ask = self._answered(event, "the failure of step ")
        try:
            raised = ask.step.error_of(decode_failure(event.payload), ask.key)
        except (ValueError, TypeError, HoldfastError) as error:
            what = f"the failure of {ask.key}"
            raise Undecodable(seq=event.seq, what=what, problem=str(error)) from error
        self._settle(ask.key).set_exception(raised)
        self._spin()

    def _fire(self, event: Event, _: object) -> None:
        timer = self.loop.timers.pop(event.key)
        if timer is None or self.loop.dead:
            raise self._mismatch(f"the firing of timer {event.key}")
        self.loop.fire(timer)
        self._spin()

    def _receive(self, event: Event, _: object) -> None:
        if self.loop.dead:
            return
        name, _slash, message = event.key.partition("/")
        self.mailbox.put(name, Letter(message, event.payload or b"null"))
        self._spin()

    def _cancel(self, event: Event, _: object) -> None:
        # A state, not a blow: a second one would hit the clean-up after the first.
        if self.cancelled_by or self.loop.dead or self.loop.main is None:
            return
        self.cancelled_by = event.kind
        self.loop.main.cancel()
        self._spin()

    def _hear(self, event: Event, _: object) -> None:
        changes_of(self).compare(event)

    def _close_child(self, event: Event, _: object) -> None:
        raise self._mismatch(f"the end of child {event.key}")

    # --- running

    def _answered(self, event: Event, recorded: str) -> StepAsk:
        """Return the ask this event answers. Raises `ReplayMismatch` if the body made none such."""
        ask = self.asks.get(event.key)
        if ask is None:
            raise self._mismatch(recorded + event.key)
        found, asked = event.digest, ask.digest
        if found == asked:
            return ask
        if found is not None and found[8:] == asked[8:]:
            raise self._mismatch(recorded + event.key, f"calls {event.key} with other arguments")
        return ask

    def _waits_for(self, event: Event) -> bool:
        """Tell whether this answer would be accepted now; what is no answer always is."""
        if event.kind == "timer.fired":
            return event.key in self.loop.timers
        if event.kind not in ("step.completed", "step.failed"):
            return True
        ask, found = self.asks.get(event.key), event.digest
        return ask is not None and (
            found is None or found == ask.digest or found[8:] != ask.digest[8:]
        )

    def _foreseen(self, step: StepLike, event: Event) -> object:
        """Return the result of a step that is asked for now, if replay has it at hand.

        The body would wait until nothing else in it is ready, and then be fed the next event. If
        nothing else is ready and the next event is this result, waiting would change nothing.
        """
        loop = self.loop
        if event.kind != "step.completed" or loop.ready or not loop.is_last:
            return MISSING
        try:
            found = step.signature.result.decode(event.payload or b"null", where="result")
        except HoldfastError:
            return MISSING  # it is raised when the event is fed, where no body can catch it
        self._next = next(self._ahead, None)
        self.seq, self.now = event.seq, event.at
        return found

    def _decoded(self, step: StepLike, event: Event) -> object:
        where = f"result of {event.key}"
        try:
            return step.signature.result.decode(event.payload or b"null", where=where)
        except HoldfastError as error:
            raise Undecodable(seq=event.seq, what=f"the {where}", problem=error.args[0]) from error

    def _settle(self, key: str) -> Future[Any]:
        del self.asks[key]
        self._fresh.pop(key, None)
        return self._futures.pop(key)

    def _drop(self, key: str) -> None:
        """Forget an ask the body gave up; tell the host if it knows of it."""
        if self.asks.pop(key, None) is not None:
            del self._futures[key]
            if self._fresh.pop(key, None) is None:
                self._dropped = self._dropped or []
                self._dropped.append(key)

    def _spin(self) -> None:
        if self._is_inside:
            self._run()
            return
        loop = self.loop
        outside = loop.enter()
        try:
            self._run()
        finally:
            loop.leave(outside)

    def _run(self) -> None:
        loop = self.loop
        loop.drain()
        if self.violation is not None:
            raise self.violation  # whatever the body caught
        main = loop.main
        if main is not None and main.done() and self.ended is None:
            if self.sagas is not None and self.sagas.hold():
                return
            ended = ended_of(main, self)
            leftovers = tuple(task.label for task in unfinished(loop.tasks))
            self._retire(cancel=True)
            self.ended = ended._replace(leftovers=leftovers)

    def _retire(self, *, cancel: bool) -> None:
        """Make the loop dead and end all that is left on it."""
        loop = self.loop
        loop.dead = True
        while loop.tasks:
            left, loop.tasks = loop.tasks, []
            retire([*unfinished(left)], cancel=cancel)
        while loop.generators:
            abandoned = [each for each in loop.generators if each.ag_frame is not None]
            loop.generators = None
            for generator in reversed(abandoned):
                if cancel:
                    self.warnings += (half_way(generator),)
                unwind_generator(generator)
        unstarted, self._unstarted = self._unstarted, {}
        open_calls = {key: call for key, call in unstarted.items() if not is_closed(call)}
        for call in open_calls.values():
            call.close()
        self.unawaited += tuple(open_calls)

    def _mismatch(self, recorded: str, asked: str = "") -> ReplayMismatch:
        return ReplayMismatch(
            seq=self.seq, recorded=recorded, asked=asked or self._waits(), source=self.source()
        )

    def _waits(self) -> str:
        """Say in words what the body waits for."""
        if self.ended:
            return "has ended"
        names = [*self.asks, *(timer.key for timer in self.loop.timers)]
        names += [f"signal {name}" for name in self.awaited_signals()]
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        return f"waits for {', '.join(names[:LISTED]) or 'nothing'}{more}"

    _TAKERS: ClassVar[Mapping[str, Callable[..., None]]] = {
        "step.completed": _complete,
        "step.failed": _fail,
        "timer.fired": _fire,
        "run.started": _start,
        "signal.received": _receive,
        "cancel.requested": _cancel,
        "deadline.passed": _cancel,
        "child.closed": _close_child,
        "note.patched": _hear,
    }
