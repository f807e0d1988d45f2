"""The client: start runs, find them, talk to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, TypeVar, Unpack, overload

from holdfast.app import App
from holdfast.caching import StepCache
from holdfast.engines.local import LocalEngine, supplying, travel
from holdfast.entities import EntityHandle
from holdfast.errors import (
    BadDefinition,
    RunCancelled,
    RunCompensationFailed,
    RunFailed,
    RunNotFound,
    RunTerminated,
    RunTimedOut,
    UnknownWorkflow,
)
from holdfast.fronts.function.step import KEEP, Keep
from holdfast.fronts.function.workflow import Bound, Workflow, must_have_no_secrets, not_bound
from holdfast.machine.signals import BoundMessage
from holdfast.machine.talk import BoundUpdate
from holdfast.machine.values import Schema, digest
from holdfast.model.annotations import LogFilter, LogLine, Progress
from holdfast.model.checks import (
    checked_id,
    checked_limit,
    checked_point,
    checked_reason,
    checked_seq,
    checked_statuses,
    known_id,
)
from holdfast.model.commands import (
    PruneRuns,
    SignalRun,
    StartRun,
    UpdateRun,
)
from holdfast.model.cursors import Cursors
from holdfast.model.diffing import Diff
from holdfast.model.durations import Duration, microseconds
from holdfast.model.events import Event
from holdfast.model.failures import decode_failure
from holdfast.model.filters import parse
from holdfast.model.labels import NO_LABELS, Labels, Value, checked_labels
from holdfast.model.limits import begins_at, placed
from holdfast.model.queues import checked_priority, checked_queue
from holdfast.model.run import Loaded, Message, Run
from holdfast.model.secrets import Secret, checked_secrets
from holdfast.model.status import OPEN, RunStatus
from holdfast.model.writes import Filter, Page
from holdfast.ports.witness import Forgetting
from holdfast.queues import Queues
from holdfast.schedules import Schedules
from holdfast.steering import Steered, edited_results, input_of
from holdfast.talking import (
    Settling,
    StartOptions,
    Talking,
    UpdateHandle,
    Wait,
    checked_wait,
    new_id,
    outcome,
    updating,
)

PRUNE_BATCH = 100
"""How many runs are forgotten in one commit."""

E = TypeVar("E")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
U = TypeVar("U")

FAILURES: dict[str, type[RunFailed]] = {
    "run.failed": RunFailed,
    "run.cancelled": RunCancelled,
    "run.terminated": RunTerminated,
    "run.timed_out": RunTimedOut,
    "run.compensation_failed": RunCompensationFailed,
}


class Listing(NamedTuple):
    """One page of runs, newest first. `next` is the `after` of the following page, if any."""

    runs: list[Run]
    next: str | None


class Client(Settling):
    """The door to an engine. Made by `app.open(url)`."""

    def __init__(self, app: App, engine: LocalEngine) -> None:
        self.app, self.engine = app, engine
        self.cache = StepCache(engine)
        """What is kept for later calls of steps."""
        self.queues = Queues(engine)
        """The queues that have limits."""
        self.schedules = Schedules(engine)
        """What the clock starts."""

    async def start(  # noqa: PLR0913 - each by its name
        self,
        bound: Bound[R],
        *,
        id: str | None = None,
        timeout: Duration | Keep | None = KEEP,
        tags: Sequence[str] = (),
        attributes: Mapping[str, Value] = NO_LABELS.attributes,
        queue: str | None = None,
        priority: int | None = None,
        queue_key: str | None = None,
        queue_timeout: Duration | None = None,
        delay: Duration | None = None,
        start_at: datetime | None = None,
        secrets: Mapping[str, Secret] | None = None,
    ) -> RunHandle[R]:
        """Start a run and return once it is stored.

        `timeout` is how long it may take from now on; without it, what the workflow says, with
        None, for ever. `queue` and `priority` (1 goes first, 5 last) are where it waits for a
        worker; without them, what the workflow says. On a queue, keys take turns: `queue_key` is
        the run's, and `queue_timeout` how long it may wait there to begin, before it ends
        `timed_out`. It begins after a `delay`, or at `start_at`, if one of these is given.

        The id is the idempotency key: the same id, workflow and input find the same run, with the
        tags, attributes, place and time it was first started with. Raises `RunConflict` if
        the id belongs to other work, `InvalidName` if it cannot be an id, or a queue its name,
        `InvalidTag` if a tag cannot be stored, `InvalidValue` for other options that cannot be.

        `secrets` are for the steps that list their names. They are stored encrypted if there is a
        key ring, else kept in memory by the worker here; a run that is found gets them, too.
        """
        how = self._starting(
            bound, id, timeout=timeout, tags=tags, attributes=attributes, queue=queue,
            priority=priority, queue_key=queue_key, queue_timeout=queue_timeout, delay=delay,
            start_at=start_at,
        )  # fmt: skip
        if secrets or bound.secrets:
            named = checked_secrets(secrets or {}, where="start")
            given = checked_secrets({**(bound.secrets or {}), **named}, where="start")
            is_known, told = self._is_known(bound.workflow), new_id(how.at)
            await supplying.start(self.engine, how, given, told, is_known=is_known)
        else:
            await self._start(bound, how)
        return RunHandle(self.engine, how.id, bound.workflow, self.app)

    async def signal_with_start(
        self,
        bound: Bound[R],
        signal: BoundMessage,
        *,
        id: str,
        **options: Unpack[StartOptions],
    ) -> RunHandle[R]:
        """Start a run with its first signal in one commit, or signal the run of that id.

        `signal` is one with its value: `approved.bind(value, id="...")`. Raises `RunClosed` if the
        run has ended, and what `start` raises.
        """
        _must_be(BoundMessage, signal, "signal_with_start", "approved.bind(value)")
        how = self._starting(bound, id, **options)
        at = how.at
        message = new_id(at) if signal.id is None else checked_id(signal.id, field="signal id")
        sent = SignalRun(how.ns, how.id, signal.name, signal.payload, message, at)
        await self._start_with(bound, how, sent)
        return RunHandle(self.engine, how.id, bound.workflow, self.app)

    @overload
    async def update_with_start(
        self,
        bound: Bound[Any],
        update: BoundUpdate[U],
        *,
        id: str,
        **options: Unpack[StartOptions],
    ) -> U: ...
    @overload
    async def update_with_start(
        self,
        bound: Bound[Any],
        update: BoundUpdate[U],
        *,
        id: str,
        wait: Literal["accepted"],
        **options: Unpack[StartOptions],
    ) -> UpdateHandle[U]: ...
    async def update_with_start(
        self,
        bound: Any,
        update: Any,
        *,
        id: str,
        wait: Wait = "completed",
        **options: Unpack[StartOptions],
    ) -> Any:
        """Start a run with its first update in one commit, or update the run of that id.

        `update` is one with its value: `add.bind(item, id="...")`. It is waited for as by
        `run.update`. Raises what that raises, and what `start` raises.
        """
        _must_be(BoundUpdate, update, "update_with_start", "add.bind(item)")
        sent: BoundUpdate[Any] = update
        checked_wait(wait)
        how = self._starting(bound, id, **options)
        command = updating(self.engine, how.id, sent)
        is_new = await self._start_with(bound, how, command)
        return await outcome(self.engine, command, sent.update, wait, is_new=is_new)

    def _starting(  # noqa: PLR0913 - each by its name
        self,
        bound: Bound[Any],
        id: str | None,
        *,
        timeout: Duration | Keep | None = KEEP,
        tags: Sequence[str] = (),
        attributes: Mapping[str, Value] = NO_LABELS.attributes,
        queue: str | None = None,
        priority: int | None = None,
        queue_key: str | None = None,
        queue_timeout: Duration | None = None,
        delay: Duration | None = None,
        start_at: datetime | None = None,
    ) -> StartRun:
        """Return the command that starts a run."""
        if not isinstance(bound, Bound):
            raise not_bound(bound, "client.start")
        workflow = bound.workflow
        attributes = self.app.labelled(attributes)
        shape = workflow.shape  # before the clock is read: the first time takes a while
        where = workflow.queue if queue is None else checked_queue(queue)
        now = self.engine.store.now()
        return StartRun(
            ns=self.engine.ns,
            id=new_id(now) if id is None else checked_id(id),
            workflow=workflow.name,
            version=workflow.version,
            input=bound.input,
            input_digest=digest(bound.input),
            at=now,
            labels=checked_labels(tags, attributes) if tags or attributes else NO_LABELS,
            shape=shape,
            timeout=_timeout(workflow, timeout),
            queue=where,
            priority=workflow.priority if priority is None else _priority(priority),
            wake_at=begins_at(now, delay, start_at),
            place=placed(where, queue_key, queue_timeout, "start"),
        )

    async def _start(self, bound: Bound[Any], how: StartRun) -> tuple[Run, bool]:
        return await self.engine.start(how, is_known=self._is_known(bound.workflow))

    def _is_known(self, workflow: Workflow[..., Any]) -> bool:
        return self.app.versions.of_run(workflow.name, workflow.version) is workflow

    async def _start_with(
        self, bound: Bound[Any], how: StartRun, sent: SignalRun | UpdateRun
    ) -> bool:
        """Start a run with its first message, or send it to the run; tell whether it is new.

        Who finds the run sends the message as everybody does: it is there already.
        """
        kind = "signal" if isinstance(sent, SignalRun) else "update"
        must_have_no_secrets(bound, f"{kind}_with_start")
        message = Message(sent.id, kind, sent.name, sent.payload, sent.at)
        while True:
            _, is_born = await self._start(bound, how._replace(message=message))
            if is_born:
                return True
            with suppress(RunNotFound):  # forgotten in this very moment: start it after all
                is_new: bool = await self.engine.do(sent)
                return is_new

    def entity(self, cls: type[E], key: str) -> EntityHandle[E]:
        """Return the entity of that class and key, whether or not it is there yet.

        Raises `BadDefinition` if the app has no such entity, `InvalidName` for a bad key.
        """
        entity = self.app.entity_of(cls)
        run = RunHandle(self.engine, entity.id_of(key), entity.workflow, self.app)
        return EntityHandle(self, run, entity, key)

    @overload
    def get(self, id: str) -> RunHandle[Any]: ...
    @overload
    def get(self, id: str, workflow: Workflow[..., R]) -> RunHandle[R]: ...
    def get(self, id: str, workflow: Workflow[..., Any] | None = None) -> RunHandle[Any]:
        """Return a handle on a run; give its workflow to have the result typed."""
        return RunHandle(self.engine, known_id(id), workflow, self.app)

    async def list(
        self,
        *,
        status: RunStatus | Sequence[RunStatus] = (),
        workflow: str = "",
        filter: str = "",
        limit: int = 20,
        after: str | None = None,
    ) -> Listing:
        """Return one page of runs, newest first; `after` is the former page's `next`.

        `filter` is in the filter language, such as `"tag:vip amount>10 since:1h"`; all that is
        given must hold. Raises `InvalidFilter` or `InvalidCursor`.
        """
        statuses = checked_statuses(status)
        terms = parse(filter, self.engine.store.now()) if filter else ()
        cursors = Cursors(self.engine.ns, repr((statuses, workflow, filter)))
        runs = await self.engine.find(
            Filter(self.engine.ns, statuses=statuses, workflow=workflow, terms=terms),
            Page(checked_limit(limit), *cursors.read(after)),
        )
        last = runs[-1] if runs and len(runs) == limit else None
        return Listing(runs, cursors.write(last) if last else None)

    async def diff(self, a: str, b: str) -> Diff:
        """Compare two runs key by key; `order-42@1` is the first generation of one.

        Raises `RunNotFound`, or `InvalidValue` if there was no such generation.
        """
        return await travel.diff(self.engine, a, b)

    async def labels(self, *ids: str) -> Mapping[str, Labels]:
        """Return the tags and attributes of those of these runs that have some."""
        return await self.engine.labels([known_id(id) for id in ids])

    async def prune(self, *, older_than: Duration) -> int:
        """Forget runs that closed so long ago, with all of their histories; return how many.

        Open runs are never forgotten. Many runs go in small batches, so that others can write.
        """
        now = self.engine.store.now()
        before = now - microseconds(older_than, field="older_than")
        total, batch = 0, PRUNE_BATCH
        while batch == PRUNE_BATCH:
            batch = await self.engine.do(PruneRuns(self.engine.ns, before, PRUNE_BATCH))
            total += batch
        return total

    async def prune_witness(self, witness: Forgetting, *, older_than: Duration) -> int:
        """Forget what a witness knows of steps done so long ago; return how many.

        Only of runs that are closed, or forgotten: what an open run did stays, as it may not be
        recorded yet.
        """
        age = timedelta(microseconds=microseconds(older_than, field="older_than"))
        ns, total, last = self.engine.ns, 0, ""
        while runs := await asyncio.to_thread(witness.runs, ns, age, last):
            filter = Filter(ns, statuses=tuple(sorted(OPEN)), ids=tuple(runs))
            still = {run.id for run in await self.engine.find(filter, Page(limit=len(runs)))}
            ended = [run for run in runs if run not in still]
            total += await asyncio.to_thread(witness.forget, ns, ended, age)
            last = runs[-1]
        return total


class RunHandle(Steered, Talking, Generic[R_co]):
    """One run, as seen from outside."""

    def __init__(
        self,
        engine: LocalEngine,
        id: str,
        workflow: Workflow[..., R_co] | None = None,
        app: App | None = None,
    ) -> None:
        super().__init__(engine, id)
        self._workflow, self._app = workflow, app

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

    async def labels(self) -> Labels:
        """Return the tags and attributes the run was started with."""
        return (await self._engine.labels((self.id,))).get(self.id, NO_LABELS)

    async def history(self) -> Loaded:
        """Return the run with its living events and unread messages. Raises `RunNotFound`."""
        return await self._engine.load(self.id)

    def events(self, *, after: int = 0) -> AsyncIterator[Event]:
        """Yield the run's events with a seq above `after` as they come, until it is closed."""
        return self._engine.events(self.id, checked_seq(after))

    async def progress(self) -> tuple[Progress, ...]:
        """Return the last heartbeat of each step that is not answered yet. Raises `RunNotFound`."""
        return (await self._engine.load(self.id, after=1 << 62)).progress

    def logs(
        self, *, step: str = "", attempt: int = 0, after: int = 0, follow: bool = False
    ) -> AsyncIterator[LogLine]:
        """Yield the lines that steps and the body left in the run's log, oldest first.

        `step` is a key or the name of a step, `after` the `at` of a line. With `follow`, lines are
        yielded as they come until the run is closed. Raises `RunNotFound`.
        """
        wanted = LogFilter(self._engine.ns, self.id, step, attempt, after)
        return self._engine.logs(wanted, follow=follow)

    async def fork(
        self,
        at: int | str | None = None,
        *,
        id: str | None = None,
        results: Mapping[str, object] = MappingProxyType({}),
        input: Bound[Any] | None = None,
        reason: str = "",
    ) -> RunHandle[R_co]:
        """Start a run that shares this one's history up to `at`, and goes its own way from there.

        `at` is the number of an event or the key of a step; without it, the last edited result, or
        all there is but the end. `results` are what steps gave in that history, by their keys; an
        edited `input` begins at the start. This run is untouched. Raises `UnknownKey`,
        `RunNotFound`, `RunConflict` or `InvalidValue`.
        """
        point, told = checked_point(at), checked_reason(reason, "fork")
        now = self._engine.store.now()
        chosen = new_id(now) if id is None else checked_id(id)
        given = None if input is None else input_of(input, (await self.describe()).workflow)
        edited = edited_results(results, self._app.steps if self._app else {})
        edits = travel.Edits(edited, given)
        run = await travel.fork(self._engine, self.id, chosen, point, edits, told)
        return RunHandle(self._engine, run.id, self._workflow, self._app)

    async def _schema(self) -> Schema[R_co]:
        if self._workflow is None:
            self._workflow = await self._definition()
        return self._workflow.signature.result

    async def _definition(self) -> Workflow[..., R_co]:
        if self._app is None and self._workflow is not None:
            return self._workflow
        row = await self.describe()
        found = self._app.versions.of_run(row.workflow, row.version) if self._app else None
        if found is None:
            known = tuple(sorted(self._app.workflows)) if self._app else ()
            raise UnknownWorkflow(name=row.workflow, known=known)
        return found


def _timeout(workflow: Workflow[..., Any], given: Duration | Keep | None) -> int | None:
    if isinstance(given, Keep):
        return workflow.timeout
    return None if given is None else microseconds(given, field="timeout")


def _priority(given: int) -> int:
    return checked_priority(given, "start")


def _must_be(kind: type, given: object, call: str, example: str) -> None:
    if not isinstance(given, kind):
        raise BadDefinition(
            what=f"{call} was given {given!r:.60}, not a message with its value",
            hint=f"Write client.{call}(workflow.bind(...), {example}, id=...).",
        )


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
