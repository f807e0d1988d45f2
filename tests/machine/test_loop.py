"""The loop does no I/O, shares nothing with its host and puts back what it found."""

import asyncio
import gc
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest

from holdfast.errors import BodyStuck, GuardViolation, ReplayMismatch
from holdfast.machine import spin
from holdfast.machine.machine import Machine, current
from holdfast.machine.values import Signature
from holdfast.model.events import Event
from tests.machine.driver import Driver, hooks_of_host, work

THREAD = "Put it in a step: a step that is a plain `def` runs on a thread."
STEP = "Put it in a step: @app.step on a function that does it, and await that."
tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


def loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


@pytest.mark.parametrize(
    ("call", "name", "hint"),
    [
        (lambda: asyncio.to_thread(print), "run_in_executor", THREAD),
        (lambda: asyncio.open_connection("x", 1), "create_connection", STEP),
        (lambda: asyncio.create_subprocess_exec("x"), "subprocess_exec", STEP),
        (lambda: loop().sock_recv(None, 1), "sock_recv", STEP),  # type: ignore[arg-type]
        (lambda: loop().add_reader(1, print), "add_reader", STEP),
        (lambda: loop().getaddrinfo("x", 1), "getaddrinfo", STEP),
        (
            lambda: loop().call_soon_threadsafe(print),
            "call_soon_threadsafe",
            "Send the run a signal instead, and await it with hf.wait_for.",
        ),
    ],
)  # fmt: skip
def test_io_is_refused_with_the_right_call(call: Callable[[], Any], name: str, hint: str) -> None:
    async def body() -> None:
        with suppress(Exception):
            await call()

    with pytest.raises(GuardViolation) as refused:
        Driver(body)
    assert refused.value.call == f"loop.{name}()"
    assert refused.value.hint == hint
    assert "test_loop.py:" in refused.value.source


def test_a_body_starts_in_an_empty_context() -> None:
    async def body() -> list[str]:
        first = tenant.get()
        tenant.set("body")
        second = await asyncio.create_task(child())
        await work()
        return [first, second, tenant.get()]

    async def child() -> str:
        return tenant.get()

    token = tenant.set("host")
    driver = Driver(body)
    driver.complete("work#1")
    assert driver.result == ["nobody", "body", "body"]
    assert tenant.get() == "host"
    tenant.reset(token)


async def test_a_machine_runs_inside_a_running_loop() -> None:
    async def body() -> int:
        assert current() is not None
        async with asyncio.timeout(5):
            return sum(await asyncio.gather(work(1), work(2)))

    host, task, hooks = asyncio.get_running_loop(), asyncio.current_task(), hooks_of_host()
    driver = Driver(body)
    driver.finish()
    assert driver.result == 0
    assert current() is None
    assert asyncio.get_running_loop() is host
    assert asyncio.current_task() is task
    assert hooks_of_host() == hooks
    await asyncio.sleep(0)


async def rows() -> AsyncIterator[int]:
    try:
        yield 1
        yield 2
    finally:
        await work()


async def test_an_abandoned_generator_does_not_reach_the_hosts_loop() -> None:
    async def body() -> None:
        async for _ in rows():
            break
        await asyncio.sleep(1)

    driver = Driver(body)
    before = len(asyncio.all_tasks())
    gc.collect()
    await asyncio.sleep(0)
    assert driver.waits == ["timer#1"]
    driver.finish()
    gc.collect()
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before
    assert driver.machine.warnings == (
        "async generator rows was left half-way, and its clean-up could ask for nothing. "
        "Wrap it in contextlib.aclosing(...).",
    )
    driver.machine.close()


async def test_a_closed_machine_ends_its_generators_in_silence() -> None:
    ended: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ended.append("unwound")
            await work()
            ended.append("asked")

    async def body() -> None:
        async for _ in numbers():
            await asyncio.sleep(1)

    driver = Driver(body)
    driver.machine.close()
    assert (set(ended), driver.machine.warnings) == ({"unwound"}, ())  # its twin is closed too


async def test_many_finished_generators_are_let_go() -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1

    async def body() -> int:
        total = 0
        for _ in range(1_000):
            async for n in numbers():
                total += n
        await asyncio.sleep(1)
        return total

    driver = Driver(body)
    assert len(driver.machine.loop.generators or ()) <= 64
    driver.finish()
    assert (driver.result, driver.machine.warnings) == (1_000, ())


async def test_a_generator_of_the_host_is_finished_by_the_host() -> None:
    async def body() -> None:
        await asyncio.sleep(1)

    Driver(body).finish()
    closed = asyncio.Event()

    async def hosted() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            closed.set()

    async for _ in hosted():
        break
    gc.collect()
    await asyncio.wait_for(closed.wait(), 10)


async def test_an_error_of_the_machinery_leaves_the_host_as_it_was() -> None:
    host, hooks = asyncio.get_running_loop(), hooks_of_host()

    async def body() -> None:
        await work()

    driver = Driver(body)
    with pytest.raises(ReplayMismatch):
        driver.machine.feed(Event("timer.fired", at=1, key="timer#9", seq=2))
    assert asyncio.get_running_loop() is host
    assert hooks_of_host() == hooks
    driver.machine.close()


def test_a_body_that_never_waits_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        while True:  # noqa: ASYNC110 - the fault under test
            await asyncio.sleep(0)

    monkeypatch.setattr(spin, "SPIN_LIMIT", 1000)
    machine = Machine(body, Signature.of(body), ns="test", run="run-1")
    with pytest.raises(BodyStuck, match=r"at test_loop.py:\d+ in body"):
        machine.feed(Event("run.started", at=1, payload=b"{}", seq=1))
    assert current() is None
    machine.close()


def test_an_error_in_a_callback_becomes_a_warning() -> None:
    async def body() -> str:
        loop().call_soon(int, "x")
        await asyncio.sleep(0)
        return "unharmed"

    driver = Driver(body)
    assert driver.result == "unharmed"
    assert driver.machine.warnings == (
        "a callback raised: ValueError: invalid literal for int() with base 10: 'x'",
    )


def test_an_error_nobody_looked_at_becomes_a_warning() -> None:
    async def fails() -> None:
        raise KeyError("x")

    async def body() -> None:
        task = asyncio.create_task(fails())
        del task
        await work()

    driver = Driver(body, paranoid=False)
    driver.machine.loop.tasks[:] = [task for task in driver.machine.loop.tasks if not task.done()]
    gc.collect()
    assert driver.machine.warnings == ("Task exception was never retrieved: KeyError: 'x'",)
    driver.machine.close()


def test_names_of_tasks_do_not_count_the_tasks_of_the_process() -> None:
    async def named() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    async def body() -> list[str]:
        return [*await asyncio.gather(named(), asyncio.create_task(named(), name="mine"), named())]

    assert Driver(body).result == ["named[2]", "mine", "named[3]"]


ORDERS = """
    import asyncio
    from tests.machine.driver import Driver, work

    order = []

    async def branch(n):
        try:
            await work(n)
        except asyncio.CancelledError:
            order.append(n)
            raise

    async def body() -> None:
        junk = [object() for _ in range(hash("x") % 100)]
        try:
            async with asyncio.TaskGroup() as group:
                for n in range(30):
                    group.create_task(branch(n))
        except ExceptionGroup:
            pass
        tasks = {asyncio.create_task(branch(100 + n)) for n in range(30)}
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)

    driver = Driver(body, paranoid=False)
    driver.fail("branch[7]/work#1")
    driver.complete("branch[40]/work#1")
    print(driver.machine.ended.status, *order)
"""


def test_order_does_not_depend_on_the_interpreter() -> None:
    def start(seed: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", textwrap.dedent(ORDERS)]
        environment = {
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": ":".join(path for path in sys.path if path),
        }
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    seen = set[str]()
    for batch in range(5):
        started = [start(str(batch * 4 + n)) for n in range(4)]
        seen |= {process.communicate()[0] for process in started}
    (printed,) = seen
    assert printed.startswith("completed ")
    assert len(printed.split()) == 1 + 29 + 29


def test_a_waiting_machine_costs_less_than_four_kibibytes() -> None:
    async def body(n: int) -> int:
        return await work(n)

    signature = Signature.of(body)

    def waiting(n: int) -> Machine:
        machine = Machine(body, signature, ns="test", run=f"run-{n}")
        machine.feed(Event("run.started", at=1, payload=signature.encode((n,), {}), seq=1))
        machine.take_turn()
        return machine

    machines = [waiting(0)]
    gc.collect()
    tracemalloc.start()
    machines += [waiting(n) for n in range(500)]
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] / 500
    tracemalloc.stop()
    for machine in machines:
        machine.close()
    assert size < 4096, size


def test_a_thousand_machines_do_not_slow_each_other_down() -> None:
    """The first tasks of all machines have one ordinal; asyncio's set of tasks must not mind."""

    async def body() -> None:
        await work()

    drivers = [Driver(body, paranoid=False) for _ in range(1000)]
    registered: Any = getattr(asyncio.tasks, "_scheduled_tasks", None)  # since Python 3.12
    if registered is None:
        registered = getattr(asyncio.tasks, "_all_tasks")  # noqa: B009
    addresses = {hash(reference) for reference in registered.data}
    assert len(addresses) >= 1000
    for driver in drivers:
        driver.machine.close()
