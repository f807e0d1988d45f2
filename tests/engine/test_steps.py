"""Steps as a user writes them: async and sync, with any signature, and what they return."""

import asyncio
import signal
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

import holdfast as hf
from holdfast.fronts.function.step import make_step
from holdfast.hosts.worker.steps import Result, StepRun, Steps, is_interrupt
from holdfast.model.asks import StepAsk
from holdfast.model.run import Run
from tests.engine.places import Place, kinds, until, within, worker_of


async def test_async_and_sync_steps(place: Place, app: hf.App) -> None:
    threads: list[int] = []

    @app.step
    async def double(x: int) -> int:
        threads.append(threading.get_ident())
        await asyncio.sleep(0)
        return 2 * x

    @app.step
    def increment(x: int) -> int:
        threads.append(threading.get_ident())
        return x + 1

    @app.workflow
    async def flow(x: int) -> int:
        return await increment(await double(x))

    async with place.open(app) as client:
        run = await client.start(flow.bind(20))
        assert await within(run.result()) == 41
        assert await kinds(run) == [
            "run.started", "step.completed", "step.completed", "run.completed",
        ]  # fmt: skip
    here = threading.get_ident()
    assert threads[0] == here
    assert threads[1] != here


async def test_many_arguments_keywords_and_defaults(place: Place, app: hf.App) -> None:
    @app.step
    async def told(a: int, /, b: str, *more: int, c: bool, d: float = 0.5, **rest: str) -> str:
        return f"{a} {b} {more} {c} {d} {sorted(rest.items())}"

    @app.workflow
    async def flow(first: int, *, suffix: str = "!") -> list[str]:
        return [
            await told(first, "b", c=True),
            await told(first, "b", 1, 2, c=False, d=2.0, e="x", f="y"),
            await told(first, b="by name", c=True) + suffix,
        ]

    async with place.open(app) as client:
        assert await within((await client.start(flow.bind(7))).result()) == [
            "7 b () True 0.5 []",
            "7 b (1, 2) False 2.0 [('e', 'x'), ('f', 'y')]",
            "7 by name () True 0.5 []!",
        ]


async def test_a_default_is_the_steps_own_object_never_shared(place: Place, app: hf.App) -> None:
    @app.step
    async def collect(item: int, into: list[int] | None = None) -> list[int]:
        into = [] if into is None else into
        into.append(item)
        return into

    @app.workflow
    async def flow() -> list[list[int]]:
        mine = [0]
        return [await collect(1, mine), await collect(2, mine), mine]

    async with place.open(app) as client:
        result = await within((await client.start(flow.bind())).result())
        assert result == [[0, 1], [0, 2], [0]]


class Colour(Enum):
    RED = "red"


class Order(BaseModel):
    id: UUID
    lines: list[tuple[str, Decimal]]


@dataclass
class Point:
    x: int
    y: float


class Row(TypedDict):
    name: str
    at: datetime


ID = UUID("12345678-1234-5678-1234-567812345678")
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
VALUES: list[tuple[Any, Any]] = [
    (Order, Order(id=ID, lines=[("a", Decimal("1.10")), ("b", Decimal(2))])),
    (Point, Point(1, 2.5)),
    (Row, Row(name="n", at=AT)),
    (Colour, Colour.RED),
    (datetime, AT),
    (date, date(2026, 1, 2)),
    (timedelta, timedelta(days=400, microseconds=1)),
    (Decimal, Decimal("3.140")),
    (bytes, b"\x00\xff binary"),
    (tuple[int, str], (1, "one")),
    (tuple[int, ...], (1, 2, 3)),
    (set[str], {"a", "b"}),
    (frozenset[int], frozenset({1, 2})),
    (UUID, ID),
    (None, None),
    (int | None, None),
    (int, 0),
    (bool, False),
    (str, ""),
    (list[int], []),
    (dict[int, str], {}),
    (dict[int, str], {1: "one"}),
    (float, 0.0),
    (str | int, 5),
    (Any, {"a": [1, 2.5, None, "x"]}),
]


def named(kind: Any, value: Any) -> str:
    """Name a row the same in every process: no addresses, no order of sets."""
    return f"{getattr(kind, '__name__', 'union')}-{type(value).__name__}-{bool(value)}"


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[named(*row) for row in VALUES])
async def test_a_value_comes_back_equal_and_of_its_type(
    place: Place, app: hf.App, kind: Any, value: Any
) -> None:
    seen: list[Any] = []

    async def echo(x: Any) -> Any:
        seen.append(x)
        return x

    async def flow(x: Any) -> Any:
        seen.append(x)
        y = await step(x)
        seen.append(y)
        return y

    for function in (echo, flow):
        function.__annotations__ = {"x": kind, "return": kind}
    step = app.step(echo)
    workflow = app.workflow(flow)

    async with place.open(app, paranoid=False) as client:
        run = await client.start(workflow.bind(value))
        seen.append(await within(run.result()))
    async with place.open(app) as client:
        seen.append(await client.get(run.id).result())
    assert seen == [value] * 5
    assert {type(each) for each in seen} == {type(value)}


class Base(BaseModel):
    a: int = 1


class Derived(Base):
    b: int = 2


REFUSED: list[tuple[Any, Any, str]] = [
    (str | datetime, {"at": AT}, "result of step make#1"),
    (Any, {"deep": [1, {2}]}, "deep[1]"),
    (list[Base], [Base(), Derived()], "[1]"),
    (dict, {1: "one"}, "1"),
    (int, "five", "make#1"),
    (Any, object(), "object"),
    (None, 5, "make#1"),
]


@pytest.mark.parametrize(("kind", "value", "path"), REFUSED, ids=[named(*r[:2]) for r in REFUSED])
async def test_a_value_that_would_be_lost_is_refused_with_its_path(
    place: Place, app: hf.App, kind: Any, value: Any, path: str
) -> None:
    calls: list[int] = []

    async def make() -> Any:
        calls.append(1)
        return value

    make.__annotations__ = {"return": kind}
    step = app.step(make)

    @app.workflow
    async def flow() -> str:
        try:
            await step()
        except hf.StepFailed as error:
            return f"{error.type}: {error.message}"
        return "accepted"

    async with place.open(app) as client:
        told = await within((await client.start(flow.bind())).result())
    assert path in told
    assert told.startswith(("Unserialisable", "InvalidValue"))
    assert calls == [1], "a result that cannot be stored is not tried again"


async def test_input_that_does_not_fit_is_refused_at_bind(app: hf.App) -> None:
    @app.workflow
    async def flow(n: int) -> int:
        return n

    with pytest.raises(hf.HoldfastError, match="n"):
        flow.bind("many")  # type: ignore[arg-type]


async def test_threads_of_sync_steps_are_bounded(place: Place, app: hf.App) -> None:
    busy, most = 0, 0
    lock, both = threading.Lock(), threading.Barrier(2, timeout=5)

    @app.step
    def work(n: int) -> int:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        both.wait()
        with lock:
            busy -= 1
        return n

    @app.workflow
    async def flow() -> list[int]:
        return await asyncio.gather(*(work(n) for n in range(8)))

    async with place.open(app, threads=2) as client:
        assert await within((await client.start(flow.bind())).result()) == list(range(8))
    assert most == 2


@pytest.mark.parametrize("limit", [1, 7])
async def test_a_hundred_steps_at_once_run_within_the_limit(
    place: Place, app: hf.App, limit: int
) -> None:
    running: list[int] = []
    journal: list[int] = []

    @app.step
    async def work(n: int) -> int:
        running.append(n)
        journal.append(len(running))
        await asyncio.sleep(0)
        running.remove(n)
        return n

    @app.workflow
    async def flow() -> int:
        return sum(await asyncio.gather(*(work(n) for n in range(100))))

    async with place.open(app, steps=limit, paranoid=False) as client:
        assert await within((await client.start(flow.bind())).result()) == 4950
    assert len(journal) == 100
    assert max(journal) == limit


async def test_the_limit_holds_over_all_runs(place: Place, app: hf.App) -> None:
    running, most = 0, 0
    full = asyncio.Event()

    @app.step
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            full.set()
        await full.wait()
        running -= 1

    @app.workflow
    async def flow() -> None:
        await asyncio.gather(work(), work())

    async with place.open(app, steps=3) as client:
        runs = [await client.start(flow.bind()) for _ in range(10)]
        for run in runs:
            await within(run.result())
    assert most == 3


async def test_a_step_in_a_step_is_a_plain_call(place: Place, app: hf.App) -> None:
    @app.step
    async def inner(x: int) -> int:
        return x + 1

    @app.step
    async def outer(x: int) -> int:
        return await inner(x) + await inner(x)

    @app.workflow
    async def flow() -> int:
        return await outer(1)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == 4
        assert (await kinds(run)).count("step.completed") == 1


async def test_plain_and_options(place: Place, app: hf.App) -> None:
    @app.step
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    @app.step
    async def quick(x: int) -> int:
        return x

    @app.workflow
    async def flow() -> str:
        once = hf.Retry(max_attempts=1)
        try:
            await slow.options(timeout=0.01, retry=once)()
        except hf.StepTimedOut as error:
            return error.step
        return ""

    assert await quick.plain(3) == 3
    assert await quick(3) == 3
    async with place.open(app) as client:
        assert await within((await client.start(flow.bind())).result()) == "slow#1"


async def test_body_primitives_in_a_step_name_the_way_out(place: Place, app: hf.App) -> None:
    @app.step(retry=hf.Retry(max_attempts=1))
    async def wrong() -> None:
        await hf.sleep(1)

    @app.workflow
    async def flow() -> str:
        try:
            await wrong()
        except hf.StepFailed as error:
            return error.message
        return ""

    async with place.open(app) as client:
        assert "works only in a workflow body" in await within(
            (await client.start(flow.bind())).result()
        )


async def test_step_primitives_outside_of_a_step_are_refused(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> str:
        return hf.idempotency_key()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed, match="NotInStep"):
            await within(run.result())
    with pytest.raises(hf.NotInStep):
        hf.attempt()


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3), asyncio.CancelledError(), KeyError("k"), StopIteration(1),
        StopAsyncIteration(), GeneratorExit(), KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
@pytest.mark.parametrize("kind", ["async", "waiting", "sync"])
async def test_whatever_a_step_raises_fails_only_the_step(
    place: Place, app: hf.App, error: BaseException, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in `holdfast worker`: Ctrl-C is heard elsewhere, and is nothing that a step raises.
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)

    async def coroutine() -> None:
        raise error

    async def waiting() -> None:
        await asyncio.sleep(0)
        raise error

    def function() -> None:
        raise error

    bad = {"async": coroutine, "waiting": waiting, "sync": function}[kind]
    step: Any = app.step(retry=hf.Retry(max_attempts=1), name="bad")(bad)

    @app.workflow
    async def flow() -> str:
        try:
            await step()
        except hf.StepFailed as failed:
            return failed.type
        return ""

    async with place.open(app, threads=1) as client:
        runs = [await client.start(flow.bind()) for _ in range(3)]
        told = {await within(run.result()) for run in runs}
    assert told <= {type(error).__name__, "RuntimeError"}


async def test_an_error_without_a_text_fails_a_step_and_a_body(place: Place, app: hf.App) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    @app.step(retry=hf.Retry(max_attempts=2, initial=0.001))
    async def bad() -> None:
        raise Mute

    @app.workflow
    async def flow() -> None:
        try:
            await bad()
        except hf.StepFailed as failed:
            raise Mute from failed

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed, match="its message cannot be read: RuntimeError"):
            await within(run.result())


def test_an_interrupt_is_a_persons_where_python_raises_it() -> None:
    """In a program of the user's own it ends the program, as it does anywhere else."""

    async def look() -> bool:
        return is_interrupt(KeyboardInterrupt()) and not is_interrupt(SystemExit())

    assert is_interrupt(KeyboardInterrupt())
    assert asyncio.run(look())
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert not is_interrupt(KeyboardInterrupt())
    finally:
        signal.signal(signal.SIGINT, before)


async def test_a_step_that_exits_leaves_the_worker_alive(place: Place, app: hf.App) -> None:
    @app.step(retry=hf.Retry(max_attempts=1))
    async def leave() -> None:
        raise SystemExit

    @app.step
    async def fine() -> str:
        return "fine"

    @app.workflow
    async def flow() -> str:
        try:
            await leave()
        except hf.StepFailed:
            return await fine()
        return ""

    async with place.open(app) as client:
        assert await within((await client.start(flow.bind())).result()) == "fine"
        await until(lambda: not worker_of(client).sessions)


async def test_a_step_does_not_see_what_another_put_into_its_context(
    place: Place, app: hf.App
) -> None:
    """Also not when it begins at the end of the other, because there was no slot before."""
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    seen: list[str] = []

    @app.step
    async def work(i: int) -> None:
        seen.append(tenant.get())
        tenant.set(f"tenant {i}")

    @app.workflow
    async def flow() -> None:
        await asyncio.gather(*(work(i) for i in range(5)))

    async with place.open(app, steps=1) as client:
        await within((await client.start(flow.bind())).result())
    assert seen == ["nobody"] * 5


async def test_a_step_that_is_stopped_before_it_began_gives_its_slot_back() -> None:
    @make_step
    async def work() -> str:
        return "ran"

    held: list[Any] = ["default", "r", "w", "", "running", "", 1, 1, 1, "A", None]
    run = Run._make([*held, 0, 0, 0, 0, b"", 0, 0, None, None, "default", 3])
    results: list[Result] = []

    def attempt(n: int) -> StepRun:
        ask = StepAsk(f"work#{n}", work, b"{}", b"", 0, 0, None)
        return StepRun(run, ask, 1, None, results.append, lambda step: None)

    steps = Steps(slots=1, threads=1)
    first, second = attempt(1), attempt(2)
    steps.start(first)
    steps.start(second)
    first.stop()
    await until(lambda: bool(results))
    assert [(result.ask.key, result.value) for result in results] == [("work#2", "ran")]
    assert steps.running == 0
    await steps.stop()


async def test_a_cancellation_that_a_step_leaves_in_its_task_hits_no_other(
    place: Place, app: hf.App
) -> None:
    @app.step
    async def cancels_itself() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done before it took effect"

    @app.step
    async def waits() -> str:
        await asyncio.sleep(0)
        return "waited"

    @app.workflow
    async def flow() -> list[str]:
        return [*await asyncio.gather(cancels_itself(), waits(), cancels_itself(), waits())]

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == ["done before it took effect", "waited"] * 2


@pytest.mark.parametrize("options", [{}, {"timeout": 60}], ids=["free", "limited"])
async def test_a_step_that_cancels_its_own_task_fails(
    place: Place, app: hf.App, options: dict[str, Any]
) -> None:
    @app.step(retry=hf.Retry(max_attempts=1), **options)
    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    @app.workflow
    async def flow() -> str:
        try:
            await cancels_itself()
        except hf.StepFailed as error:
            return error.message
        return "went well"

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == "the step raised CancelledError by itself"
        assert worker_of(client).steps.running == 0


async def test_whoever_cancels_all_tasks_of_a_loop_fails_no_step(place: Place, app: hf.App) -> None:
    waits = asyncio.Event()

    @app.step
    async def waiting() -> None:
        waits.set()
        await asyncio.Event().wait()

    @app.workflow
    async def flow() -> None:
        await waiting()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(waits.wait())
        (task,) = (each for each in asyncio.all_tasks() if each.get_name() == "waiting#1")
        task.cancel()
        await asyncio.wait([task])
        assert await kinds(run) == ["run.started"]


async def test_steps_that_never_wait_leave_the_loop_to_others_too(
    place: Place, app: hf.App
) -> None:
    ticks: list[int] = []

    @app.step
    async def work(n: int) -> int:
        return n

    @app.workflow
    async def flow() -> int:
        return sum([await work(n) for n in range(400)])

    async def tick() -> None:
        while True:
            await asyncio.sleep(0)
            ticks.append(1)

    async with place.open(app, paranoid=False) as client:
        ticking = asyncio.create_task(tick())
        run = await client.start(flow.bind())
        began = len(ticks)
        assert await within(run.result()) == 400 * 399 // 2
        ticking.cancel()
        assert len(ticks) - began > 4


async def test_a_step_that_waits_has_a_task_of_its_own_with_its_name(
    place: Place, app: hf.App
) -> None:
    seen: dict[str, tuple[int, str]] = {}

    @app.step
    async def look(name: str, wait: bool) -> None:
        if wait:
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        seen[name] = (id(task), task.get_name())

    @app.workflow
    async def flow() -> None:
        await asyncio.gather(look("a", True), look("b", False), look("c", True), look("d", True))

    async with place.open(app, paranoid=False) as client:
        await within((await client.start(flow.bind())).result())
    assert [seen[name][1] for name in "acd"] == ["look#1", "look#3", "look#4"]
    assert len({seen[name][0] for name in "acd"}) == 3


async def test_a_step_that_waits_holds_up_no_commit_of_another(place: Place, app: hf.App) -> None:
    go = asyncio.Event()

    @app.step
    async def quick(n: int) -> int:
        return n

    @app.step
    async def slow(n: int) -> int:
        await go.wait()
        return n

    @app.workflow
    async def hurries(n: int) -> int:
        return await quick(await quick(n))

    @app.workflow
    async def waits(n: int) -> int:
        return await slow(n)

    async with place.open(app, paranoid=False) as client:
        first, second = await asyncio.gather(
            client.start(hurries.bind(1)), client.start(waits.bind(2))
        )
        # The slow one keeps the task in which the commit of the other would have been made.
        assert await within(first.result()) == 1
        go.set()
        assert await within(second.result()) == 2


async def test_a_lone_chain_and_what_comes_beside_it(place: Place, app: hf.App) -> None:
    """Its commits are made by the task that runs its steps; others must not wait for that."""

    @app.step
    async def add(n: int) -> int:
        return n + 1

    @app.workflow
    async def chain(n: int) -> int:
        total = 0
        for _ in range(n):
            total = await add(total)
        return total

    async with place.open(app, paranoid=False) as client:
        lone = await client.start(chain.bind(60))
        others = [await client.start(chain.bind(n)) for n in range(6)]
        assert [await within(run.result()) for run in others] == list(range(6))
        assert await within(lone.result()) == 60
        assert (await kinds(lone)).count("step.completed") == 60
