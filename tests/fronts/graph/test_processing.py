"""`process_parallel`, `process_chain` and `process_conditional` where no engine is."""

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

import holdfast as hf
from holdfast.fronts.graph.parallel import worker_count

COLLECT = hf.ParallelConfig(fail_fast=False)


async def tenfold(n: int) -> int:
    return n * 10


def odd_only(n: int) -> int:
    if n % 2 == 0:
        raise ValueError(f"{n} is even")
    return n * 10


class Gate:
    """Lets the items of a fan-out end in an order of ours."""

    def __init__(self, *order: int) -> None:
        self.order = list(order)
        self.begun: list[int] = []
        self.cancelled: list[int] = []
        self._turn = asyncio.Condition()

    async def __call__(self, n: int) -> int:
        self.begun.append(n)
        try:
            async with self._turn:
                await self._turn.wait_for(lambda: self.order[:1] == [n])
                self.order.pop(0)
                self._turn.notify_all()
        except asyncio.CancelledError:
            self.cancelled.append(n)
            raise
        return n


# --- parallel


@pytest.mark.parametrize("config", [COLLECT, hf.default_parallel_config()])
async def test_results_stand_in_the_order_of_the_items(config: hf.ParallelConfig) -> None:
    gate = Gate(2, 0, 1)

    async def ended(n: int) -> int:
        return await gate(n)

    found = await hf.process_parallel(range(3), ended, hf.ParallelConfig(max_workers=3))
    assert (found.results, found.errors, found.done) == ((0, 1, 2), (), (0, 1, 2))
    assert (await hf.process_parallel([3, 1, 2], tenfold, config)).results == (30, 10, 20)


WORKERS = {
    "exactly": (hf.ParallelConfig(max_workers=40), 3, 40),
    "more than the cap": (hf.ParallelConfig(max_workers=40, worker_cap=2), 100, 40),
    "as many as items": (hf.ParallelConfig(), 2, 2),
    "capped": (hf.ParallelConfig(worker_cap=3), 100, 3),
    "by processors": (hf.ParallelConfig(worker_cap=100), 100, 8),
    "one at least": (hf.ParallelConfig(worker_cap=0), 100, 1),
    "none": (hf.ParallelConfig(max_workers=5), 0, 0),
}


@pytest.mark.parametrize("name", WORKERS)
def test_there_are_so_many_workers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    config, items, count = WORKERS[name]
    assert worker_count(config, items) == count


@pytest.mark.parametrize("is_async", [True, False])
async def test_no_more_items_are_under_way_than_there_are_workers(is_async: bool) -> None:
    lock, busy, most = threading.Lock(), 0, 0
    meet = threading.Barrier(3, timeout=10)

    def plain(n: int) -> int:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        meet.wait()  # three threads are there at once, or none goes on
        with lock:
            busy -= 1
        return n

    async def pausing(n: int) -> int:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        for _ in range(5):
            await asyncio.sleep(0)
        busy -= 1
        return n

    config = hf.ParallelConfig(max_workers=3)
    processor: Callable[[int], Any] = pausing if is_async else plain
    assert (await hf.process_parallel(range(9), processor, config)).results == (*range(9),)
    assert most == 3


async def test_of_no_items_nothing_comes() -> None:
    told: list[Any] = []
    found = await hf.process_parallel([], tenfold, progress=lambda *args: told.append(args))
    assert (found, told) == (hf.ParallelResult((), (), ()), [])


async def test_the_first_error_ends_the_others_and_is_named_first() -> None:
    gate = Gate(0, 3)

    async def breaks(n: int) -> int:
        try:
            await gate(n)
        except asyncio.CancelledError:
            if n == 1:
                raise OSError("not closed") from None  # fails while it is being cancelled
            raise
        if n == 3:
            raise ValueError("no page")
        return n * 10

    with pytest.raises(hf.ParallelError) as caught:
        await hf.process_parallel(range(6), breaks, hf.ParallelConfig(max_workers=4))
    error = caught.value
    assert [(each.index, each.item) for each in error.errors] == [(3, 3), (1, 1)]
    assert [type(each.error) for each in error.errors] == [ValueError, OSError]
    assert (error.results, error.done, error.total) == ((0,), (0,), 6)
    assert 5 not in gate.begun
    assert {1, 2} <= {*gate.cancelled}
    assert "item 3 and 1 more failed with 2 different errors: 'ValueError: no page' (1" in str(
        error
    )
    assert isinstance(error.__cause__, ExceptionGroup)


async def test_the_one_error_is_the_cause() -> None:
    with pytest.raises(hf.ParallelError, match="failed: item 1: ValueError: 2 is even") as caught:
        await hf.process_parallel([1, 2], odd_only, hf.ParallelConfig(max_workers=1))
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.results == (10,)


async def test_threads_that_cannot_be_stopped_are_waited_for() -> None:
    broken, went_on = threading.Event(), list[int]()

    def processor(n: int) -> int:
        if n == 0:
            broken.set()
            raise ValueError("no page")
        broken.wait(10)
        went_on.append(n)
        return n

    with pytest.raises(hf.ParallelError) as caught:
        await hf.process_parallel(range(5), processor, hf.ParallelConfig(max_workers=2))
    assert (went_on, caught.value.done) == ([1], (1,))


async def test_who_collects_gets_every_result_and_every_error_in_order() -> None:
    told: list[Any] = []
    found = await hf.process_parallel(
        range(5), odd_only, COLLECT, lambda done, total, result: told.append((done, total, result))
    )
    assert (found.results, found.done) == ((10, 30), (1, 3))
    assert [(each.index, str(each.error)) for each in found.errors] == [
        (0, "0 is even"), (2, "2 is even"), (4, "4 is even"),
    ]  # fmt: skip
    assert [(done, total) for done, total, _ in told] == [(1, 5), (2, 5)]
    assert sorted(result for _, _, result in told) == [10, 30]


async def test_who_collects_and_gets_nothing_gets_an_error() -> None:
    def fails(n: int) -> int:
        raise ValueError("no page" if n else "no book")

    with pytest.raises(hf.ParallelError) as caught:
        await hf.process_parallel(range(4), fails, COLLECT)
    assert [each.index for each in caught.value.errors] == [0, 1, 2, 3]
    told = "'ValueError: no book' (1 item), 'ValueError: no page' (3 items)"
    assert f"item 0 and 3 more failed with 2 different errors: {told}" in str(caught.value)


async def test_a_cancel_ends_what_is_under_way_and_stays_a_cancel() -> None:
    gate = Gate()
    both = asyncio.Barrier(3)

    async def waits(n: int) -> int:
        await both.wait()
        return await gate(n)

    call = asyncio.create_task(hf.process_parallel(range(2), waits))
    await both.wait()
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert sorted(gate.cancelled) == [0, 1]


async def test_an_item_that_is_cancelled_by_itself_has_failed() -> None:
    async def leaves(n: int) -> int:
        raise asyncio.CancelledError

    with pytest.raises(hf.ParallelError, match="the processor was cancelled"):
        await hf.process_parallel([1], leaves)


# --- chain


async def add(n: int, total: int) -> int:
    if n < 0:
        raise ValueError(f"{n} is negative")
    return total + n


def add_plainly(n: int, total: int) -> int:
    return total + n


async def test_a_state_goes_through_all_items() -> None:
    told: list[Any] = []
    captures = hf.ChainConfig(capture_intermediate_states=True)
    found = await hf.process_chain([1, 2, 3], 10, add, captures, lambda *args: told.append(args))
    assert found == hf.ChainResult(16, 3, (10, 11, 13, 16))
    assert told == [(1, 3, 11), (2, 3, 13), (3, 3, 16)]
    assert await hf.process_chain([1, 2, 3], 10, add_plainly) == hf.ChainResult(16, 3)


@pytest.mark.parametrize("capture", [True, False])
async def test_a_chain_of_nothing_ends_where_it_began(capture: bool) -> None:
    config = hf.ChainConfig(capture_intermediate_states=capture)
    assert await hf.process_chain([], 10, add, config) == hf.ChainResult(10, 0)


async def test_the_error_of_a_chain_keeps_what_was_done() -> None:
    told: list[Any] = []
    captures = hf.ChainConfig(capture_intermediate_states=True)
    with pytest.raises(hf.ChainError, match="failed at step 2: ValueError: -3 is neg") as caught:
        await hf.process_chain([1, 2, -3, 4], 10, add, captures, lambda *args: told.append(args))
    error = caught.value
    assert (error.step_index, error.item, error.state) == (2, -3, 13)
    assert error.intermediate == (10, 11, 13)
    assert isinstance(error.__cause__, ValueError)
    assert told == [(1, 4, 11), (2, 4, 13)]


async def test_a_cancelled_chain_is_cancelled() -> None:
    async def waits(n: int, total: int) -> int:
        await asyncio.Event().wait()
        return total

    call = asyncio.create_task(hf.process_chain([1], 0, waits))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


# --- conditional


async def double(n: int) -> int:
    return n * 2


def halve(n: int) -> int:
    if n == 7:
        raise ValueError("seven stays whole")
    return n // 2


ROUTES: dict[str, Any] = {"even": halve, "odd": double}


def parity(n: int) -> str:
    if n < 0:
        raise ValueError("no parity below zero")
    return "even" if n % 2 == 0 else "odd"


async def test_the_route_that_is_named_is_taken() -> None:
    assert await hf.process_conditional(8, parity, ROUTES) == 4
    assert await hf.process_conditional(3, parity, ROUTES) == 6
    assert await hf.process_conditional(3, parity, {"even": halve}, double) == 6


ASTRAY: dict[str, tuple[Callable[[], Any], str, str]] = {
    "no route": (
        lambda: hf.process_conditional(3, parity, {"even": halve}),
        "",
        r"routing failed: route 'odd' not found and no default handler; there are: even\.",
    ),
    "no name": (
        lambda: hf.process_conditional(3, lambda n: [n], ROUTES),  # type: ignore[arg-type]
        "",
        r"route \[3\] not found",
    ),
    "predicate": (
        lambda: hf.process_conditional(-1, parity, ROUTES),
        "",
        "routing failed: ValueError: no parity below zero",
    ),
    "handler": (
        lambda: hf.process_conditional(7, lambda n: "even", ROUTES),
        "even",
        "failed for route 'even': ValueError: seven stays whole",
    ),
    "default": (
        lambda: hf.process_conditional(7, parity, {}, halve),
        "default",
        "failed for route 'default': ValueError: seven",
    ),
}


@pytest.mark.parametrize("name", ASTRAY)
async def test_what_fails_is_told_with_its_route_and_the_state_as_it_was(name: str) -> None:
    call, route, told = ASTRAY[name]
    with pytest.raises(hf.ConditionalError, match=told) as caught:
        await call()
    assert caught.value.route == route
    assert caught.value.state in (3, -1, 7)


# --- progress and configs


async def test_one_who_watches_badly_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def trips(*args: Any) -> None:
        raise RuntimeError("no screen")

    assert (await hf.process_parallel([1], tenfold, progress=trips)).results == (10,)
    assert (await hf.process_chain([1], 0, add, progress=trips)).final == 1
    assert caplog.text.count("progress callback") == 2


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "workers": (lambda: hf.ParallelConfig(max_workers=-1), "max_workers=-1 is no number"),
    "cap": (lambda: hf.ParallelConfig(worker_cap=1.5), "worker_cap=1.5 is no number"),  # type: ignore[arg-type]
    "fail_fast": (lambda: hf.ParallelConfig(fail_fast=None), "fail_fast=None is no bool"),  # type: ignore[arg-type]
    "capture": (lambda: hf.ChainConfig("yes"), "capture_intermediate_states='yes' is no bool"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_config_that_says_nothing_usable_is_refused(name: str) -> None:
    make, told = REFUSED[name]
    with pytest.raises(hf.BadDefinition, match=told):
        make()


@pytest.mark.parametrize("progress", [tenfold, 5])
async def test_progress_that_cannot_be_called_at_once_is_refused(progress: Any) -> None:
    with pytest.raises(hf.BadDefinition, match="is no plain function"):
        await hf.process_parallel([1], tenfold, progress=progress)
    with pytest.raises(hf.BadDefinition, match="is no plain function"):
        await hf.process_chain([1], 0, add, progress=progress)
