"""The App: a registry of steps and workflows. An object; a process may hold many."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast, overload

from holdfast.errors import BadDefinition
from holdfast.fronts.function.isolation import check_isolated
from holdfast.fronts.function.logs import checked_loggers
from holdfast.fronts.function.naming import check_name, described
from holdfast.fronts.function.step import (
    DEFAULTS,
    KEEP,
    AsyncStep,
    Keep,
    Step,
    StepDecorator,
    SyncStep,
    make_step,
    once,
    settings_of,
)
from holdfast.fronts.function.transaction import (
    SECONDS,
    TransactionDecorator,
    TransactionStep,
    WitnessedStep,
)
from holdfast.fronts.function.versions import Versions
from holdfast.fronts.function.workflow import Workflow, WorkflowDecorator
from holdfast.graphing import Graphs
from holdfast.model.cache import Cache
from holdfast.model.durations import Duration
from holdfast.model.labels import MOST, Value
from holdfast.model.limits import Limits, Rate, checked_limits, checked_managed
from holdfast.model.options import Isolate
from holdfast.model.queues import DEFAULT_PRIORITY, DEFAULT_QUEUE
from holdfast.model.retry import Retry
from holdfast.ports.transaction import Transaction
from holdfast.ports.witness import Witness
from holdfast.providers import checked_provider

if TYPE_CHECKING:
    from holdfast.client import Client
    from holdfast.fronts.function.entity import Entity, EntityDecorator
    from holdfast.fronts.function.scheduling import Work
    from holdfast.fronts.function.workflow import Bound
    from holdfast.model.schedules import Schedule
    from holdfast.model.settings import Settings
    from holdfast.ports.blobs import BlobStore
    from holdfast.ports.keys import Keys
    from holdfast.ports.observer import Observer
    from holdfast.ports.secrets import SecretProvider
    from holdfast.sync import SyncClient

C = TypeVar("C")
E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")

Definition = Step[..., Any] | Workflow[..., Any]


class App(Graphs):
    """What a worker can run, and the door to it: `async with app.open(url) as client`.

    `logs` names loggers of the standard library; what they get from a step or a body is kept in the
    run's log, as what `hf.log` gets is. The root logger's name is "". `secrets` is where the
    secrets come from that steps list and that their run was not given.
    """

    def __init__(
        self,
        name: str,
        *,
        namespace: str = "default",
        logs: Iterable[str] = (),
        secrets: SecretProvider | None = None,
    ) -> None:
        self.name, self.namespace = check_name(name, "App name"), check_name(namespace, "Namespace")
        self.logs = checked_loggers(logs)
        self.secrets = None if secrets is None else checked_provider(secrets)
        self._steps: dict[str, Step[..., Any]] = {}
        self._entities: dict[type[Any], Entity[Any]] = {}
        self.observers: tuple[Observer, ...] = ()
        self._queues: dict[str, Limits] = {}
        self._schedules: dict[str, Work] = {}
        self.versions = Versions()
        super().__init__()

    def __repr__(self) -> str:
        return f"<app {self.name}>"

    @property
    def steps(self) -> Mapping[str, Step[..., Any]]:
        """The registered steps by name."""
        return MappingProxyType(self._steps)

    @property
    def workflows(self) -> Mapping[str, Workflow[..., Any]]:
        """The registered workflows by name; of several versions the one defined last."""
        return self.versions.newest

    @property
    def queues(self) -> Mapping[str, Limits]:
        """The queues that were given limits, by name."""
        return MappingProxyType(self._queues)

    def queue(
        self,
        name: str,
        *,
        concurrency: int | None = None,
        key_concurrency: int | None = None,
        worker_concurrency: int | None = None,
        rate: Rate | None = None,
    ) -> str:
        """Say what a queue allows, over all hosts; return its name.

        `concurrency` is how many of its runs and jobs may have begun and not ended,
        `key_concurrency` how many of one `queue_key`, `worker_concurrency` how many one worker has
        in hand, `rate` how many may begin in a time: `hf.Rate(100, per=timedelta(minutes=1))`. Keys
        take turns. The limits are stored when the app is opened. Raises `BadDefinition`.
        """
        limits = checked_limits(
            checked_managed(name, "app.queue"), concurrency=concurrency, rate=rate,
            key_concurrency=key_concurrency, worker_concurrency=worker_concurrency,
        )  # fmt: skip
        if self._queues.get(name, limits) != limits:
            raise BadDefinition(
                what=f"App {self.name!r} has given queue {name!r} other limits already",
                hint="Say once what it allows.",
            )
        self._queues[name] = limits
        return name

    # The overlap is explained at StepDecorator.
    @overload
    def step(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncStep[P, R]: ...
    @overload
    def step(self, function: Callable[P, R], /) -> SyncStep[P, R]: ...
    @overload
    def step(
        self,
        /,
        *,
        name: str | None = None,
        retry: Retry = DEFAULTS.retry,
        timeout: Duration | None = None,
        total_timeout: Duration | None = None,
        heartbeat_timeout: Duration | None = None,
        raises: Iterable[type[Exception]] = (),
        completes_later: bool = False,
        at_most_once: bool = False,
        secrets: Iterable[str] = (),
        queue: str | None = None,
        queue_timeout: Duration | None = None,
        isolate: Isolate | None = None,
        cache: Cache | None = None,
    ) -> StepDecorator: ...
    def step(  # noqa: PLR0913 - the settings of a step, each by its name
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        retry: Retry = DEFAULTS.retry,
        timeout: Duration | None = None,
        total_timeout: Duration | None = None,
        heartbeat_timeout: Duration | None = None,
        raises: Iterable[type[Exception]] = (),
        completes_later: bool = False,
        at_most_once: bool = False,
        secrets: Iterable[str] = (),
        queue: str | None = None,
        queue_timeout: Duration | None = None,
        isolate: Isolate | None = None,
        cache: Cache | None = None,
    ) -> Any:
        """Register a function as a step: `@app.step`, or `@app.step(timeout=30, ...)`.

        `timeout` limits one attempt, `total_timeout` all of them with the waits between,
        `heartbeat_timeout` the silence between two calls of `hf.heartbeat`. An exception of a class
        in `raises` reaches the body as itself, any other as `StepFailed`. A step that
        `completes_later` has a token, and may leave its outcome to whoever has that. One that runs
        `at_most_once` is recorded before it begins, and never tried again: if its worker is lost
        meanwhile, the body gets `StepOutcomeUnknown`. `secrets` are the names of those it reads
        with `hf.secret`: it begins when all of them are here. One with a `queue` is done as a job
        by any worker that serves it, and may wait there for `queue_timeout`. With
        `isolate="process"` it runs in a process of its own, which is killed if it must be. With a
        `cache` it does not run if a former call has left a result that may be used.
        """
        settings = settings_of(
            retry=retry,
            timeout=timeout,
            total_timeout=total_timeout,
            heartbeat_timeout=heartbeat_timeout,
            queue=queue, queue_timeout=queue_timeout, cache=cache,
        )._replace(isolate=isolate)  # fmt: skip
        if at_most_once:
            settings = once(settings)

        def register(target: Callable[..., Any]) -> Step[..., Any]:
            if isolate is not None:
                check_isolated(target, isolate)
            made = make_step(
                target, name=name, settings=settings, raises=raises,
                completes_later=completes_later, secrets=secrets,
            )  # fmt: skip
            self._refuse_duplicate(made)
            self._steps[made.name] = made
            return made

        return register if function is None else register(function)

    @overload
    def transaction(
        self, function: Callable[Concatenate[Transaction, P], R], /
    ) -> TransactionStep[Transaction, P, R]: ...
    @overload
    def transaction(
        self,
        /,
        *,
        name: str | None = None,
        retry: Retry = DEFAULTS.retry,
        timeout: Duration | None = SECONDS,
        total_timeout: Duration | None = None,
        raises: Iterable[type[Exception]] = (),
    ) -> TransactionDecorator[Transaction]: ...
    @overload
    def transaction(
        self,
        /,
        *,
        on: Witness[C],
        name: str | None = None,
        retry: Retry = DEFAULTS.retry,
        timeout: Duration | None = None,
        total_timeout: Duration | None = None,
        raises: Iterable[type[Exception]] = (),
    ) -> TransactionDecorator[C]: ...
    def transaction(  # noqa: PLR0913 - the settings of a step, each by its name
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        on: Witness[Any] | None = None,
        name: str | None = None,
        retry: Retry = DEFAULTS.retry,
        timeout: Duration | Keep | None = KEEP,
        total_timeout: Duration | None = None,
        raises: Iterable[type[Exception]] = (),
    ) -> Any:
        """Register a short `def` as a step that takes effect exactly once: `@app.transaction`.

        Its first parameter is a `Transaction` on the database in which the runs are kept; a call
        has only the others. What it writes and the record of its result are one commit. If it
        raises, nothing is kept, and it is tried again as any step is. One that takes longer than
        `timeout` (5 s) is undone: others wait for it.

        With `on`, it works on a database of your own, in which that witness keeps a row for it in
        the same transaction: done once, and known to be done whatever crashes before the record.
        """
        short = DEFAULTS._replace(timeout=SECONDS * 1_000_000, transacts=True)
        settings = settings_of(
            retry=retry,
            timeout=timeout,
            total_timeout=total_timeout,
            base=short if on is None else DEFAULTS,
        )

        def register(target: Callable[..., Any]) -> Step[..., Any]:
            given: dict[str, Any] = {"name": name, "settings": settings, "raises": raises}
            made: Step[..., Any] = (
                TransactionStep(target, **given)
                if on is None
                else WitnessedStep(target, on, **given)
            )
            self._refuse_duplicate(made)
            self._steps[made.name] = made
            return made

        return register if function is None else register(function)

    @overload
    def workflow(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...
    @overload
    def workflow(
        self,
        /,
        *,
        name: str | None = None,
        version: str = "",
        timeout: Duration | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = DEFAULT_PRIORITY,
    ) -> WorkflowDecorator: ...
    def workflow(
        self,
        function: Callable[..., Coroutine[Any, Any, Any]] | None = None,
        /,
        *,
        name: str | None = None,
        version: str = "",
        timeout: Duration | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = DEFAULT_PRIORITY,
    ) -> Any:
        """Register an async function as a workflow: its body, deterministic and only asking.

        Several versions of one name may stand side by side. A run keeps the version it was started
        with and is run by that one; new runs start on the version that was defined last.
        `timeout` is how long a run of it may take, from its start; then it is cancelled, may clean
        up, and ends `timed_out`. `queue` and `priority` (1 goes first, 5 last) are where its runs
        wait for a worker, unless their start says otherwise.
        """

        def register(target: Callable[..., Coroutine[Any, Any, Any]]) -> Workflow[..., Any]:
            made = Workflow(
                target, name=name, version=version, timeout=timeout, queue=queue, priority=priority
            )
            self._refuse_duplicate(made)
            self.versions.add(made)
            return made

        return register if function is None else register(function)

    @overload
    def entity(self, cls: type[E], /) -> type[E]: ...
    @overload
    def entity(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = DEFAULT_PRIORITY,
        continue_after: int | None = None,
    ) -> EntityDecorator: ...
    def entity(
        self,
        cls: type[Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = DEFAULT_PRIORITY,
        continue_after: int | None = None,
    ) -> Any:
        """Register a dataclass as an entity: one long-lived run for each key, its fields the state.

        Others call its methods that are marked with `@hf.update` and `@hf.query`, through
        `client.entity(Cart, "ada")`. Its run continues as new by itself, after `continue_after`
        events or when `hf.should_continue()` says so.
        """
        # Imported late: most apps have none.
        from holdfast.fronts.function.entity import Entity

        def register(target: type[Any]) -> type[Any]:
            made: Entity[Any] = Entity(
                target, name=name, queue=queue, priority=priority, continue_after=continue_after
            )
            self._refuse_duplicate(made.workflow)
            self.versions.add(made.workflow)
            self._entities[target] = made
            return target

        return register if cls is None else register(cls)

    def entity_of(self, cls: type[E]) -> Entity[E]:
        """Return the entity that a class was registered as. Raises `BadDefinition`."""
        given: Any = cls
        found = self._entities.get(given) if isinstance(given, type) else None
        if found is None:
            known = ", ".join(sorted(each.__name__ for each in self._entities)) or "none"
            raise BadDefinition(
                what=f"{cls!r:.60} is no entity of app {self.name!r}",
                hint=f"Register the class with @app.entity. There are: {known}.",
            )
        return found

    def observe(self, *observers: Observer) -> None:
        """Have them told of every event that workers of this app commit, each by itself.

        Before the app is opened. A slow or failing observer holds up nobody but itself.
        """
        # Imported late: most apps have none.
        from holdfast.sinks.observers import checked

        self.observers += tuple(checked(each) for each in observers)

    def schedule(  # noqa: PLR0913 - each by its name
        self,
        id: str,
        bound: Bound[Any],
        schedule: Schedule,
        /,
        *,
        timeout: Duration | Keep | None = KEEP,
        tags: Sequence[str] = (),
        attributes: Mapping[str, Value] = MappingProxyType({}),
        queue: str | None = None,
        priority: int | None = None,
    ) -> None:
        """Declare that the clock starts runs: `app.schedule("nightly", report.bind(), times)`.

        It is kept in the store when the app is opened there, and changed there when it has changed
        here. What it was told otherwise stays: that it is paused, how far it has come. The rest is
        as for `client.start`. Raises `BadDefinition`, `InvalidName` and what `start` raises.
        """
        # Imported late: most apps have none.
        from holdfast.fronts.function.scheduling import work_of
        from holdfast.model.schedules import checked_schedule_id

        work = work_of(
            bound, schedule, timeout=timeout, tags=tags, attributes=attributes, queue=queue,
            priority=priority,
        )  # fmt: skip
        if checked_schedule_id(id) in self._schedules:
            hint = "Give one of them another id."
            raise BadDefinition(what=f"App {self.name!r} already has a schedule {id!r}", hint=hint)
        self._schedules[id] = work

    @property
    def schedules(self) -> Mapping[str, Work]:
        """The declared schedules by id."""
        return MappingProxyType(self._schedules)

    def labelled(self, attributes: Mapping[str, Value]) -> Mapping[str, Value]:
        """Return the attributes of a run that is started here, with what observers send along."""
        if not self.observers or len(attributes) >= MOST:
            return attributes
        from holdfast.sinks.observers import carried

        return {**carried(self.observers), **attributes}

    def open(
        self,
        url: str,
        *,
        worker: bool = True,
        settings: Settings | None = None,
        keys: Keys | None = None,
        blobs: str | BlobStore | None = None,
    ) -> AbstractAsyncContextManager[Client]:
        """Open the store at `url`; leaving the block closes it.

        With `worker=True` this process also runs the workflows while the block is open. `keys`, an
        `hf.KeyRing`, encrypt payloads and the secrets of runs before they leave the process; by
        default those of the variable HOLDFAST_KEYS. Payloads above 256 KiB go to `blobs`:
        `file:///directory`, `s3://bucket/prefix`, "" for none; by default beside an SQLite file.
        """
        # Imported late: defining an app must not load stores and hosts.
        from holdfast.compose import open_client

        return open_client(self, url, worker=worker, settings=settings, keys=keys, blobs=blobs)

    def open_sync(
        self,
        url: str,
        *,
        worker: bool = True,
        settings: Settings | None = None,
        keys: Keys | None = None,
        blobs: str | BlobStore | None = None,
    ) -> SyncClient:
        """Open the store at `url` for code without an event loop; the client is closed after use.

        `with app.open_sync(url) as client: ...`, or call its `close`. Raises `SyncInLoop`.
        """
        from holdfast.sync import Portal, SyncClient

        opened = partial(self.open, url, worker=worker, settings=settings, keys=keys, blobs=blobs)
        return SyncClient(Portal(opened))

    def _refuse_duplicate(self, made: Definition) -> None:
        taken: Definition | None = self._steps.get(made.name)
        if taken is None and isinstance(made, Step):
            taken = self.workflows.get(made.name)
        elif taken is None and isinstance(made, Workflow):
            taken = self.versions.taken(made)
        if taken is None:
            return
        kind = "step" if isinstance(taken, Step) else "workflow"
        function = cast("Callable[..., Any]", taken.function)
        named = f"{kind} {made.name!r}"
        if isinstance(taken, Workflow) and taken.version:
            named += f" of version {taken.version!r}"
        raise BadDefinition(
            what=f"App {self.name!r} already has a {named}: {described(function)}",
            hint='Give one of them another name with name="...".',
        )
