"""What a body asks for: step calls with their keys, and what becomes of them.

A call takes its key and its arguments at once; the step is asked for when the call is awaited. A
result that replay has at hand is given at once.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.errors import HoldfastError, TooManyAsks, Undecodable
from holdfast.machine.loop import Loop
from holdfast.machine.source import source_of
from holdfast.machine.tasks import transparent
from holdfast.machine.values import Signature
from holdfast.machine.values.schema import new_digest
from holdfast.model.asks import Ended, StepAsk, Turn
from holdfast.model.events import Event, Failure
from holdfast.model.makers import maker

if TYPE_CHECKING:
    from holdfast.machine.children import Children

MISSING: Final = object()
"""Says that `feed` was given no decoded value."""

_new_ask = maker(StepAsk)

MAX_ASKS = 10_000
"""How many steps a body may wait for at once. The same on every host: a body may notice it."""

NOTHING_DROPPED: list[str] = []
"""Shared by all turns that drop nothing, which is nearly all of them; never changed."""

NOTHING: dict[str, Any] = {}
"""Shared by all who have none, because there may be thousands of runs that wait; never changed."""

NOTHING_AHEAD: Iterator[Event] = iter(())


if TYPE_CHECKING:
    from holdfast.machine.questions import Outside


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


class Asking:
    """The half of a machine that keeps what its body asks for. `Machine` runs the body."""

    __slots__ = ("_ahead", "_dropped", "_fresh", "_futures", "_heard", "_next", "_unstarted",
                 "asks", "children", "ended", "loop", "now", "seq")  # fmt: skip

    loop: Loop
    outside: Outside | None

    def __init__(self) -> None:
        self.seq = self.now = 0
        self.asks: dict[str, StepAsk] = NOTHING
        self.ended: Ended | None = None
        self.children: Children | None = None
        self._futures: dict[str, Future[Any]] = NOTHING
        self._fresh: dict[str, StepAsk] = NOTHING
        self._dropped: list[str] | None = None
        self._unstarted: dict[str, Coroutine[Any, Any, Any]] = NOTHING
        self._ahead: Iterator[Event] = NOTHING_AHEAD
        self._next: Event | None = None
        self._heard: Event | None = None

    def take_turn(self) -> Turn:
        """Return what changed since the last take: new asks, asks given up, and the end."""
        turn = Turn([*self._fresh.values()], NOTHING_DROPPED, self.ended)
        if self._fresh:
            self._fresh = NOTHING
        if self._dropped:
            turn.dropped, self._dropped = self._dropped, None
        return turn

    def call(
        self, step: StepLike, args: tuple[Any, ...], kwargs: dict[str, Any], options: Any = None
    ) -> Coroutine[Any, Any, Any]:
        """Take the key and the arguments of a step call; the step is asked for when awaited."""
        loop = self.loop
        if loop.dead:
            loop.refuse()
        signature = step.signature
        payload = None if kwargs else signature.quickly(args)
        if payload is None:
            payload = signature.encode(args, kwargs)
        given = None if kwargs else args
        key = loop.take(step.name)
        if self._unstarted is NOTHING:  # as `track` does, without a call more at each step
            self._unstarted = {}
        call = self._unstarted[key] = self._ask(key, step, signature, payload, options, given)
        return call

    def call_as(
        self, key: str, step: StepLike, payload: bytes, options: Any = None
    ) -> Coroutine[Any, Any, Any]:
        """Return a call of a step under a key that was taken before, with encoded arguments."""
        return self.track(key, self._ask(key, step, step.signature, payload, options))

    @transparent
    async def _ask(  # noqa: C901 - each step passes here: a call more is one for each
        self, key: str, step: StepLike, signature: Signature, payload: bytes, options: Any,
        given: tuple[Any, ...] | None = None,
    ) -> Any:  # fmt: skip
        loop = self.loop
        if loop.dead:
            loop.refuse()
        self._unstarted.pop(key, None)
        hashed = new_digest()
        hashed.update(payload)
        checked = hashed.digest() + signature.schema
        event = self._next
        if (
            event is not None
            and event.key == key
            and event.digest == checked
            and event.kind == "step.completed"
            and loop.is_last
            and not loop.ready
        ):
            # The body would wait until nothing else in it is ready, and then be fed the next event.
            # Nothing else is ready and the next event is this result: to wait would change nothing.
            told, result = event.payload or b"null", signature.result
            try:
                found = result.read(told) if result.read else result.decode(told, where="result")
            except (ValueError, HoldfastError):
                pass  # it is raised when the event is fed, where no body can catch it
            else:
                self._next = next(self._ahead, None)
                self.seq, self.now = event.seq, event.at
                return found
        if len(self.asks) >= MAX_ASKS:
            raise TooManyAsks(key=key, limit=MAX_ASKS)
        values = None if given is None else signature.unchanged(given)
        ask = _new_ask((key, step, payload, checked, self.seq, self.now, options, values))
        if self._fresh is NOTHING:
            self._fresh = {}
        if self.asks is NOTHING:
            self.asks, self._futures = {}, {}
        self.asks[key] = self._fresh[key] = ask
        future = self._futures[key] = Future(loop=loop)
        try:
            return await future
        except BaseException:
            self._drop(key)
            raise

    def has_heard(self, key: str, payload: bytes) -> bool:
        """Tell whether the next event of a replay is the note of this decision; then it counts.

        It would be compared when all that is ready has run, and change nothing in the body. To
        the body it is not there before that: `seq` and `now` stay as they are until then.
        """
        event = self._next
        if event is None or event.key != key or event.payload != payload:
            return False
        if event.kind != "note.decided":
            return False
        self._heard, self._next = event, next(self._ahead, None)
        return True

    def take_key(self, name: str) -> str:
        """Return the next key of that name in the running task."""
        loop = self.loop
        if loop.dead:
            loop.refuse()
        return loop.take(name)

    def track(self, key: str, call: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Remember a call that took `key`, until it is awaited."""
        if self._unstarted is NOTHING:
            self._unstarted = {}
        self._unstarted[key] = call
        return call

    def begin(self, key: str) -> None:
        """Note that a tracked call is awaited now."""
        if self.loop.dead:
            self.loop.refuse()
        self._unstarted.pop(key, None)
        if not self._unstarted:
            self._unstarted = NOTHING

    def is_tracked(self, key: str) -> bool:
        """Tell whether a call took that key and is not awaited yet."""
        return key in self._unstarted

    # --- the answers

    def source(self) -> str:
        """Return `file.py:42 in checkout`: where in the user's code the body waits."""
        return source_of(self.loop.tasks)

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
