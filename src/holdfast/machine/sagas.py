"""Sagas: what a body has done, and how to undo it if the rest fails.

A saga is a list of undos. One is registered before its call begins, so that nothing that may have
happened is without one; the list is a function of the history, and needs no record. If the block
ends with an exception, whatever it is, the undos run one after another, the last first. Their calls
are ordinary steps, with keys that tell what they undo: `undo(charge#1)/refund#1`.

No cancel stops an undo: it is waited for in the face of every cancel, and a run's cancel that comes
meanwhile is raised when all is undone. An undo that fails for good is *owed*: the others still run,
and the run ends as `compensation_failed`, whatever its body catches. A retry of such a run replays
it to its end and then lets what is owed run again, as a new *round*; all that is recorded stays.
"""

from __future__ import annotations

import asyncio
import inspect
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from holdfast.errors import BadDefinition, CompensationFailed, Owed, StepFailed
from holdfast.machine.machine import Machine, current
from holdfast.machine.primitives import here
from holdfast.machine.tasks import Scope, Task, is_transparent, key_of, transparent
from holdfast.model.events import CLASS_OF, COMPENSATION, Event
from holdfast.model.failures import failure_of
from holdfast.model.keys import is_of, undone_by

R = TypeVar("R")
Undo = Callable[[Any], Awaitable[object]]

LONGEST_MESSAGE = 400
"""How much of an error is kept for each thing owed: a saga may owe thousands."""


class Entry:
    """A registered undo: of which call, with which result, and why it failed if it did."""

    __slots__ = ("error", "failed_seq", "key", "result", "scope", "undo")

    def __init__(self, key: str, undo: Undo) -> None:
        self.key, self.undo = key, undo
        self.result: Any = None
        self.error: BaseException | None = None
        self.failed_seq = 0
        path, slash, local = key.rpartition("/")
        self.scope = Scope(f"{path}{slash}undo({local})/")

    def owed(self) -> Owed:
        """Return in words what is still to be undone, and why it is not."""
        named = getattr(self.undo, "name", None) or getattr(self.undo, "__name__", None)
        undo = str(named or type(self.undo).__name__)
        error = self.error
        if error is None:
            return Owed(self.key, undo, "NotBegun", "the body did not leave its saga in time")
        if isinstance(error, StepFailed):
            return Owed(self.key, undo, error.type, error.message[:LONGEST_MESSAGE])
        told = failure_of(error)
        return Owed(self.key, undo, told.type, told.message[:LONGEST_MESSAGE])


class Block:
    """What one saga has registered, and the task whose block it is."""

    __slots__ = ("entries", "is_abandoned", "is_open", "owner", "running", "waiter")

    def __init__(self, owner: asyncio.Task[Any]) -> None:
        self.owner = owner
        self.is_open, self.is_abandoned = True, False
        self.entries: list[Entry] = []
        self.running: dict[Entry, asyncio.Task[Any]] = {}
        self.waiter: asyncio.Future[None] | None = None

    @property
    def is_orphan(self) -> bool:
        """Tell whether nobody will ever leave the block: its generator was left half-way."""
        return self.is_open and bool(self.entries) and self.owner.done()

    def abandon(self) -> None:
        """Cancel the task, once: the body has ended without it."""
        if self.is_open and not self.is_abandoned and self.entries:
            self.is_abandoned = True
            self.owner.cancel()

    def left(self, entry: Entry) -> None:
        """Note that a call has ended, for `stop` to hear."""
        del self.running[entry]
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def stop(self, machine: Machine) -> bool:
        """Stop calls that other branches still make, and wait for their end.

        Tell whether a cancel came meanwhile.
        """
        is_cancelled = False
        for task in tuple(self.running.values()):
            task.cancel()
        while self.running:
            self.waiter = machine.loop.create_future()
            try:
                await self.waiter
            except CancelledError:
                if machine.loop.dead:
                    raise
                is_cancelled = True
        return is_cancelled


class Sagas:
    """All sagas of one machine: which are open, which undo, what is owed."""

    __slots__ = ("_machine", "_reopened", "_round", "open", "owed", "undoing", "undone_at")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._round: Task | None = None
        self._reopened = [event.seq for event in machine.past or () if _lets_undo_again(event)]
        self.open: list[Block] = []
        self.owed: list[Entry] = []
        self.undoing = 0
        """How many are undoing right now; meanwhile no grace time runs."""
        self.undone_at = 0
        """When the last of them was done."""

    def pending(self) -> list[Owed]:
        """Return all that would stay undone if the run ended now."""
        unbegun = [entry for block in reversed(self.open) for entry in reversed(block.entries)]
        known = dict.fromkeys((*self.owed, *unbegun))
        return [entry.owed() for entry in known]

    def hold(self) -> bool:
        """Tell whether the run must go on though its body has ended, to undo something.

        Branches that were left over in the middle of a saga are cancelled; they undo and end. Then
        come the sagas of generators that were left half-way, and what is owed, once for each retry
        since it had failed.
        """
        loop = self._machine.loop
        while True:
            for block in self.open:
                block.abandon()
            loop.drain()
            if self._machine.violation is not None:
                raise self._machine.violation
            if any(block.entries and not block.is_orphan for block in self.open):
                return True
            if self._round is not None and not self._round.done():
                return True
            following = self._next_round()
            if following is None:
                return False
            self._round = loop.branch(following, Scope(""))

    def _next_round(self) -> Coroutine[Any, Any, None] | None:
        orphans = [block for block in self.open if block.is_orphan]
        if orphans:
            self.open = [block for block in self.open if not block.is_orphan]
            return self._undo_orphans(orphans)
        while self._reopened:
            seq = self._reopened.pop(0)
            again = [entry for entry in self.owed if entry.failed_seq < seq]
            if again:
                return self._undo_again(again)
        return None

    async def undo_all(self, entries: Iterable[Entry]) -> bool:
        """Undo these in order; tell whether a cancel came meanwhile. What fails is owed."""
        is_cancelled = False
        for entry in entries:
            task = self._machine.loop.branch(_undo(entry), entry.scope)
            is_cancelled |= await self._settled(task)
            entry.error = CancelledError() if task.cancelled() else task.exception()
            if entry.error is not None:
                entry.failed_seq = self._machine.seq
                self.owed.append(entry)
        return is_cancelled

    @contextmanager
    def at_work(self) -> Generator[None]:
        """Count a saga that undoes."""
        self.undoing += 1
        try:
            yield
        finally:
            self.undoing -= 1
            if not self._machine.loop.dead:
                self.undone_at = self._machine.now

    async def _undo_orphans(self, blocks: Sequence[Block]) -> None:
        with self.at_work():
            for block in reversed(blocks):
                block.is_open = False
                await block.stop(self._machine)
                await self.undo_all(reversed(block.entries))

    async def _undo_again(self, entries: Sequence[Entry]) -> None:
        self.owed = [entry for entry in self.owed if entry not in entries]
        with self.at_work():
            await self.undo_all(entries)

    async def _settled(self, task: Task) -> bool:
        """Wait until the task has ended, through every cancel; tell whether there was one."""
        is_cancelled = False
        while not task.done():
            try:
                await asyncio.wait((task,))
            except CancelledError:
                if self._machine.loop.dead:
                    raise
                is_cancelled = True
        return is_cancelled


class Saga:
    """A block whose effects are undone if it fails. Made by `hf.saga()`."""

    __slots__ = ("_block", "_machine")

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._block: Block | None = None

    @transparent
    async def do(
        self, call: Coroutine[Any, Any, R], *, undo: Callable[[R | None], Awaitable[object]]
    ) -> R:
        """Return the result of `call`, a step's or an async function's, which `undo` can undo.

        If the block fails later, `undo` is called with that result, or with None if the outcome is
        unknown: the call failed or was stopped, and may or may not have had its effect.
        """
        block = self._checked(call, undo)
        begun: Awaitable[R] = call
        if is_transparent(call):
            key = key_of(call) or self._machine.take_key("do")
        else:
            begun = task = self._machine.loop.create_task(call)
            key = task.scope.path[:-1]
        entry = Entry(key, undo)
        block.entries.append(entry)
        block.running[entry] = _current()
        try:
            entry.result = await begun
        finally:
            block.left(entry)
        result: R = entry.result
        return result

    async def __aenter__(self) -> Self:
        if self._block is not None:
            raise BadDefinition(what="A saga was entered twice", hint="Call hf.saga() for each.")
        self._block = Block(_current())
        sagas_of(self._machine).open.append(self._block)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        block = self._block
        if self._machine.loop.dead or current() is not self._machine or block is None:
            return  # it is closed, or collected: nothing can be asked for
        block.is_open = False
        try:
            if error is not None and block.entries:
                await self._compensate(block, error)
        finally:
            sagas_of(self._machine).open.remove(block)

    async def _compensate(self, block: Block, error: BaseException) -> None:
        machine, sagas = self._machine, sagas_of(self._machine)
        before = machine.cancelled_by
        with sagas.at_work():
            is_cancelled = await block.stop(machine)
            is_cancelled |= await sagas.undo_all(reversed(block.entries))
        owed = tuple(entry.owed() for entry in reversed(block.entries) if entry.error is not None)
        if owed:
            raise CompensationFailed(owed=owed, original=error) from error
        if is_cancelled and machine.cancelled_by != before:
            raise CancelledError

    def _checked(self, call: object, undo: object) -> Block:
        """Return the block that takes this call. Raises `BadDefinition`."""
        block = self._block
        if not inspect.iscoroutine(call):
            what = f"saga.do was given {call!r:.60}, not a call"
            hint = "Write saga.do(charge(order), undo=refund): it begins the call itself."
        elif not callable(undo):
            what, hint = f"undo={undo!r:.60} cannot be called", "Write undo=refund, without a call."
        elif block is None or not block.is_open:
            what = "saga.do was called outside of its block"
            hint = "Write `async with hf.saga() as saga:` around it."
        else:
            return block
        for given in (call, undo):
            if inspect.iscoroutine(given):
                given.close()
        raise BadDefinition(what=what, hint=hint)


def saga() -> Saga:
    """Return a block whose effects are undone, the last first, if it ends with an exception."""
    return Saga(here("hf.saga()"))


def sagas_of(machine: Machine) -> Sagas:
    """Return the sagas of `machine`."""
    if machine.sagas is None:
        machine.sagas = Sagas(machine)
    return machine.sagas


def taken_back(events: Sequence[Event], left_out: Iterable[int], generation: int) -> frozenset[int]:
    """Return the answers that a retry must not keep, because what they stand for was undone.

    `left_out` are answers of former generations that the body no longer asks for. If an undo is
    among them, the call that it undid has to be made again.
    """
    dropped = frozenset(left_out)
    undone = {key for event in events if event.seq in dropped for key in undone_by(event.key)}
    return frozenset(
        event.seq
        for event in events
        if undone
        and event.generation < generation
        and event.seq not in dropped
        and (CLASS_OF[event.kind] == "answer" or event.kind == "child.started")
        and any(is_of(event.key, key) for key in undone)
    )


def _lets_undo_again(event: Event) -> bool:
    return event.kind == "run.reopened" and event.key == COMPENSATION


async def _undo(entry: Entry) -> None:
    made = entry.undo(entry.result)
    if not inspect.isawaitable(made):
        raise BadDefinition(
            what=f"The undo of {entry.key} gave {made!r:.60}, which cannot be awaited",
            hint="Make it a step, or an async function that calls steps.",
        )
    await made


def _current() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:  # a callback of the loop has no task, and cannot await either
        raise RuntimeError("no task is running")
    return task
