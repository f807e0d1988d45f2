"""The client: start runs, find them, talk to them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload
from uuid import UUID

from holdfast.app import App
from holdfast.engines.local import LocalEngine
from holdfast.errors import (
    BadDefinition,
    InvalidName,
    RunCancelled,
    RunFailed,
    RunTerminated,
    RunTimedOut,
    UnknownWorkflow,
)
from holdfast.fronts.function.workflow import Bound, Workflow
from holdfast.machine.signals import Signal
from holdfast.machine.values import Schema, digest
from holdfast.model.checks import checked_limit, checked_reason, checked_statuses
from holdfast.model.commands import (
    CancelRun,
    PauseRun,
    ResumeRun,
    SignalRun,
    StartRun,
    TerminateRun,
)
from holdfast.model.events import Event
from holdfast.model.failures import decode_failure
from holdfast.model.run import Loaded, Run
from holdfast.model.status import RunStatus
from holdfast.model.writes import Filter, Page

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

FAILURES: dict[str, type[RunFailed]] = {
    "run.failed": RunFailed,
    "run.cancelled": RunCancelled,
    "run.terminated": RunTerminated,
    "run.timed_out": RunTimedOut,
}


class Listing(NamedTuple):
    """One page of runs, newest first. `next` is the `after` of the following page, if any."""

    runs: list[Run]
    next: str | None


class Client:
    """The door to an engine. Made by `app.open(url)`."""

    def __init__(self, app: App, engine: LocalEngine) -> None:
        self.app, self.engine = app, engine

    async def start(self, bound: Bound[R], *, id: str | None = None) -> RunHandle[R]:
        """Start a run and return once it is stored.

        The id is the idempotency key: the same id, workflow and input find the same run. Raises
        `RunConflict` if the id belongs to other work, `InvalidName` if it cannot be an id.
        """
        if not isinstance(bound, Bound):
            raise not_bound(bound)
        workflow = bound.workflow
        shape = workflow.shape  # before the clock is read: the first time takes a while
        now = self.engine.store.now()
        command = StartRun(
            ns=self.engine.ns,
            id=new_id(now) if id is None else checked_id(id),
            workflow=workflow.name,
            version=workflow.version,
            input=bound.input,
            input_digest=digest(bound.input),
            at=now,
            shape=shape,
        )
        is_known = self.app.versions.of_run(workflow.name, workflow.version) is workflow
        run = await self.engine.start(command, is_known=is_known)
        return RunHandle(self.engine, run.id, workflow)

    @overload
    def get(self, id: str) -> RunHandle[Any]: ...
    @overload
    def get(self, id: str, workflow: Workflow[..., R]) -> RunHandle[R]: ...
    def get(self, id: str, workflow: Workflow[..., Any] | None = None) -> RunHandle[Any]:
        """Return a handle on a run; give its workflow to have the result typed."""
        return RunHandle(self.engine, checked_id(id), workflow, self.app)

    async def list(
        self,
        *,
        status: RunStatus | Sequence[RunStatus] = (),
        workflow: str = "",
        limit: int = 20,
        after: str | None = None,
    ) -> Listing:
        """Return one page of runs, newest first; `after` is the former page's `next`."""
        statuses = checked_statuses(status)
        before_at, before_id = _cursor(after)
        runs = await self.engine.find(
            Filter(self.engine.ns, statuses=statuses, workflow=workflow),
            Page(limit=checked_limit(limit), before_at=before_at, before_id=before_id),
        )
        last = runs[-1] if runs and len(runs) == limit else None
        return Listing(runs, f"{last.created_at}:{last.id}" if last else None)


class RunHandle(Generic[R_co]):
    """One run, as seen from outside."""

    def __init__(
        self,
        engine: LocalEngine,
        id: str,
        workflow: Workflow[..., R_co] | None = None,
        app: App | None = None,
    ) -> None:
        self._engine, self.id = engine, id
        self._workflow, self._app = workflow, app

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    async def result(self) -> R_co:
        """Return what the workflow returned, when it has.

        Raises `RunFailed`, or its subclass that says how else the run ended.
        """
        event = await self._engine.closing(self.id)
        if event.kind != "run.completed":
            raise _failure(self.id, event)
        schema: Schema[R_co] = await self._schema()
        return schema.decode(event.payload or b"null", where=f"result of run {self.id}")

    async def describe(self) -> Run:
        """Return the run's row: status, reason, times. Raises `RunNotFound`."""
        return (await self._engine.load(self.id, after=1 << 62)).run

    async def history(self) -> Loaded:
        """Return the run with its living events and unread messages. Raises `RunNotFound`."""
        return await self._engine.load(self.id)

    def events(self, *, after: int = 0) -> AsyncIterator[Event]:
        """Yield the run's events with a seq above `after` as they come, until it is closed."""
        return self._engine.events(self.id, after)

    @overload
    async def signal(self, signal: Signal[T], value: T, *, id: str | None = None) -> bool: ...
    @overload
    async def signal(self, signal: str, value: object, *, id: str | None = None) -> bool: ...
    async def signal(self, signal: Any, value: Any, *, id: str | None = None) -> bool:
        """Send a signal and return once it is stored; tell whether it was new.

        Give an `id` to make a repeat harmless. Raises `RunNotFound` or `RunClosed`.
        """
        now = self._engine.store.now()
        if isinstance(signal, str):
            signal = Signal[Any](signal, object)
        payload, _ = signal.schema.cross(value, where=f"signal {signal.name}")
        message = new_id(now) if id is None else checked_id(id, field="signal id")
        command = SignalRun(self._engine.ns, self.id, signal.name, payload, message, now)
        is_new: bool = await self._engine.do(command)
        return is_new

    async def cancel(self, reason: str = "") -> bool:
        """Ask the run to stop; its body may clean up. Tell whether this was the first cancel.

        Raises `RunNotFound` or `RunClosed`.
        """
        now, told = self._engine.store.now(), checked_reason(reason, "cancel")
        command = CancelRun(self._engine.ns, self.id, new_id(now), now, told)
        is_first: bool = await self._engine.do(command)
        return is_first

    async def terminate(self, reason: str = "") -> None:
        """End the run now; nothing of its body runs any more. Raises `RunClosed`."""
        await self._engine.do(self._at(TerminateRun, reason=checked_reason(reason, "terminate")))

    async def pause(self, reason: str = "") -> None:
        """Have the run start no more steps; those that run finish and are recorded."""
        now, told = self._engine.store.now(), checked_reason(reason, "pause")
        await self._engine.do(PauseRun(self._engine.ns, self.id, new_id(now), now, told))

    async def resume(self) -> None:
        """Let a paused run go on. Raises `IllegalMove` if it is not paused."""
        await self._engine.do(self._at(ResumeRun))

    async def retry(self) -> None:
        """Let a failed, blocked or quarantined run try again from where it failed.

        What it has recorded is not run again. Raises `IllegalMove`.
        """
        await self._engine.retry(self.id, self._engine.store.now())

    def _at(self, command: Any, **fields: Any) -> Any:
        return command(ns=self._engine.ns, run=self.id, at=self._engine.store.now(), **fields)

    async def _schema(self) -> Schema[R_co]:
        if self._workflow is None:
            row = await self.describe()
            name = row.workflow
            found = self._app.versions.of_run(name, row.version) if self._app else None
            if found is None:
                known = tuple(sorted(self._app.workflows)) if self._app else ()
                raise UnknownWorkflow(name=name, known=known)
            self._workflow = found
        return self._workflow.signature.result


def new_id(now: int) -> str:
    """Return a uuid7: sortable by time, unique everywhere."""
    millis = (now // 1_000) & 0xFFFF_FFFF_FFFF
    chance = int.from_bytes(os.urandom(10), "big")
    value = (millis << 80) | (0x7 << 76) | ((chance >> 68) << 64)
    value |= (0b10 << 62) | (chance & 0x3FFF_FFFF_FFFF_FFFF)
    return str(UUID(int=value & ((1 << 128) - 1)))


def checked_id(id: str, *, field: str = "run id") -> str:
    """Return the id if it can be stored and shown. Raises `InvalidName`."""
    problem = ""
    if not isinstance(id, str):
        raise InvalidName(field=field, value=repr(id), problem="is no text")
    if not 1 <= len(id) <= 255:
        problem = f"has {len(id)} characters"
    elif not id.isprintable():
        problem = "has a character that cannot be printed"
    elif "/" in id or id.startswith("."):
        problem = "has a slash or a leading dot"
    if problem:
        raise InvalidName(field=field, value=id, problem=problem)
    return id


def not_bound(given: object) -> BadDefinition:
    """Return the error of a start with something else than a workflow and its input."""
    name = getattr(given, "__name__", "order")
    return BadDefinition(
        what=f"start was given {given!r:.60}, not a workflow with its input",
        hint=f"Write client.start({name}.bind(...)).",
    )


def _cursor(after: str | None) -> tuple[int | None, str]:
    if after is None:
        return None, ""
    at, _, id = str(after).partition(":")
    if not (at.isascii() and at.isdigit() and len(at) <= 18 and id):
        raise InvalidName(field="cursor", value=str(after), problem="is not one that `list` gave")
    return int(at), id


def _failure(run: str, event: Event) -> RunFailed:
    failure = decode_failure(event.payload)
    made = FAILURES.get(event.kind, RunFailed)
    return made(
        run=run,
        type=failure.type,
        message=failure.message,
        details=failure.details,
        traceback=failure.traceback,
    )
