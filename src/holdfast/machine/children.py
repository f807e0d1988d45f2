"""Children: runs that a body starts, and what it hears of them.

A call takes its key at once; the child is asked for when the call is awaited. The host records its
start (`child.started`) in the commit that creates it, and its end (`child.closed`) when the message
about it has come. Both are fed to the body: a start is what `start_child` waits for, an end is what
everybody waits for who wants the result. A body that no longer waits is told all the same, so that
whoever reads the history sees how its children ended.

What the body does to its children meanwhile, cancels and signals, goes out with the commit of the
turn. It leaves no event: a message has an id made of its key, and is taken once.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import (
    ChildFailed,
    HoldfastError,
    RunConflict,
    TooDeep,
    TooManyAsks,
    Undecodable,
)
from holdfast.machine.asking import MAX_ASKS
from holdfast.machine.tasks import transparent
from holdfast.machine.values.schema import new_digest
from holdfast.model.asks import ChildAsk, ChildOptions, ToChild
from holdfast.model.events import Event
from holdfast.model.failures import decode_failure
from holdfast.model.family import MAX_DEPTH, REFUSED, child_id, depth_of, report_of, started_id

if TYPE_CHECKING:
    from holdfast.machine.machine import Machine

T = TypeVar("T")


class Known:
    """A child as its parent's body knows it, from the ask to the end."""

    __slots__ = ("_waiters", "ask", "end", "error", "id", "is_given_up", "is_started", "value")

    def __init__(self, ask: ChildAsk) -> None:
        self.ask, self.id = ask, ask.id
        self.is_started = self.is_given_up = False
        self.end = ""
        self.value: Any = None
        self.error: ChildFailed | None = None
        self._waiters: list[Future[None]] = []

    @property
    def is_awaited(self) -> bool:
        """Tell whether somebody in the body waits for it."""
        return bool(self._waiters)

    async def start(self, machine: Machine) -> None:
        """Return when the child is recorded as started. Raises `ChildFailed` if it is refused."""
        while not self.is_started and not self.end:
            await self._change(machine)
        if not self.is_started and self.error is not None:
            raise self.error

    async def result(self, machine: Machine) -> Any:
        """Return what the child returned, when it has. Raises `ChildFailed`."""
        while not self.end:
            await self._change(machine)
        if self.error is not None:
            raise self.error
        return self.value

    async def _change(self, machine: Machine) -> None:
        if machine.loop.dead:
            machine.loop.refuse()
        # A future for each who waits: one who is cancelled takes its future along.
        waiter: Future[None] = Future(loop=machine.loop)
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def wake(self) -> None:
        """Let everybody look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Children:
    """The open children of one body, those it asks for, and what it sends to them."""

    __slots__ = ("depth", "fresh", "open", "sends")

    def __init__(self) -> None:
        self.depth = 0
        self.open: dict[str, Known] = {}
        self.fresh: dict[str, ChildAsk] = {}
        self.sends: list[ToChild] = []

    def awaited(self) -> Iterator[str]:
        """Yield the ids of the children that somebody waits for."""
        return (known.id for known in self.open.values() if known.is_awaited)

    def told(self) -> tuple[Any, ...]:
        """Return what is known of them, for a comparison with a replay."""
        return tuple(
            (
                key,
                known.id,
                known.ask.digest,
                known.ask.asked_seq,
                known.is_started,
                known.is_given_up,
            )
            for key, known in self.open.items()
        )

    def fits(self, event: Event) -> bool:
        """Tell whether this start or end would be accepted now."""
        known = self.open.get(event.key)
        if known is None or (known.is_started and event.kind == "child.started"):
            return False
        found, asked = event.digest, known.ask.digest
        return found is None or found == asked or found[8:] != asked[8:]

    def take_sends(self) -> list[ToChild]:
        """Return what goes out with this turn, once."""
        sends, self.sends = self.sends, []
        return sends


def children_of(machine: Machine) -> Children:
    """Return the children of `machine`."""
    if machine.children is None:
        machine.children = Children()
    return machine.children


# --- what a body does


def call(
    machine: Machine, workflow: Any, input: bytes, options: ChildOptions
) -> Coroutine[Any, Any, Any]:
    """Take the key of a call; the child is started, and its result waited for, when awaited."""
    key = machine.take_key(workflow.name)
    return machine.track(key, _call(machine, key, workflow, input, options))


def start(
    machine: Machine,
    workflow: Any,
    input: bytes,
    options: ChildOptions,
    made: Callable[[Known], T],
) -> Coroutine[Any, Any, T]:
    """Take the key of a start; the child is started when this is awaited, and a handle `made`."""
    key = machine.take_key(workflow.name)
    return machine.track(key, _start(machine, key, workflow, input, options, made))


def cancel(machine: Machine, known: Known, reason: str) -> None:
    """Ask a child to stop, with the commit of this turn."""
    if not known.end:
        _send(machine, known, ToChild(known.id, "cancel", "", None, "", machine.seq, reason))


def signal(machine: Machine, known: Known, name: str, payload: bytes) -> None:
    """Send a child a signal, with the commit of this turn."""
    _send(machine, known, ToChild(known.id, "signal", name, payload, "", machine.seq))


def _send(machine: Machine, known: Known, send: ToChild) -> None:
    id = f"{machine.run}/{machine.generation}/{machine.take_key(send.kind)}"
    children_of(machine).sends.append(send._replace(id=id))


@transparent
async def _call(
    machine: Machine, key: str, workflow: Any, input: bytes, options: ChildOptions
) -> Any:
    known = _ask(machine, key, workflow, input, options)
    try:
        return await known.result(machine)
    except BaseException:
        _give_up(machine, known)
        raise


@transparent
async def _start(
    machine: Machine,
    key: str,
    workflow: Any,
    input: bytes,
    options: ChildOptions,
    made: Callable[[Known], T],
) -> T:
    known = _ask(machine, key, workflow, input, options)
    try:
        await known.start(machine)
    except BaseException:
        if not known.is_started:
            _give_up(machine, known)
        raise
    return made(known)


def _ask(machine: Machine, key: str, workflow: Any, input: bytes, options: ChildOptions) -> Known:
    machine.begin(key)
    children = children_of(machine)
    if children.depth >= MAX_DEPTH:
        raise TooDeep(key=key, depth=children.depth + 1, limit=MAX_DEPTH)
    if len(machine.asks) + len(children.open) >= MAX_ASKS:
        raise TooManyAsks(key=key, limit=MAX_ASKS)
    hashed = new_digest()
    hashed.update(input)
    digest = hashed.digest() + workflow.signature.schema
    id = options.id or child_id(machine.run, key, machine.generation)
    ask = ChildAsk(key, id, workflow, input, digest, machine.seq, machine.now, options)
    known = children.open[key] = Known(ask)
    children.fresh[key] = ask
    return known


def _give_up(machine: Machine, known: Known) -> None:
    """Forget a child that was not started yet; ask one that was to stop."""
    children, key = machine.children, known.ask.key
    if known.end or machine.loop.dead or children is None:
        return
    if not known.is_started:
        del children.open[key], children.fresh[key]
        return
    known.is_given_up = True
    id = f"{machine.run}/{machine.generation}/{key}"
    reason = f"its parent {machine.run} no longer waits for it"
    children.sends.append(ToChild(known.id, "cancel", "", None, id, machine.seq, reason))


# --- the events


def descend(machine: Machine, event: Event) -> None:
    """Note where a run stands that is a child itself, or which slot of a schedule it is for."""
    if event.key.startswith("@"):
        machine.slot = event.key
    else:
        children_of(machine).depth = depth_of(event.key)


def started(machine: Machine, event: Event, _: object) -> None:
    """Let the body see that a child is stored."""
    children, known = _known(machine, event, "the start of child ")
    if known.is_started:
        raise machine.mismatch(f"another start of child {event.key}")
    known.is_started, known.id = True, started_id(event)
    del children.fresh[event.key]
    known.wake()
    machine.spin()


def closed(machine: Machine, event: Event, _: object) -> None:
    """Let the body see how a child ended, if it still wants to know."""
    if machine.loop.dead:
        return  # the body has ended in this very turn
    children, known = _known(machine, event, "the end of child ")
    status, payload = report_of(event.payload)
    if status == "completed":
        known.value = _decoded(known, event, payload)
    else:
        known.error = _failure(known, status, payload)
    known.end = status
    del children.open[event.key]
    children.fresh.pop(event.key, None)
    known.wake()
    machine.spin()


def _known(machine: Machine, event: Event, recorded: str) -> tuple[Children, Known]:
    children = machine.children
    known = children.open.get(event.key) if children is not None else None
    if known is None or children is None or machine.loop.dead:
        raise machine.mismatch(recorded + event.key)
    found, asked = event.digest, known.ask.digest
    if found != asked and found is not None and found[8:] == asked[8:]:
        asks = f"starts {event.key} with other arguments"
        raise machine.mismatch(recorded + event.key, asks)
    return children, known


def _decoded(known: Known, event: Event, payload: bytes | None) -> Any:
    where = f"result of child {event.key}"
    try:
        return known.ask.workflow.signature.result.decode(payload or b"null", where=where)
    except HoldfastError as error:
        raise Undecodable(seq=event.seq, what=f"the {where}", problem=error.args[0]) from error


def _failure(known: Known, status: str, payload: bytes | None) -> ChildFailed:
    failure = decode_failure(payload)
    error = ChildFailed(
        child=known.id, key=known.ask.key, status=status, type=failure.type,
        message=failure.message, details=failure.details, traceback=failure.traceback,
    )  # fmt: skip
    if status == REFUSED:
        error.__cause__ = RunConflict(run=known.id, differs="work")
    return error
