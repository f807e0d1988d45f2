"""`crashtest`: a workflow crashed at each of its commits must end as if nothing had happened.

    from holdfast.testing import crashtest

    def test_an_order_survives_every_crash() -> None:
        crashtest(checkout.bind("lamp"), before=bank.clear, effects=lambda: sorted(bank))

The run is done once undisturbed, in virtual time. Then it is done again for every call that changes
the store, and each time something goes wrong at that call: the process dies before it, after it,
or while it is under way, or nobody learns whether it happened. A new worker goes on. Whatever went
wrong, the run must end the same: status, result, the answers in its history, signals read. Every
recorded step ran, and none ran again after its record. `effects` tells what was done outside of the
store, and that must be the same too.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import Context
from typing import Any, Literal, ParamSpec, TypeVar, cast, overload

from holdfast.app import App
from holdfast.errors import BadDefinition, CrashtestFailed
from holdfast.fronts.function.methods import UpdateMethod
from holdfast.fronts.function.workflow import Bound
from holdfast.hosts.worker import Worker
from holdfast.hosts.worker.steps import StepRun, Steps
from holdfast.machine.signals import Signal
from holdfast.machine.talk import Query, Update
from holdfast.model.settings import Settings
from holdfast.testing.crash import Flavour
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_homes import Home
from holdfast.testing.crash_sweep import Kind, Point, Report, sweep
from holdfast.testing.crash_world import Plant, Scenario, World, effect
from holdfast.testing.virtual import LONGEST, YEAR

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Where = Literal["memory", "sqlite", "postgres"] | Callable[[], Home]
"""Which store; a call gives an empty home of another kind."""

SETTINGS = Settings(paranoid=True, poll=YEAR, renew=YEAR, lease=3 * YEAR)
"""Long waits, because a death is seen at once here and a fault makes workers look around."""

WRONG: dict[Flavour, str] = {
    "before": "the process dies before",
    "after": "the process dies right after",
    "sent": "the process dies while it waits for",
    "unheard": "the process dies before it hears of",
    "happened": "nobody learns that it happened:",
    "lost": "nobody learns that it did not happen:",
}


class Driven:
    """The run, as a story steers it.

    The process that tells the story may die, and tells it again from the start: so a message has
    the same id each time, and a sleep that was over is not slept again.
    """

    def __init__(self, caller: Caller, id: str) -> None:
        self._caller, self.id = caller, id
        self._signals = self._updates = 0
        self._at = 0.0

    async def signal(self, signal: Signal[T], value: T) -> None:
        """Send a signal."""
        self._signals += 1
        await self._caller.signal(self.id, signal, value, f"signal-{self._signals}")

    @overload
    async def update(self, update: Update[None, R], /) -> R: ...
    @overload
    async def update(self, update: Update[A, R], value: A, /) -> R: ...
    @overload
    async def update(
        self, update: UpdateMethod[Any, P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    async def update(self, update: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Have an update, or a method of an entity, carried out, and return its result.

        Raises `UpdateRejected` or `UpdateFailed`, as for any caller.
        """
        self._updates += 1
        talk, value = update, args[0] if args else None
        if isinstance(update, UpdateMethod):
            talk, value = cast("Any", update).talk, (args, kwargs)
        return await self._caller.updated(self.id, talk, value, f"update-{self._updates}")

    @overload
    async def query(self, query: Query[None, R]) -> R: ...
    @overload
    async def query(self, query: Query[A, R], value: A) -> R: ...
    async def query(self, query: Query[Any, R], value: Any = None) -> R:
        """Ask the run: what it has done by now depends on the moment."""
        return await self._caller.query(self.id, query, value)

    async def answer(self, key: str, value: object, *, by: str = "") -> bool:
        """Answer a question of the run once it is open; tell whether this answer counts."""
        return await self._caller.answer(self.id, key, value, by)

    async def complete(self, key: str, value: object) -> bool:
        """Give the result of a step that completes later, once its code has ended."""
        return await self._caller.complete(self.id, key, value)

    async def fail(self, key: str, type: str) -> bool:
        """Have such a step fail with an error of that name."""
        return await self._caller.complete(self.id, key, None, failing=type)

    async def cancel(self) -> None:
        """Ask the run to stop, if it is open."""
        await self._caller.cancel(self.id)

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass, counted from where the story was."""
        self._at += seconds
        await asyncio.sleep(max(0.0, self._at - asyncio.get_running_loop().time()))


Story = Callable[[Driven], Awaitable[None]]


def crashtest(  # noqa: PLR0913 - what a test may say, each by its name
    bound: Bound[Any],
    story: Story | None = None,
    *,
    before: Callable[[], object] = lambda: None,
    effects: Callable[[], object] | None = None,
    loose: Iterable[str] = (),
    store: Where = "memory",
    app: App | None = None,
    seed: int | None = None,
    only: str = "",
) -> Report:
    """Crash a run at each of its commits; return what was tried. Raises `CrashtestFailed`.

    `story` sends the run its signals and updates, or cancels it; without one it gets none. `before`
    is called before each run, to empty what `effects` reads; what that returns must be the same at
    each end. `loose` names steps that may give another result when they run again, or fail in
    between, and the workflow if its result depends on theirs. `app` is needed only if the workflow
    needs others of it, its limits of queues, or its provider of secrets. `only` tries one point, as
    the error of a failed test names it.
    """
    if not isinstance(bound, Bound):
        raise BadDefinition(
            what=f"crashtest was given {bound!r:.60}, not a workflow with its input",
            hint="Write crashtest(order.bind(...)).",
        )
    name = bound.workflow.name
    scenario = Scenario(
        name,
        app or _app_of(bound),
        _script(bound, story),
        settings=SETTINGS,
        flavours=(),
        loose=frozenset(loose),
        only_commits=True,
        is_watched=True,
        prepare=before,
        longest=LONGEST,
        check=_Probe(effects),
    )
    with _kind(store) as kind:
        report = sweep(
            scenario, kind, plant=lambda: Plant(worker=Witnessed), seed=seed, stop_at_first=True,
            only=only,
        )  # fmt: skip
    if only and not report.points:
        raise BadDefinition(
            what=f"There is no point {only!r} in this run",
            hint="Take it from the error of a crashtest of the same code, store and seed.",
        )
    if report.violations:
        raise _failure(report)
    return report


class Witnessed(Worker):
    """A worker that leaves a mark outside of the store for each step it begins."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.steps = _Steps(slots=self.settings.steps, threads=self.settings.threads)
        self.steps.calls.isolates = False


class _Steps(Steps):
    def context_of(self, run: StepRun) -> Context:
        effect(attempt=run)
        return super().context_of(run)


class _Probe:
    """Holds the effects of each world against those of the first, which was undisturbed."""

    def __init__(self, effects: Callable[[], object] | None) -> None:
        self._effects = effects
        self._expected: list[object] = []

    def __call__(self, world: World) -> list[str]:
        if self._effects is None:
            return []
        found = copy.deepcopy(self._effects())
        if not self._expected:
            self._expected.append(found)
        (expected,) = self._expected
        return (
            [] if found == expected else [f"the effects are {found!r}, and should be {expected!r}"]
        )


def _app_of(bound: Bound[Any]) -> App:
    app = App("crashtest")
    app.versions.add(bound.workflow)
    return app


def _script(bound: Bound[Any], story: Story | None) -> Callable[[Caller], Awaitable[None]]:
    run = bound.workflow.name

    async def script(caller: Caller) -> None:
        await caller.start(bound, run)
        if story is not None:
            await story(Driven(caller, run))
        await caller.result(run)

    return script


@contextmanager
def _kind(store: Where) -> Generator[Kind]:
    if store != "postgres":
        yield store
        return
    from holdfast.testing.crash_database import Database
    from holdfast.testing.inline import Elsewhere
    from holdfast.testing.postgres import PostgresServer

    with PostgresServer.start() as server, server.database() as url, Elsewhere() as elsewhere:
        made = Database(url, elsewhere)
        made.migrate()
        try:
            yield made
        finally:
            made.close()


def _failure(report: Report) -> CrashtestFailed:
    point = report.failing
    return CrashtestFailed(
        workflow=report.scenario,
        store=report.store,
        where=_told(point) if point is not None else "",
        problems=tuple(each.removeprefix(f"{point}: ") for each in report.violations),
        only="" if point is None else point.name,
        tried=f"{len(report.executed)} of {len(report.points)}",
    )


def _told(point: Point) -> str:
    call = point.call
    wrong = WRONG.get(point.flavour, point.flavour)
    what = f"the commit of {call.events}" if call.events else f"{call.method}({call.what})"
    return f"{wrong} {what}"
