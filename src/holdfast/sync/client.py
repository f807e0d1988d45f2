"""The sync door: the client for code without a loop. Written by `make docs`. Do not edit.

The thread and its loop are in `portal.py`; what each method does is in `holdfast/client.py`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Generic, Literal, ParamSpec, Self, TypeVar, Unpack, cast, overload

from holdfast.app import App
from holdfast.caching import StepCache
from holdfast.client import Client, Listing, RunHandle
from holdfast.entities import EntityHandle
from holdfast.fronts.function.methods import QueryMethod, UpdateMethod
from holdfast.fronts.function.step import KEEP, Keep
from holdfast.fronts.function.workflow import Bound, Workflow
from holdfast.machine.signals import BoundMessage, Signal
from holdfast.machine.talk import BoundUpdate, Query, Update
from holdfast.model.annotations import LogLine, Progress
from holdfast.model.cache import CachedStep
from holdfast.model.diffing import Diff
from holdfast.model.durations import Duration
from holdfast.model.events import Event
from holdfast.model.labels import NO_LABELS, Labels, Value
from holdfast.model.limits import QueueState, Rate
from holdfast.model.run import Loaded, Run
from holdfast.model.schedules import Schedule
from holdfast.model.secrets import Secret
from holdfast.model.status import RunStatus
from holdfast.ports.witness import Forgetting
from holdfast.queues import Queues
from holdfast.schedules import Schedules, ScheduleState
from holdfast.steering import Steered
from holdfast.sync.portal import Portal
from holdfast.talking import QuestionList, Settling, StartOptions, UpdateHandle, Wait

A = TypeVar("A")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
E = TypeVar("E")
P = ParamSpec("P")
U = TypeVar("U")


class SyncUpdateHandle(Generic[R_co]):
    """An update that a run has accepted, for sync code."""

    def __init__(self, portal: Portal[Any], inside: UpdateHandle[R_co]) -> None:
        self._portal, self._inside = portal, inside

    @property
    def id(self) -> str:
        """The update's id."""
        return self._inside.id

    @property
    def run(self) -> str:
        """The run's id."""
        return self._inside.run

    def __repr__(self) -> str:
        return repr(self._inside)

    def result(self) -> R_co:
        """Return what its handler returned, when it has.

        Raises `UpdateFailed` if it raised, `UpdateUnfinished` if the run ended before.
        """
        return self._portal.call("result", self._inside.result())


class SyncSettling:
    """What a client does about what runs wait for from outside, for sync code."""

    def __init__(self, portal: Portal[Any], inside: Settling) -> None:
        self._portal, self._inside = portal, inside

    def questions(
        self, *, to: str = "", run: str = "", limit: int = 20, after: str | None = None
    ) -> QuestionList:
        """Return one page of the questions that wait for an answer, the oldest first.

        `to` is one of those who are asked, `run` the id of one run, `after` the former page's
        `next`. Raises `InvalidCursor`.
        """
        return self._portal.call(
            "questions", self._inside.questions(to=to, run=run, limit=limit, after=after)
        )

    def complete(self, token: str, value: object = None, *, by: str = "") -> bool:
        """Give the result of a step that completes later; tell whether it was new.

        `token` is what `hf.completion_token()` gave in the step. Raises `AnswerRefused` if the
        attempt is over or has an outcome, `InvalidToken`, or `InvalidValue` if it does not fit.
        """
        return self._portal.call("complete", self._inside.complete(token, value, by=by))

    def fail(
        self, token: str, type: str, message: str = "", *, retry: bool = True, by: str = ""
    ) -> bool:
        """Let the attempt that a token names fail, as if its code had raised; True if it was new.

        `type` is the name of an error. It is tried again as the step says, unless `retry` is False.
        Raises like `complete`.
        """
        return self._portal.call(
            "fail", self._inside.fail(token, type, message, retry=retry, by=by)
        )


class SyncTalking(ABC):
    """One run, as somebody who talks to it sees it, for sync code."""

    _portal: Portal[Any]
    _inside: Any

    @overload
    def signal(self, signal: Signal[T], value: T, *, id: str | None = None) -> bool: ...
    @overload
    def signal(self, signal: str, value: object, *, id: str | None = None) -> bool: ...
    def signal(self, signal: Any, value: Any, *, id: str | None = None) -> bool:
        """Send a signal and return once it is stored; tell whether it was new.

        Give an `id` to make a repeat harmless. Raises `RunNotFound` or `RunClosed`.
        """
        found: bool = self._portal.call("signal", self._inside.signal(signal, value, id=id))
        return found

    @overload
    def query(self, query: Query[None, R]) -> R: ...
    @overload
    def query(self, query: Query[A, R], value: A) -> R: ...
    @overload
    def query(self, query: str, value: object = None) -> Any: ...
    def query(self, query: Any, value: Any = None) -> Any:
        """Ask the run, and return what its handler answers; nothing is recorded.

        It sees what is stored. If a worker in this process has the run, its body answers; else
        the history is replayed here, without effects, so this process needs the run's code. Raises
        `UnknownQuery`, `QueryFailed`, `RunNotFound`, or what keeps the history from being replayed.
        """
        found: Any = self._portal.call("query", self._inside.query(query, value))
        return found

    @overload
    def update(self, update: Update[None, R], *, id: str | None = None) -> R: ...
    @overload
    def update(self, update: Update[A, R], value: A, *, id: str | None = None) -> R: ...
    @overload
    def update(
        self, update: Update[None, R], *, id: str | None = None, wait: Literal["accepted"]
    ) -> SyncUpdateHandle[R]: ...
    @overload
    def update(
        self, update: Update[A, R], value: A, *, id: str | None = None, wait: Literal["accepted"]
    ) -> SyncUpdateHandle[R]: ...
    @overload
    def update(
        self, update: str, value: object = None, *, id: str | None = None, wait: Wait = "completed"
    ) -> Any: ...
    def update(
        self, update: Any, value: Any = None, *, id: str | None = None, wait: Wait = "completed"
    ) -> Any:
        """Have the run do something, and return what its handler returned.

        With `wait="accepted"`, a handle is returned as soon as the run has accepted it. The id is
        its idempotency key: the same id gets the same reply, also if that was a refusal. Raises
        `UpdateRejected` if the run refused it, `UpdateFailed` if the handler raised,
        `UpdateUnfinished` if the run ended before it was done, `RunNotFound`, `RunClosed`, or
        `MessageConflict` if the id belongs to another message.
        """
        found: Any = self._portal.call(
            "update", self._inside.update(update, value, id=id, wait=wait)
        )
        return SyncUpdateHandle(self._portal, found) if wait == "accepted" else found


class SyncSteered:
    """A run that can be told what to do, for sync code."""

    def __init__(self, portal: Portal[Any], inside: Steered) -> None:
        self._portal, self._inside = portal, inside

    @property
    def id(self) -> str:
        """The run's id."""
        return self._inside.id

    def __repr__(self) -> str:
        return repr(self._inside)

    def cancel(self, reason: str = "") -> bool:
        """Ask the run to stop; its body may clean up. Tell whether this was the first cancel.

        Raises `RunNotFound` or `RunClosed`.
        """
        return self._portal.call("cancel", self._inside.cancel(reason))

    def terminate(self, reason: str = "") -> None:
        """End the run now; nothing of its body runs any more. Raises `RunClosed`."""
        self._portal.call("terminate", self._inside.terminate(reason))

    def pause(self, reason: str = "") -> None:
        """Have the run start no more steps; those that run finish and are recorded."""
        self._portal.call("pause", self._inside.pause(reason))

    def resume(self) -> None:
        """Let a paused run go on. Raises `IllegalMove` if it is not paused."""
        self._portal.call("resume", self._inside.resume())

    def retry(self, reason: str = "") -> None:
        """Let a failed, blocked or quarantined run try again from where it failed.

        What it has recorded is not run again, unless a saga has undone it. One that could not undo
        all goes on with what is owed. Raises `IllegalMove`.
        """
        self._portal.call("retry", self._inside.retry(reason))

    def rerun(
        self,
        from_: str | int | None = None,
        *,
        keep_keys: bool = False,
        exactly: bool = False,
        reason: str = "",
        id: str | None = None,
    ) -> Sequence[str]:
        """Take the run back to where it asked for the step `from_`, or to its start.

        A number is that of the last event that counts: steps that were asked for by then stay,
        unless `exactly`, when nothing does that was recorded later.
        Works on open and on closed runs. What was asked for later no longer counts; nothing is
        deleted. Steps run again under new idempotency keys, unless `keep_keys`. Returns the keys
        whose outcome no longer counts. Give an `id` to make a repeat harmless: it then changes
        nothing, and returns none. Raises `UnknownKey`, `RunNotFound` or `IllegalMove`.
        """
        return self._portal.call(
            "rerun",
            self._inside.rerun(from_, keep_keys=keep_keys, exactly=exactly, reason=reason, id=id),
        )

    def answer(self, key: str, value: object, *, by: str = "") -> bool:
        """Answer an open question; False if it was answered just so before.

        `by` is who answers, kept in the history. The first answer counts. Raises `AnswerRefused`
        if there was another, or nobody waits for one; `InvalidValue` if it does not fit;
        `RunNotFound` or `RunClosed`.
        """
        return self._portal.call("answer", self._inside.answer(key, value, by=by))

    def supply_secret(self, name: str, secret: Secret) -> None:
        """Give the run a secret that its steps list, and let them go on if they wait for it.

        It is stored encrypted if there is a key ring, else kept in memory by the worker here.
        Raises `RunNotFound`, `RunClosed`, or `InvalidValue` if there is neither.
        """
        self._portal.call("supply_secret", self._inside.supply_secret(name, secret))


class SyncEntityHandle(Generic[E]):
    """The entity of one key, as seen from outside, for sync code."""

    def __init__(self, portal: Portal[Any], inside: EntityHandle[E]) -> None:
        self._portal, self._inside = portal, inside

    @property
    def id(self) -> str:
        """The id of the run that keeps it."""
        return self._inside.id

    @property
    def key(self) -> str:
        """The entity's key."""
        return self._inside.key

    def __repr__(self) -> str:
        return repr(self._inside)

    def update(self, method: UpdateMethod[E, P, U], /, *args: P.args, **kwargs: P.kwargs) -> U:
        """Have the entity carry out a method; return its result: `cart.update(Cart.add, "lamp")`.

        An entity that is not there begins with it, in one commit. Raises `UpdateRejected` if its
        validator refused, `UpdateFailed` if the method raised (the state is what it was before),
        `RunClosed` if the entity has ended.
        """
        return self._portal.call("update", self._inside.update(method, *args, **kwargs))

    def query(self, method: QueryMethod[E, P, U], /, *args: P.args, **kwargs: P.kwargs) -> U:
        """Ask the entity: `cart.query(Cart.total)`; nothing is recorded.

        It sees the state as the last finished update left it; that of an entity nobody has sent
        anything yet is made of the defaults. Raises `QueryFailed`.
        """
        return self._portal.call("query", self._inside.query(method, *args, **kwargs))

    def options(self, *, id: str) -> SyncEntityHandle[E]:
        """Return this entity with an id for the next update: one that is repeated counts once."""
        return SyncEntityHandle(self._portal, self._inside.options(id=id))


class SyncStepCache:
    """What is kept for later calls of steps, for sync code. `client.cache` is one."""

    def __init__(self, portal: Portal[Any], inside: StepCache) -> None:
        self._portal, self._inside = portal, inside

    def list(self, step: str = "", *, key: str = "") -> tuple[CachedStep, ...]:
        """Return how much is kept: of all steps, of one, or of one under this key.

        A step has an entry for each `version` of its cache. Raises `InvalidValue`.
        """
        return self._portal.call("list", self._inside.list(step, key=key))

    def forget(self, step: str, *, key: str = "") -> int:
        """Forget what is kept of a step, of all versions, or only under this key; return how many.

        Calls that begin later run. Raises `InvalidValue`.
        """
        return self._portal.call("forget", self._inside.forget(step, key=key))


class SyncQueues:
    """The queues of a store that have limits or are paused, for sync code."""

    def __init__(self, portal: Portal[Any], inside: Queues) -> None:
        self._portal, self._inside = portal, inside

    def list(self) -> tuple[QueueState, ...]:
        """Return them by name, each with its limits, slots held and what waits in line."""
        return self._portal.call("list", self._inside.list())

    def get(self, name: str) -> QueueState:
        """Return one of them. Raises `UnknownQueue` if it has neither limits nor a line."""
        return self._portal.call("get", self._inside.get(name))

    def pause(self, name: str) -> bool:
        """Let no more runs and jobs of a queue begin; tell whether that is news.

        Those that have begun go on. Raises `InvalidValue` for the usual queue.
        """
        return self._portal.call("pause", self._inside.pause(name))

    def resume(self, name: str) -> bool:
        """Let runs and jobs of a queue begin again; tell whether that is news."""
        return self._portal.call("resume", self._inside.resume(name))

    def set(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        key_concurrency: int | None = None,
        worker_concurrency: int | None = None,
        rate: Rate | None = None,
    ) -> bool:
        """Give a queue these limits in the place of those it had; tell whether that is news.

        What is not given is no limit. What has begun goes on, also if it is more than the
        new limits allow. What `app.queue` says counts again at the next `open`. Raises
        `BadDefinition` or `InvalidValue`.
        """
        return self._portal.call(
            "set",
            self._inside.set(
                name,
                concurrency=concurrency,
                key_concurrency=key_concurrency,
                worker_concurrency=worker_concurrency,
                rate=rate,
            ),
        )


class SyncSchedules:
    """What the clock starts, for sync code. `client.schedules` is one."""

    def __init__(self, portal: Portal[Any], inside: Schedules) -> None:
        self._portal, self._inside = portal, inside

    def create(
        self,
        id: str,
        bound: Bound[Any],
        schedule: Schedule,
        *,
        timeout: Duration | Keep | None = KEEP,
        tags: Sequence[str] = (),
        attributes: Mapping[str, Value] = NO_LABELS.attributes,
        queue: str | None = None,
        priority: int | None = None,
        paused: bool = False,
    ) -> ScheduleState:
        """Keep a schedule and return once it is stored; the first slot is the next one from now.

        Its runs are started as by `client.start` with these options. The same again changes
        nothing. Raises `ScheduleConflict` if the id belongs to another, `InvalidName` if it cannot
        be an id, and what `start` raises.
        """
        return self._portal.call(
            "create",
            self._inside.create(
                id,
                bound,
                schedule,
                timeout=timeout,
                tags=tags,
                attributes=attributes,
                queue=queue,
                priority=priority,
                paused=paused,
            ),
        )

    def update(
        self,
        id: str,
        bound: Bound[Any],
        schedule: Schedule,
        *,
        timeout: Duration | Keep | None = KEEP,
        tags: Sequence[str] = (),
        attributes: Mapping[str, Value] = NO_LABELS.attributes,
        queue: str | None = None,
        priority: int | None = None,
    ) -> ScheduleState:
        """Replace the work and the times of a schedule.

        What was due before is settled by its former times; the new ones count from now on. That it
        is paused stays. Raises `ScheduleNotFound`, and what `start` raises.
        """
        return self._portal.call(
            "update",
            self._inside.update(
                id,
                bound,
                schedule,
                timeout=timeout,
                tags=tags,
                attributes=attributes,
                queue=queue,
                priority=priority,
            ),
        )

    def pause(self, id: str, *, note: str = "") -> ScheduleState:
        """Stop the clock of a schedule; `note` says why. Raises `ScheduleNotFound`."""
        return self._portal.call("pause", self._inside.pause(id, note=note))

    def resume(self, id: str, *, note: str = "") -> ScheduleState:
        """Let the clock go on: of the slots since the pause, those within `catch_up` count.

        Raises `ScheduleNotFound`.
        """
        return self._portal.call("resume", self._inside.resume(id, note=note))

    def trigger(self, id: str, *, key: str | None = None) -> str:
        """Start a run now, whatever else runs and also while it is paused; return the run's id.

        The same `key` starts it once. Raises `ScheduleNotFound`.
        """
        return self._portal.call("trigger", self._inside.trigger(id, key=key))

    def backfill(self, id: str, start: datetime, end: datetime) -> ScheduleState:
        """Start a run for each slot from `start` to `end` that has none, at most 1,000.

        One after the other, unless they may overlap. Slots that the clock has not settled yet are
        left to it. Raises `ScheduleNotFound` or `InvalidSchedule`.
        """
        return self._portal.call("backfill", self._inside.backfill(id, start, end))

    def delete(self, id: str) -> None:
        """Forget a schedule; its runs stay. Raises `ScheduleNotFound`."""
        self._portal.call("delete", self._inside.delete(id))

    def get(self, id: str) -> ScheduleState:
        """Return a schedule as it stands. Raises `ScheduleNotFound`."""
        return self._portal.call("get", self._inside.get(id))

    def list(self, *, limit: int = 100, after: str = "") -> list[ScheduleState]:
        """Return schedules in the order of their ids, from the one after the id `after`."""
        return self._portal.call("list", self._inside.list(limit=limit, after=after))


class SyncClient(SyncSettling):
    """The door to an engine, for sync code. Made by `app.open_sync(url)`; close it after use."""

    def __init__(self, portal: Portal[Client]) -> None:
        super().__init__(portal, portal.inside)
        self._inside: Client = portal.inside
        self.portal = portal
        """The way into the loop in which it lives."""

    @property
    def app(self) -> App:
        """The app it was opened by."""
        return self._inside.app

    @property
    def cache(self) -> SyncStepCache:
        """What is kept for later calls of steps."""
        return SyncStepCache(self._portal, self._inside.cache)

    @property
    def queues(self) -> SyncQueues:
        """The queues that have limits."""
        return SyncQueues(self._portal, self._inside.queues)

    @property
    def schedules(self) -> SyncSchedules:
        """What the clock starts."""
        return SyncSchedules(self._portal, self._inside.schedules)

    def close(self) -> None:
        """Stop the worker, close the store and end the thread."""
        self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(
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
    ) -> SyncRunHandle[R]:
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
        return SyncRunHandle(
            self._portal,
            self._portal.call(
                "start",
                self._inside.start(
                    bound,
                    id=id,
                    timeout=timeout,
                    tags=tags,
                    attributes=attributes,
                    queue=queue,
                    priority=priority,
                    queue_key=queue_key,
                    queue_timeout=queue_timeout,
                    delay=delay,
                    start_at=start_at,
                    secrets=secrets,
                ),
            ),
        )

    def signal_with_start(
        self, bound: Bound[R], signal: BoundMessage, *, id: str, **options: Unpack[StartOptions]
    ) -> SyncRunHandle[R]:
        """Start a run with its first signal in one commit, or signal the run of that id.

        `signal` is one with its value: `approved.bind(value, id="...")`. Raises `RunClosed` if the
        run has ended, and what `start` raises.
        """
        return SyncRunHandle(
            self._portal,
            self._portal.call(
                "signal_with_start", self._inside.signal_with_start(bound, signal, id=id, **options)
            ),
        )

    @overload
    def update_with_start(
        self, bound: Bound[Any], update: BoundUpdate[U], *, id: str, **options: Unpack[StartOptions]
    ) -> U: ...
    @overload
    def update_with_start(
        self,
        bound: Bound[Any],
        update: BoundUpdate[U],
        *,
        id: str,
        wait: Literal["accepted"],
        **options: Unpack[StartOptions],
    ) -> SyncUpdateHandle[U]: ...
    def update_with_start(
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
        found: Any = self._portal.call(
            "update_with_start",
            cast("Any", self._inside).update_with_start(bound, update, id=id, wait=wait, **options),
        )
        return SyncUpdateHandle(self._portal, found) if wait == "accepted" else found

    def entity(self, cls: type[E], key: str) -> SyncEntityHandle[E]:
        """Return the entity of that class and key, whether or not it is there yet.

        Raises `BadDefinition` if the app has no such entity, `InvalidName` for a bad key.
        """
        return SyncEntityHandle(self._portal, self._inside.entity(cls, key))

    @overload
    def get(self, id: str) -> SyncRunHandle[Any]: ...
    @overload
    def get(self, id: str, workflow: Workflow[..., R]) -> SyncRunHandle[R]: ...
    def get(self, id: str, workflow: Workflow[..., Any] | None = None) -> SyncRunHandle[Any]:
        """Return a handle on a run; give its workflow to have the result typed."""
        found: RunHandle[Any] = cast("Any", self._inside).get(id, workflow)
        return SyncRunHandle(self._portal, found)

    def list(
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
        return self._portal.call(
            "list",
            self._inside.list(
                status=status, workflow=workflow, filter=filter, limit=limit, after=after
            ),
        )

    def diff(self, a: str, b: str) -> Diff:
        """Compare two runs key by key; `order-42@1` is the first generation of one.

        Raises `RunNotFound`, or `InvalidValue` if there was no such generation.
        """
        return self._portal.call("diff", self._inside.diff(a, b))

    def labels(self, *ids: str) -> Mapping[str, Labels]:
        """Return the tags and attributes of those of these runs that have some."""
        return self._portal.call("labels", self._inside.labels(*ids))

    def prune(self, *, older_than: Duration) -> int:
        """Forget runs that closed so long ago, with all of their histories; return how many.

        Open runs are never forgotten. Many runs go in small batches, so that others can write.
        """
        return self._portal.call("prune", self._inside.prune(older_than=older_than))

    def prune_witness(self, witness: Forgetting, *, older_than: Duration) -> int:
        """Forget what a witness knows of steps done so long ago; return how many.

        Only of runs that are closed, or forgotten: what an open run did stays, as it may not be
        recorded yet.
        """
        return self._portal.call(
            "prune_witness", self._inside.prune_witness(witness, older_than=older_than)
        )


class SyncRunHandle(SyncSteered, SyncTalking, Generic[R_co]):
    """One run, as seen from outside, for sync code."""

    def __init__(self, portal: Portal[Any], inside: RunHandle[R_co]) -> None:
        super().__init__(portal, inside)
        self._inside: RunHandle[R_co] = inside

    def result(self) -> R_co:
        """Return what the workflow returned, when it has.

        Raises `RunFailed`, or its subclass that says how else the run ended.
        """
        return self._portal.call("result", self._inside.result())

    def describe(self) -> Run:
        """Return the run's row: status, reason, times. Raises `RunNotFound`."""
        return self._portal.call("describe", self._inside.describe())

    def labels(self) -> Labels:
        """Return the tags and attributes the run was started with."""
        return self._portal.call("labels", self._inside.labels())

    def history(self) -> Loaded:
        """Return the run with its living events and unread messages. Raises `RunNotFound`."""
        return self._portal.call("history", self._inside.history())

    def events(self, *, after: int = 0) -> Iterator[Event]:
        """Yield the run's events with a seq above `after` as they come, until it is closed."""
        return self._portal.iterate("events", self._inside.events(after=after))

    def progress(self) -> tuple[Progress, ...]:
        """Return the last heartbeat of each step that is not answered yet. Raises `RunNotFound`."""
        return self._portal.call("progress", self._inside.progress())

    def logs(
        self, *, step: str = "", attempt: int = 0, after: int = 0, follow: bool = False
    ) -> Iterator[LogLine]:
        """Yield the lines that steps and the body left in the run's log, oldest first.

        `step` is a key or the name of a step, `after` the `at` of a line. With `follow`, lines are
        yielded as they come until the run is closed. Raises `RunNotFound`.
        """
        return self._portal.iterate(
            "logs", self._inside.logs(step=step, attempt=attempt, after=after, follow=follow)
        )

    def fork(
        self,
        at: int | str | None = None,
        *,
        id: str | None = None,
        results: Mapping[str, object] = MappingProxyType({}),
        input: Bound[Any] | None = None,
        reason: str = "",
    ) -> SyncRunHandle[R_co]:
        """Start a run that shares this one's history up to `at`, and goes its own way from there.

        `at` is the number of an event or the key of a step; without it, the last edited result, or
        all there is but the end. `results` are what steps gave in that history, by their keys; an
        edited `input` begins at the start. This run is untouched. Raises `UnknownKey`,
        `RunNotFound`, `RunConflict` or `InvalidValue`.
        """
        return SyncRunHandle(
            self._portal,
            self._portal.call(
                "fork", self._inside.fork(at, id=id, results=results, input=input, reason=reason)
            ),
        )
