"""The handlers of a body: what it answers, and what it does when it is asked to.

A body registers them. A query's handler is a plain function that only looks. An update is judged
first, by its validator, while nothing of it is recorded; once its `update.accepted` is fed, its
handler runs as a task of the body, at a place of the key tree that counts the accepted updates of
that name. When the handler ends, the body says so in a note: that is what the caller hears.

The note is compared in a replay: a handler that ended must end again, and in the same way. What it
returned is not input of the body; if that differs, there is only a warning.

Whoever looks (a query's handler, a validator) runs on a loop that counts as dead: it can ask for
nothing. What it wakes or cancels in the body cannot be taken back, and spoils the machine.
"""

from __future__ import annotations

from asyncio import CancelledError, Future
from collections.abc import Callable, Iterator
from contextvars import Context
from hashlib import blake2b
from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import (
    BadDefinition,
    BodyMeddled,
    HoldfastError,
    MachineClosed,
    ReplayMismatch,
    Undecodable,
)
from holdfast.machine.tasks import Task
from holdfast.model.events import Event, EventKind, Failure
from holdfast.model.failures import encode_failure, failure_of

if TYPE_CHECKING:
    from holdfast.machine.machine import Machine
    from holdfast.machine.talk import Query, Talk, Update

LOOKS_ONLY = "it only looks at the body's state: put what it does into an update, or into the body"


class Handler(NamedTuple):
    """What a body does about one name."""

    talk: Talk[Any, Any]
    function: Callable[..., Any]
    validate: Callable[..., Any] | None = None


class Answer(NamedTuple):
    """What a look gave: the reply, or the problem in words and as text of a traceback."""

    payload: bytes | None = None
    problem: str = ""
    traceback: str = ""
    is_spoilt: bool = False
    """The handler woke or cancelled something in the body: this machine must not go on."""


def handlers_of(machine: Machine) -> Handlers:
    """Return the handlers of the body of `machine`."""
    if machine.handlers is None:
        machine.handlers = Handlers(machine)
    return machine.handlers


class Handlers:
    """What one body has registered, and the updates under way."""

    __slots__ = ("_early", "_idle", "_machine", "_said", "_sum", "keeper", "queries", "running",
                 "updates")  # fmt: skip

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.queries: dict[str, Handler] = {}
        self.updates: dict[str, Handler] = {}
        self.running: dict[str, Task] = {}
        self._said: dict[str, Event] = {}
        self._early: list[Event] = []
        self._idle: list[Future[None]] = []
        self._sum = b""
        self.keeper: Any = None
        """Who keeps the state of an entity; with one, updates are taken one at a time."""

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of the updates that are taken now; what is not taken waits in the inbox."""
        is_busy = self.keeper is not None and bool(self.running)
        return () if is_busy else tuple(self.updates)

    # --- what a body does with it

    def register(
        self, kind: type[Query[Any, Any]] | type[Update[Any, Any]], handler: Handler
    ) -> None:
        """Handle what has this name from now on. Raises `BadDefinition` if something does."""
        known = self.queries if kind.kind == "query" else self.updates
        name = handler.talk.name
        if name in known:
            raise BadDefinition(
                what=f"{kind.kind} {name!r} has a handler already",
                hint="Register one handler for each name, at the start of the body.",
            )
        known[name] = handler
        early = [event for event in self._early if _name_of(event) == name]
        if early and kind.kind == "update":
            self._early = [event for event in self._early if event not in early]
            for event in early:
                self._begin(handler, event)

    async def finished(self) -> None:
        """Wait until no update is under way."""
        while self.running:
            future: Future[None] = Future(loop=self._machine.loop)
            self._idle.append(future)
            await future

    # --- queries

    def answer(self, name: str, payload: bytes | None) -> Answer:
        """Ask the handler of a query that is known."""
        handler = self.queries[name]
        try:
            arguments = handler.talk.arguments(payload)
        except HoldfastError as error:
            return Answer(problem=error.args[0])
        with self._machine.loop.looked_at() as look:
            try:
                found = plainly(handler.function, arguments)
                if iscoroutine(found):
                    found.close()
                    return Answer(problem="it is asynchronous, and a query waits for nothing")
                answer = Answer(handler.talk.reply(found))
            except MachineClosed:
                answer = Answer()
            except Exception as error:
                failure = failure_of(error)
                told = f"{failure.type}: {failure.message}"
                answer = Answer(problem=told, traceback=failure.traceback)
        if look.has_touched:
            return Answer(problem=f"{look.touched}, and {LOOKS_ONLY}", is_spoilt=look.is_spoilt)
        return answer

    # --- updates

    def judge(self, name: str, payload: bytes | None) -> Failure | None:
        """Return why an update is refused, if it is; nothing of it is recorded yet.

        Raises `BodyMeddled` if the validator changed what the body waits for.
        """
        handler = self.updates[name]
        refusal: Failure | None = None
        try:
            arguments = handler.talk.arguments(payload)
        except HoldfastError as error:
            return failure_of(error)._replace(traceback="")
        if handler.validate is None:
            return None
        with self._machine.loop.looked_at() as look:
            try:
                plainly(handler.validate, arguments)
            except MachineClosed:
                pass
            except Exception as error:
                refusal = failure_of(error)._replace(traceback="")
        if look.is_spoilt:
            raise BodyMeddled(update=name)
        if look.has_touched:
            told = f"the validator of update {name} {look.touched}, and {LOOKS_ONLY}"
            return Failure("BadDefinition", told)
        return refusal

    def accept(self, event: Event) -> None:
        """Start the handler of an update that is recorded."""
        handler = self.updates.get(_name_of(event))
        if handler is not None:
            self._begin(handler, event)
        elif event.generation < self._machine.generation:
            # The body came to its handler by way of a failure that no longer counts.
            self._early.append(event)
        else:
            raise self._mismatch(event, "the acceptance of update", "has no handler for it")

    def has_said(self, note: Event) -> bool:
        """Tell whether a handler ended as this note says."""
        said = self._said.get(note.key)
        return said is not None and said.kind == note.kind

    def compare(self, note: Event) -> None:
        """Hold what the body said in this turn against the recorded note."""
        if self._machine.loop.dead and note.key in self.running:
            return  # cut short: the body continued as new before it was done
        if not self.has_said(note):
            is_open = note.key in self.running
            asked = "has not ended it" if is_open else "ended it otherwise, or never had it"
            raise self._mismatch(note, f"the end ({note.kind}) of update", asked)
        said = self._said.pop(note.key)
        if note.kind == "update.completed" and said.payload != note.payload:
            told = f"update {note.key} was told another result than its handler gives now"
            self._machine.warnings += (told,)

    def unrecorded(self) -> tuple[Event, ...]:
        """Return what handlers said in a replay that the history does not hold."""
        return tuple(self._said.values())

    def told(self) -> tuple[object, ...]:
        """Return what is registered, under way and said, for a comparison with a replay."""
        return (tuple(self.queries), tuple(self.updates), tuple(self.running), self._sum)

    def _begin(self, handler: Handler, event: Event) -> None:
        loop = self._machine.loop
        if loop.main is None:
            raise self._mismatch(event, "the acceptance of update", "has not started")
        try:
            arguments = handler.talk.arguments(event.payload)
        except HoldfastError as error:
            what = f"the argument of update {event.key}"
            raise Undecodable(seq=event.seq, what=what, problem=error.args[0]) from error
        scope = loop.main.scope.branch(f"update.{handler.talk.name}")
        work = self._work(handler, event.key, arguments)
        task = Task(work, loop, scope=scope, context=Context(), name=None)
        loop.tasks = [*(each for each in loop.tasks if not each.done()), task]
        self.running[event.key] = task

    async def _work(self, handler: Handler, key: str, arguments: tuple[Any, ...]) -> None:
        kind: EventKind = "update.completed"
        try:
            found = handler.function(*arguments)
            if isawaitable(found):
                found = await found
            payload = handler.talk.reply(found)
        except (Exception, CancelledError) as error:
            if self._machine.loop.dead:
                raise
            kind, payload = "update.failed", encode_failure(failure_of(error))
        self._end(kind, key, payload)

    def _end(self, kind: EventKind, key: str, payload: bytes) -> None:
        machine = self._machine
        del self.running[key]
        note = self._said[key] = Event(kind, machine.now, key, payload, machine.seq)
        # The words of a failure may hold addresses and lines of source.
        told = payload if kind == "update.completed" else b""
        self._sum = blake2b(b"\0".join((self._sum, key.encode(), told)), digest_size=8).digest()
        if machine.past is None:
            machine.notes = (*machine.notes, note)
        if not self.running:
            for future in self._take_idle():
                future.set_result(None)

    def _take_idle(self) -> Iterator[Future[None]]:
        idle, self._idle = self._idle, []
        return (future for future in idle if not future.done())

    def _mismatch(self, event: Event, recorded: str, asked: str) -> ReplayMismatch:
        machine = self._machine
        return ReplayMismatch(
            seq=event.seq, recorded=f"{recorded} {event.key}", asked=asked, source=machine.source()
        )


def plainly(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call what only looks. The guard knows this function: what it calls touches no file."""
    return Context().run(function, *arguments)


def _name_of(event: Event) -> str:
    return event.key.partition("/")[0]
