"""Talking to a run: signals tell it something, queries ask it, updates do both."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, TypedDict, TypeVar, overload

from holdfast.engines.local import LocalEngine, answering
from holdfast.errors import (
    BadDefinition,
    InvalidName,
    MessageConflict,
    RunNotFound,
    UpdateFailed,
    UpdateRejected,
    UpdateUnfinished,
)
from holdfast.fronts.function.step import Keep
from holdfast.fronts.function.workflow import Workflow
from holdfast.machine.looking import look_back, question
from holdfast.machine.questions import LONGEST_NAME, checked_person
from holdfast.machine.signals import Signal
from holdfast.machine.talk import BoundUpdate, Query, Update
from holdfast.machine.values import encoded
from holdfast.model.checks import checked_id, checked_limit, checked_reason
from holdfast.model.commands import SignalRun, UpdateRun
from holdfast.model.cursors import Cursors
from holdfast.model.durations import Duration
from holdfast.model.failures import decode_failure
from holdfast.model.labels import Value
from holdfast.model.run import SINCE_START, Message, Posted, Run
from holdfast.model.waits import OpenQuestion, WaitFilter, failed, question_in

A = TypeVar("A")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

Wait = Literal["completed", "accepted"]


class StartOptions(TypedDict, total=False):
    """What `Client.start` takes beside the work and its id."""

    timeout: Duration | Keep | None
    tags: Sequence[str]
    attributes: Mapping[str, Value]
    queue: str | None
    priority: int | None
    queue_key: str | None
    queue_timeout: Duration | None
    delay: Duration | None
    start_at: datetime | None


class UpdateHandle(Generic[R_co]):
    """An update that a run has accepted."""

    def __init__(self, engine: LocalEngine, run: str, update: Update[Any, R_co], id: str) -> None:
        self._engine, self._update = engine, update
        self.run, self.id = run, id

    def __repr__(self) -> str:
        return f"<update {self._update.name} {self.id} of run {self.run}>"

    async def result(self) -> R_co:
        """Return what its handler returned, when it has.

        Raises `UpdateFailed` if it raised, `UpdateUnfinished` if the run ended before.
        """
        posted = await self._engine.decided(self.run, self.id, is_done=True)
        message = told(self._update.name, posted, self.id)
        if message.state == "accepted":
            raise _unfinished(posted.run, message)
        return self._update.read(message.reply)


class QuestionList(NamedTuple):
    """One page of open questions, the oldest first. `next` is the `after` of the following page."""

    questions: list[OpenQuestion]
    next: str | None


class Settling:
    """What a client does about what runs wait for from outside. `Client` is one."""

    engine: LocalEngine

    async def questions(
        self, *, to: str = "", run: str = "", limit: int = 20, after: str | None = None
    ) -> QuestionList:
        """Return one page of the questions that wait for an answer, the oldest first.

        `to` is one of those who are asked, `run` the id of one run, `after` the former page's
        `next`. Raises `InvalidCursor`.
        """
        cursors = Cursors(self.engine.ns, repr(("questions", to, run)))
        at, place = cursors.read(after)
        last_run, _, last_key = place.partition("\n")
        wanted = WaitFilter(
            self.engine.ns, to=to, kind="question", limit=checked_limit(limit),
            after_at=-1 if at is None else at, after_run=last_run, after_key=last_key,
            run=checked_id(run) if run else "",
        )  # fmt: skip
        rows = await self.engine.store.waits(wanted)
        last = rows[-1] if rows and len(rows) == limit else None
        following = cursors.after(last.asked_at, f"{last.run}\n{last.key}") if last else None
        return QuestionList([question_in(row) for row in rows if row.state == "open"], following)

    async def complete(self, token: str, value: object = None, *, by: str = "") -> bool:
        """Give the result of a step that completes later; tell whether it was new.

        `token` is what `hf.completion_token()` gave in the step. Raises `AnswerRefused` if the
        attempt is over or has an outcome, `InvalidToken`, or `InvalidValue` if it does not fit.
        """
        where = "result of a step"
        return await answering.complete(
            self.engine, token, encoded(value, where=where), checked_by(by)
        )

    async def fail(
        self, token: str, type: str, message: str = "", *, retry: bool = True, by: str = ""
    ) -> bool:
        """Let the attempt that a token names fail, as if its code had raised; True if it was new.

        `type` is the name of an error. It is tried again as the step says, unless `retry` is False.
        Raises like `complete`.
        """
        outcome = failed(checked_type(type), checked_reason(message, "fail"), retry=retry)
        return await answering.complete(self.engine, token, outcome, checked_by(by))


class Talking(ABC):
    """One run, as somebody who talks to it sees it. `RunHandle` is one."""

    id: str
    _engine: LocalEngine

    @abstractmethod
    async def _definition(self) -> Workflow[..., Any]:
        """Return the code of the run."""

    @overload
    async def signal(self, signal: Signal[T], value: T, *, id: str | None = None) -> bool: ...
    @overload
    async def signal(self, signal: str, value: object, *, id: str | None = None) -> bool: ...
    async def signal(self, signal: Any, value: Any, *, id: str | None = None) -> bool:
        """Send a signal and return once it is stored; tell whether it was new.

        Give an `id` to make a repeat harmless. Raises `RunNotFound` or `RunClosed`.
        """
        now = self._engine.store.now()
        sent: Signal[Any] = Signal(signal, object) if isinstance(signal, str) else signal
        payload = sent.encode(value)
        message = new_id(now) if id is None else checked_id(id, field="signal id")
        command = SignalRun(self._engine.ns, self.id, sent.name, payload, message, now)
        is_new: bool = await self._engine.do(command)
        return is_new

    @overload
    async def query(self, query: Query[None, R]) -> R: ...
    @overload
    async def query(self, query: Query[A, R], value: A) -> R: ...
    @overload
    async def query(self, query: str, value: object = None) -> Any: ...
    async def query(self, query: Any, value: Any = None) -> Any:
        """Ask the run, and return what its handler answers; nothing is recorded.

        It sees what is stored. If a worker in this process has the run, its body answers; else
        the history is replayed here, without effects, so this process needs the run's code. Raises
        `UnknownQuery`, `QueryFailed`, `RunNotFound`, or what keeps the history from being replayed.
        """
        asked: Query[Any, Any] = Query(query, object, object) if isinstance(query, str) else query
        if not isinstance(asked, Query):
            raise _not_a("query", query)
        look = question(asked.name, asked.encode(value))
        seen = await self._engine.visit(self.id, look)
        if seen is None:
            loaded = await self._engine.load(self.id, SINCE_START)
            workflow = await self._definition()
            seen = look_back(workflow.function, workflow.signature, loaded, look)
        return asked.read(seen.reply())

    @overload
    async def update(self, update: Update[None, R], *, id: str | None = None) -> R: ...
    @overload
    async def update(self, update: Update[A, R], value: A, *, id: str | None = None) -> R: ...
    @overload
    async def update(
        self, update: Update[None, R], *, id: str | None = None, wait: Literal["accepted"]
    ) -> UpdateHandle[R]: ...
    @overload
    async def update(
        self, update: Update[A, R], value: A, *, id: str | None = None, wait: Literal["accepted"]
    ) -> UpdateHandle[R]: ...
    @overload
    async def update(
        self, update: str, value: object = None, *, id: str | None = None, wait: Wait = "completed"
    ) -> Any: ...
    async def update(
        self, update: Any, value: Any = None, *, id: str | None = None, wait: Wait = "completed"
    ) -> Any:
        """Have the run do something, and return what its handler returned.

        With `wait="accepted"`, a handle is returned as soon as the run has accepted it. The id is
        its idempotency key: the same id gets the same reply, also if that was a refusal. Raises
        `UpdateRejected` if the run refused it, `UpdateFailed` if the handler raised,
        `UpdateUnfinished` if the run ended before it was done, `RunNotFound`, `RunClosed`, or
        `MessageConflict` if the id belongs to another message.
        """
        sent: Update[Any, Any] = (
            Update(update, object, object) if isinstance(update, str) else update
        )
        if not isinstance(sent, Update):
            raise _not_a("update", update)
        bound = BoundUpdate(sent, sent.encode(value), id)
        checked_wait(wait)
        command = updating(self._engine, self.id, bound)
        is_new: bool = await self._engine.do(command)
        return await outcome(self._engine, command, bound.update, wait, is_new=is_new)


def checked_wait(wait: object) -> None:
    """Refuse a word that names nothing to wait for."""
    if wait not in ("completed", "accepted"):
        raise BadDefinition(
            what=f"wait={wait!r:.60} names nothing to wait for",
            hint='Write wait="accepted", or leave it out to wait for the result.',
        )


def updating(engine: LocalEngine, run: str, bound: BoundUpdate[Any]) -> UpdateRun:
    """Return the command that sends an update."""
    now = engine.store.now()
    id = new_id(now) if bound.id is None else checked_id(bound.id, field="update id")
    return UpdateRun(engine.ns, run, bound.update.name, bound.payload, id, now)


async def outcome(
    engine: LocalEngine, sent: UpdateRun, update: Update[Any, Any], wait: Wait, *, is_new: bool
) -> Any:
    """Wait for what becomes of an update that is stored."""
    if not is_new:
        known = await engine.store.message(engine.ns, sent.run, sent.id)
        _compare(sent, known and known.message)
    posted = await engine.decided(sent.run, sent.id, is_done=False)
    told(update.name, posted, sent.id)
    handle = UpdateHandle(engine, sent.run, update, sent.id)
    return handle if wait == "accepted" else await handle.result()


def told(update: str, posted: Posted, id: str) -> Message:
    """Return an update that was accepted. Raises what its caller is to hear otherwise."""
    run, message = posted
    if message is None:
        raise RunNotFound(run=run.id)
    if not message.state:
        raise _unfinished(run, message)
    if message.state in ("rejected", "failed"):
        failure = decode_failure(message.reply)
        if message.state == "rejected":
            raise UpdateRejected(
                run=run.id, update=update, id=id, type=failure.type, message=failure.message
            )
        raise UpdateFailed(
            run=run.id, update=update, id=id, type=failure.type, message=failure.message,
            traceback=failure.traceback,
        )  # fmt: skip
    return message


def new_id(now: int) -> str:
    """Return a uuid7: sortable by time, unique everywhere."""
    time, chance = f"{now // 1_000 & 0xFFFF_FFFF_FFFF:012x}", os.urandom(10).hex()
    variant = "89ab"[int(chance[3], 16) & 3]
    return f"{time[:8]}-{time[8:]}-7{chance[:3]}-{variant}{chance[4:7]}-{chance[8:]}"


def _compare(sent: UpdateRun, kept: Message | None) -> None:
    """Refuse an id that was used for something else."""
    if kept is None:
        return
    differs = ""
    if (kept.kind, kept.name) != ("update", sent.name):
        differs = f"name ({kept.kind} {kept.name})".replace(" )", ")")
    elif json.loads(kept.payload or b"null") != json.loads(sent.payload):
        differs = "value"
    if differs:
        raise MessageConflict(run=sent.run, id=sent.id, differs=differs)


def _unfinished(run: Run, message: Message) -> UpdateUnfinished:
    return UpdateUnfinished(
        run=run.id, status=run.status, update=message.name, id=message.id,
        is_accepted=message.state == "accepted",
    )  # fmt: skip


def _not_a(kind: str, given: object) -> BadDefinition:
    return BadDefinition(
        what=f"run.{kind} was given {given!r:.60}, which is no {kind}",
        hint=f"Give an hf.{kind.capitalize()}, or the name of one.",
    )


def checked_type(name: str) -> str:
    """Return the name of an error, if it is one. Raises `InvalidName`."""
    if str(name).isidentifier() and len(name) <= LONGEST_NAME:
        return name
    raise InvalidName(field="type of an error", value=str(name), problem="is no name of a class")


def checked_by(by: str) -> str:
    """Return who answers, if anybody is named. Raises `InvalidName`."""
    return checked_person(by, field="by") if by else ""
