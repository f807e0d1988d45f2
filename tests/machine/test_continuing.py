"""What a body may do to begin again, and when it may not."""

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import NotInBody
from holdfast.machine.continuing import continue_with
from holdfast.machine.machine import Machine, current
from holdfast.model.events import Event, by_start, since_start
from tests.machine.driver import Driver, work

go = hf.Signal("go", int)
MORE = b'{"n":2}'


def again() -> None:
    machine = current()
    assert machine is not None
    continue_with(machine, MORE)


def failure(driver: Driver) -> str:
    ended = driver.machine.ended
    assert ended is not None
    assert ended.failure is not None, ended
    return ended.failure.message


def test_a_body_ends_to_begin_again_with_other_input() -> None:
    async def body(n: int) -> int:
        try:
            await work()
            again()
        except Exception:  # it is none
            return 0
        finally:
            await work()
        return 1

    driver = Driver(body, 1)
    driver.complete("work#1")
    assert driver.waits == ["work#2"], "its clean-up comes first"
    driver.complete("work#2")
    ended = driver.machine.ended
    assert ended is not None
    assert (ended.status, ended.payload) == ("continued", MORE)


def test_the_next_body_begins_with_its_keys_and_other_lots() -> None:
    drawn: list[str] = []

    async def body(n: int) -> str:
        drawn.append(hf.uuid().hex)
        await work(n)
        return hf.uuid().hex

    first = Driver(body, 1)
    machine = Machine(body, first.machine.signature, ns="test", run="run-1")
    machine.feed(Event("run.continued", first.at, payload=MORE, seq=9, generation=2))
    assert [*machine.asks] == [*first.machine.asks] == ["work#1"]
    assert machine.asks["work#1"].args == MORE.replace(b"n", b"x")
    assert len(set(drawn)) == 2
    machine.close()


def test_a_retry_of_a_continued_run_draws_the_same_lots() -> None:
    drawn: list[str] = []

    async def body(n: int) -> None:
        drawn.append(hf.uuid().hex)
        await work(n)

    start = Event("run.continued", 1, payload=MORE, seq=9, generation=2)
    reopened = Event("run.reopened", 2, seq=11, generation=3)
    driver = Driver(body, 1)
    for events, generation in (([start], 2), ([start, reopened], 3)):
        machine = Machine(body, driver.machine.signature, ns="test", run="run-1")
        machine.feed_all(events, generation)
        machine.close()
    assert drawn[-1] == drawn[-2] != drawn[0]


def test_the_length_of_a_history_counts_from_the_start_of_its_generation() -> None:
    lengths: list[tuple[int, bool]] = []

    async def body(n: int) -> None:
        for _ in range(3):
            await work()
            lengths.append((hf.history_length(), hf.should_continue(3)))

    driver = Driver(body, 1, paranoid=False)
    driver.finish()
    assert lengths == [(2, False), (3, True), (4, True)]
    machine = Machine(body, driver.machine.signature, ns="test", run="run-1")
    history = [event._replace(seq=event.seq + 100) for event in driver.history]
    machine.feed_all([history[0]._replace(kind="run.continued", generation=2), *history[1:]], 2)
    assert lengths[3:] == lengths[:3]
    machine.close()


def test_not_before_it_has_waited_for_anything() -> None:
    async def body() -> None:
        again()

    assert "before the body waited for anything" in failure(Driver(body))


def test_not_in_a_task_of_the_body() -> None:
    async def branch() -> None:
        await work()
        again()

    async def body() -> None:
        await asyncio.create_task(branch())

    driver = Driver(body)
    driver.complete("branch[1]/work#1")
    assert "was called in a task of the body" in failure(driver)


@pytest.mark.parametrize("is_open", [True, False])
def test_not_in_a_saga_that_has_something_to_undo(is_open: bool) -> None:
    async def undo(_: Any) -> None:
        pass

    async def body() -> None:
        async with hf.saga() as saga:
            await saga.do(work(), undo=undo)
            if is_open:
                again()
        again()

    driver = Driver(body)
    driver.complete("work#1")
    if is_open:
        assert "in a saga that has something to undo" in failure(driver)
    else:
        assert driver.machine.ended is not None
        assert driver.machine.ended.status == "continued"


def test_a_body_that_was_cancelled_does_not_begin_again() -> None:
    async def body() -> None:
        try:
            await work()
        finally:
            again()

    driver = Driver(body)
    driver.cancel()
    assert driver.machine.ended is not None
    assert driver.machine.ended.status == "cancelled"


def test_what_nobody_took_is_kept_in_order() -> None:
    other = hf.Signal("other", int)

    async def body() -> None:
        await hf.wait_for(go)
        await work()
        with pytest.raises(TimeoutError):
            await hf.wait_for(other, timeout=1)
        again()

    driver = Driver(body)
    driver.signal("kept", b"1")
    driver.signal("go", b"1")
    driver.signal("later", b"3")
    driver.signal("kept", b"4")
    driver.signal("go", b"5")
    driver.complete("work#1")
    driver.fire()
    unread = driver.machine.mailbox.unread()
    assert [(name, letter.id, letter.seq) for name, letter in unread] == [
        ("kept", "m1", 2), ("later", "m3", 4), ("kept", "m4", 5), ("go", "m5", 6),
    ]  # fmt: skip


def test_outside_of_a_body_there_is_nothing_to_continue() -> None:
    for call in (hf.history_length, hf.should_continue):
        with pytest.raises(NotInBody):
            call()


def test_a_history_is_cut_where_it_was_continued() -> None:
    kinds: list[Any] = [
        "run.started", "step.completed", "run.continued", "run.continued", "timer.fired",
    ]  # fmt: skip
    events = [Event(kind, n, seq=n) for n, kind in enumerate(kinds, start=1)]
    assert [event.seq for event in since_start(events)] == [4, 5]
    assert [[event.seq for event in part] for part in by_start(events)] == [[1, 2], [3], [4, 5]]
    assert since_start(events[:2]) == events[:2]
    assert [*by_start(events[:2])] == [events[:2]]
    assert since_start([]) == []
