"""A machine is closed, never collected: a closed body asks for nothing, whatever its clean-up."""

import asyncio
import gc
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from holdfast.errors import MachineClosed
from holdfast.machine import primitives as hf
from holdfast.machine import tasks as machine_tasks
from holdfast.machine.machine import Machine, current
from holdfast.machine.signals import Signal
from holdfast.machine.values import Signature
from holdfast.model.events import Event
from tests.machine.driver import Driver, Step, hooks_of_host, work

go = Signal("go", int)
refunds: list[str] = []


class Refund(Step):
    """A step that notes every call, also one outside of any machine."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        machine = current()
        if machine is None:
            refunds.append("called outside")
            return asyncio.sleep(0)
        call = machine.call(self, args, kwargs)
        refunds.append("asked")
        return call


def _refund() -> None: ...


refund = Refund(_refund)


@pytest.fixture(autouse=True)
def no_refunds():
    refunds.clear()
    yield
    gc.collect()
    assert refunds == []


async def parked() -> None:
    try:
        await work()
    finally:
        await refund()


async def parked_in_a_child() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(parked())
        group.create_task(asyncio.wait_for(parked(), 60))


async def stubborn() -> None:
    try:
        await work()
    except BaseException:
        try:
            await asyncio.sleep(0)
        finally:
            try:
                await asyncio.sleep(5)
            finally:
                await refund()


async def swallows_everything() -> None:
    for _ in range(10):
        with suppress(BaseException):
            await work()
        with suppress(BaseException):
            await refund()


async def waits_for_a_signal() -> None:
    try:
        await hf.wait_for(go, timeout=60)
    finally:
        try:
            await hf.wait_for(go)
        finally:
            hf.uuid()
            await refund()


async def holds_a_lock() -> None:
    lock = asyncio.Lock()
    await lock.acquire()
    try:
        await lock.acquire()
    finally:
        async with asyncio.timeout(5):
            await refund()


async def called_before() -> None:
    undo = work(2)
    try:
        await hf.sleep(60)
    finally:
        try:
            await undo
        finally:
            task = asyncio.create_task(refund())
            await task


async def shielded() -> None:
    try:
        await asyncio.shield(parked())
    finally:
        await asyncio.gather(refund(), refund())


async def rows() -> AsyncIterator[int]:
    try:
        yield 1
        await work()
        yield 2
    finally:
        await refund()


async def inside_a_generator() -> None:
    async for _ in rows():
        pass


async def beside_a_generator() -> None:
    async for _ in rows():
        await hf.sleep(5)


async def raises_on_close() -> None:
    try:
        await work()
    except GeneratorExit:
        raise ValueError("not now") from None


BODIES = [
    parked, parked_in_a_child, stubborn, swallows_everything, waits_for_a_signal, holds_a_lock,
    called_before, shielded, inside_a_generator, beside_a_generator, raises_on_close,
]  # fmt: skip


SIGNATURES: dict[Any, Signature] = {}


def waiting(body: Callable[..., Any]) -> Machine:
    signature = SIGNATURES.setdefault(body, Signature.of(body))
    machine = Machine(body, signature, ns="test", run="run-1")
    machine.feed(Event("run.started", at=1, payload=b"{}", seq=1))
    assert machine.ended is None
    return machine


@pytest.mark.parametrize("body", BODIES)
def test_a_closed_body_asks_for_nothing(body: Callable[..., Any]) -> None:
    machine = waiting(body)
    machine.close()
    machine.close()
    assert refunds == []
    del machine
    gc.collect()
    assert refunds == []


def test_a_thousand_evictions_refund_nothing() -> None:
    for n in range(1000):
        waiting(parked).close()
        if n % 250 == 0:
            gc.collect()


def test_a_closed_machine_is_freed_without_the_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(100):
            waiting(parked).close()
        assert len(gc.get_objects()) - before < 100
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "again",
    [
        work,
        lambda: hf.sleep(5),
        lambda: hf.wait_for(go),
        lambda: asyncio.sleep(5),
        lambda: asyncio.create_task(work()),
        lambda: asyncio.gather(work(), raises_on_close()),
    ],
)
def test_a_body_that_cannot_be_closed_is_kept_for_ever(again: Callable[[], Any]) -> None:
    async def undying() -> None:
        while True:
            with suppress(BaseException):
                await again()

    kept = len(machine_tasks._UNDYING)
    waiting(undying).close()
    assert len(machine_tasks._UNDYING) == kept + 1


def test_the_interpreter_exits_in_spite_of_a_body_that_cannot_be_closed() -> None:
    program = """
        from tests.machine.driver import Driver, work

        async def undying() -> None:
            while True:
                try:
                    await work()
                except BaseException:
                    pass

        Driver(undying, paranoid=False).machine.close()
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    subprocess.run(command, env=environment, check=True, timeout=30)


def test_calls_that_were_never_awaited_are_named() -> None:
    async def body() -> None:
        work(1)
        kept = work(2)
        nap = hf.sleep(5)
        await work(3)
        del kept, nap

    machine = waiting(body)
    assert list(machine.asks) == ["work#3"]
    machine.close()
    assert machine.unawaited == ("work#1", "work#2", "timer#1")


def test_calls_never_awaited_are_named_when_the_body_ends() -> None:
    async def body() -> None:
        work(1)
        task = asyncio.create_task(work(2))
        del task

    driver = Driver(body)
    assert driver.machine.unawaited == ("work#1",)
    assert driver.machine.ended is not None
    assert driver.machine.ended.leftovers == ("work#2",)


def test_everything_on_a_closed_machine_raises() -> None:
    machine = waiting(parked)
    machine.close()
    with pytest.raises(MachineClosed):
        _ = machine.call(work, (1,), {})
    for ask in (
        machine.loop.create_future,
        lambda: machine.loop.call_later(1, print),
        lambda: machine.loop.create_task(asyncio.sleep(0)),
    ):
        with pytest.raises(MachineClosed):
            ask()
    machine.loop.call_soon(print, "never")
    assert machine.next_timer() is None
    assert machine.awaited_signals() == ()


def test_clean_up_runs_in_the_context_of_its_task() -> None:
    from contextvars import ContextVar

    place: ContextVar[str] = ContextVar("place", default="nowhere")
    seen = list[str]()

    async def body() -> None:
        token = place.set("in the body")
        try:
            await work()
        finally:
            seen.append(place.get())
            place.reset(token)
            seen.append(place.get())

    waiting(body).close()
    assert seen == ["in the body", "nowhere"]


def test_a_machine_that_was_never_started_can_be_closed() -> None:
    machine = Machine(parked, Signature.of(parked), ns="test", run="run-1")
    machine.close()
    assert not machine.is_stuck()


def test_a_body_cannot_close_or_feed_its_own_machine() -> None:
    async def body() -> str:
        machine = current()
        assert machine is not None
        try:
            machine.close()
        except RuntimeError as error:
            return str(error)
        return "closed"

    driver = Driver(body)
    assert driver.result == "a machine cannot be fed or closed by its own body"


async def test_closing_leaves_the_host_as_it_was() -> None:
    loop, hooks = asyncio.get_running_loop(), hooks_of_host()
    waiting(stubborn).close()
    assert asyncio.get_running_loop() is loop
    assert hooks_of_host() == hooks
