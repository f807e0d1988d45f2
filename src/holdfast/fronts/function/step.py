"""Steps: registered functions in which effects happen.

Calling a step gives a coroutine wherever it is called. In a workflow body the coroutine asks the
machine for the step's result; in another step, a test or plain code it is just the function.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    overload,
)

from holdfast.errors import BadDefinition, StepFailed, StepOutcomeUnknown, StepTimedOut
from holdfast.fronts.function.caching import check_cached, checked_cache
from holdfast.fronts.function.naming import check_function, is_async, local_names, name_of
from holdfast.fronts.function.raising import Raisable, details_of, raisables, rebuild
from holdfast.fronts.function.secrets import listed_secrets
from holdfast.machine import current
from holdfast.machine.loop import Loop
from holdfast.machine.spin import running_loop
from holdfast.machine.tasks import key_of
from holdfast.model.cache import Cache
from holdfast.model.checks import checked_id
from holdfast.model.durations import Duration, microseconds
from holdfast.model.events import Failure
from holdfast.model.failures import failure_of
from holdfast.model.limits import checked_managed
from holdfast.model.options import StepOptions
from holdfast.model.queues import checked_queue
from holdfast.model.retry import Retry

if TYPE_CHECKING:
    from holdfast.machine.values import Signature

P = ParamSpec("P")
R = TypeVar("R")


class Keep(Enum):
    """The default of `Step.options`: leave this setting as the definition has it."""

    KEEP = "keep"


KEEP: Literal[Keep.KEEP] = Keep.KEEP
DEFAULTS = StepOptions()
FAILURES = {made.__name__: made for made in (StepTimedOut, StepOutcomeUnknown)}
"""What a body catches that is more than `StepFailed`, by the name it is recorded under."""


class Step(Generic[P, R]):
    """A registered function. `settings` say how it is attempted, `raises` what crosses as itself.

    `is_async` tells whether `function` gives a coroutine; a sync one runs on a thread.
    """

    __name__: str
    name: str
    function: Callable[P, Any]
    settings: StepOptions
    raises: Mapping[str, type[Exception]]
    is_async: bool
    secrets: tuple[str, ...]
    """The names of the secrets it gets before it begins."""
    secrets_in: Callable[[bytes], tuple[str, ...]] | None = None
    """Finds the names of more of them in its arguments, for a worker that does it as a job."""
    takes: Callable[..., Signature] | None = None
    """Makes its signature, if its arguments are not stored as those of other steps are."""
    completes_later: bool = False
    is_transaction: bool = False

    def __init__(
        self,
        function: Callable[P, Any],
        *,
        name: str | None = None,
        settings: StepOptions = DEFAULTS,
        raises: Iterable[type[Exception]] = (),
        secrets: Iterable[str] = (),
    ) -> None:
        check_function(function, "step")
        functools.update_wrapper(self, function, updated=())
        self.name = name_of(function, "step", name)
        self.function, self.settings = function, settings
        self._names = local_names(function)
        self._raisables: Mapping[str, Raisable] = raisables(raises, self.name)
        self.raises = {name: each.type for name, each in self._raisables.items()}
        self.is_async = is_async(function)
        self.secrets = listed_secrets(secrets, self.name) if secrets else ()

    if TYPE_CHECKING:
        # Declared as `async def`, because mypy gives Any for asyncio.gather over two calls whose
        # declared type spells out Coroutine[Any, Any, R].
        async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    else:

        def __call__(self, *args, **kwargs):
            """Return a coroutine that gives the result. In a body, the key is taken here."""
            loop = running_loop()
            if type(loop) is Loop:  # as `current` tells, without a call more at every step
                return loop.machine.call(self, args, kwargs, self.settings)
            if self.is_async:
                return self.function(*args, **kwargs)
            return _run(self.function, args, kwargs)

    def __repr__(self) -> str:
        return f"<step {self.name}>"

    @functools.cached_property
    def signature(self) -> Signature:
        """How arguments and the result are stored. Made at first use: it imports pydantic."""
        from holdfast.machine.values import Signature

        return (self.takes or Signature.of)(self.function, names=self._names)

    def options(  # noqa: PLR0913 - each by its name
        self,
        *,
        retry: Retry | Keep = KEEP,
        timeout: Duration | Keep | None = KEEP,
        total_timeout: Duration | Keep | None = KEEP,
        heartbeat_timeout: Duration | Keep | None = KEEP,
        queue: str | Keep | None = KEEP,
        queue_timeout: Duration | Keep | None = KEEP,
        queue_key: str | Keep | None = KEEP,
        cache: Cache | Keep | None = KEEP,
    ) -> Self:
        """Return this step with other settings, for one call: `charge.options(timeout=5)(order)`.

        None takes a limit away; what is not given stays as the definition has it. With `queue=None`
        the step runs where its run is, and with `cache=None` it runs in any case.
        """
        changed = copy.copy(self)
        changed.settings = settings_of(
            retry=retry,
            timeout=timeout,
            total_timeout=total_timeout,
            heartbeat_timeout=heartbeat_timeout,
            queue=queue,
            queue_timeout=queue_timeout,
            queue_key=queue_key,
            cache=cache,
            base=self.settings,
        )
        check_cached(changed)
        if changed.settings.queue is not None and not isinstance(changed, Later):
            changed.__class__ = _elsewhere(self)
        if changed.settings.at_most_once:
            once(changed.settings)
        return changed

    @property
    def fits_chunks(self) -> bool:
        """Whether many calls of it may be done as one step."""
        settings = self.settings
        return not (settings.at_most_once or settings.transacts or settings.cache is not None)

    def describe(self, error: BaseException, attempts: int = 1) -> Failure:
        """Return what is stored when an attempt failed for good."""
        if isinstance(error, StepTimedOut | StepOutcomeUnknown):
            return failure_of(error, attempts=attempts)._replace(message=error.message)
        return failure_of(error, attempts=attempts, details=details_of(error, self._raisables))

    def error_of(self, failure: Failure, key: str) -> Exception:
        """Return what a body catches for `failure`. Raises `InvalidValue` if it cannot be read."""
        made = FAILURES.get(failure.type, StepFailed)
        told = made(
            step=key,
            type=failure.type,
            message=failure.message,
            attempts=failure.attempts,
            details=failure.details,
            traceback=failure.traceback,
        )
        own = rebuild(failure.details, self._raisables)
        if own is None:
            return told
        own.__cause__ = told
        return own


class AsyncStep(Step[P, R]):
    """A step made from an `async def`."""

    @property
    def plain(self) -> Callable[P, Coroutine[Any, Any, R]]:
        """The bare function: never recorded, wherever it is called."""
        return self.function


class SyncStep(Step[P, R]):
    """A step made from a plain `def`; called, it gives a coroutine like every step."""

    @property
    def plain(self) -> Callable[P, R]:
        """The bare function: never recorded, wherever it is called."""
        return self.function


class Later(Step[P, R]):
    """A step whose outcome may come from outside: by a token, or from a worker that does the job.

    The host learns of it before it begins.
    """

    if not TYPE_CHECKING:

        def __call__(self, *args, **kwargs):
            """Return a coroutine that gives the result. In a body, the key is taken here."""
            call, machine = super().__call__(*args, **kwargs), current()
            if machine is not None:
                from holdfast.machine.questions import outside_of

                outside_of(machine).add_step(key_of(call))
            return call


class LaterAsyncStep(Later[P, R], AsyncStep[P, R]):
    """... made from an `async def`."""


class LaterSyncStep(Later[P, R], SyncStep[P, R]):
    """... made from a plain `def`."""


ELSEWHERE: Mapping[type[Any], type[Any]] = {
    AsyncStep: LaterAsyncStep, SyncStep: LaterSyncStep,
}  # fmt: skip
"""What a step becomes when one call of it is to be done as a job."""


class StepDecorator(Protocol):
    """What `@app.step(...)` puts on a function."""

    # A coroutine is a value too, so the second overload fits an async function as well: the
    # checkers take the first that fits, and so does make_step.
    @overload
    def __call__(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncStep[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncStep[P, R]: ...


def make_step(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    settings: StepOptions = DEFAULTS,
    raises: Iterable[type[Exception]] = (),
    completes_later: bool = False,
    secrets: Iterable[str] = (),
) -> AsyncStep[..., Any] | SyncStep[..., Any]:
    """Return the step of a function, sync or async. Raises `BadDefinition`."""
    given: dict[str, Any] = {
        "name": name, "settings": settings, "raises": raises, "secrets": secrets,
    }  # fmt: skip
    made: AsyncStep[..., Any] | SyncStep[..., Any]
    if completes_later or settings.queue is not None:
        kind = LaterAsyncStep[..., Any] if is_async(function) else LaterSyncStep[..., Any]
        made = kind(function, **given)
        made.completes_later = completes_later
    elif is_async(function):
        made = AsyncStep[..., Any](function, **given)
    else:
        made = SyncStep[..., Any](function, **given)
    check_cached(made)
    return made


def settings_of(  # noqa: PLR0913 - each by its name
    *,
    retry: Retry | Keep = KEEP,
    timeout: Duration | Keep | None = KEEP,
    total_timeout: Duration | Keep | None = KEEP,
    heartbeat_timeout: Duration | Keep | None = KEEP,
    queue: str | Keep | None = KEEP,
    queue_timeout: Duration | Keep | None = KEEP,
    queue_key: str | Keep | None = KEEP,
    cache: Cache | Keep | None = KEEP,
    base: StepOptions = DEFAULTS,
) -> StepOptions:
    """Return `base` with the given settings in its place. Raises on what is no setting."""
    if not isinstance(retry, Retry | Keep):
        raise BadDefinition(
            what=f"retry={retry!r} is no Retry", hint="Write retry=hf.Retry(max_attempts=...)."
        )
    made = base._replace(
        retry=base.retry if isinstance(retry, Keep) else retry,
        timeout=_limit(timeout, base.timeout, "timeout"),
        total_timeout=_limit(total_timeout, base.total_timeout, "total_timeout"),
        heartbeat_timeout=_limit(heartbeat_timeout, base.heartbeat_timeout, "heartbeat_timeout"),
        queue=base.queue if isinstance(queue, Keep) else _queue(queue),
        queue_timeout=_limit(queue_timeout, base.queue_timeout, "queue_timeout"),
        queue_key=base.queue_key if isinstance(queue_key, Keep) else _key(queue_key),
        cache=base.cache if isinstance(cache, Keep) else checked_cache(cache),
    )
    if made.queue is None:
        for name, given in (("queue_timeout", queue_timeout), ("queue_key", queue_key)):
            if not isinstance(given, Keep) and given is not None:
                raise BadDefinition(
                    what=f"{name}={given!s:.60} was given to a step without a queue",
                    hint='Say where it waits: queue="gpu". A step without a queue begins at once.',
                )
        return made._replace(queue_timeout=None, queue_key="")
    if made.queue_key:
        checked_managed(made.queue, "a step with a queue_key")
    return made


def _elsewhere(step: Step[..., Any]) -> type[Any]:
    """Return what a step becomes when one call of it is to be done as a job."""
    found = ELSEWHERE.get(type(step))
    if found is None:
        raise BadDefinition(
            what=f"{step!r} cannot be done on another worker",
            hint="Leave out queue=: what it writes is part of the commit of its run.",
        )
    return found


def _queue(queue: str | None) -> str | None:
    return None if queue is None else checked_queue(queue)


def _key(key: str | None) -> str:
    return "" if key is None else checked_id(key, field="queue key")


def once(settings: StepOptions) -> StepOptions:
    """Return these settings for a step that runs at most once. Raises `BadDefinition`."""
    attempts = settings.retry.max_attempts
    if attempts != 1 and settings.retry is not DEFAULTS.retry:
        raise BadDefinition(
            what=f"A step runs at most once, and its retry allows {attempts} attempts",
            hint="Leave out retry=, or at_most_once=True.",
        )
    return settings._replace(at_most_once=True)


async def _run(function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
    return function(*args, **kwargs)


def _limit(given: Duration | Keep | None, base: int | None, field: str) -> int | None:
    if isinstance(given, Keep):
        return base
    return None if given is None else microseconds(given, field=field)
