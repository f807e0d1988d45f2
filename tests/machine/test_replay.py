"""Replay is checked: what was recorded must be what the code asks for."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import ReplayMismatch, Undecodable
from holdfast.machine.machine import Machine
from holdfast.machine.paranoid import check_replay
from holdfast.machine.primitives import wait_for
from holdfast.machine.signals import Signal
from holdfast.machine.values import Signature
from holdfast.model.events import Event
from tests.machine.driver import Driver, Step, pack, replay, ship, work

FIX = (
    'Restore the step, put the change under `if hf.patched("..."):`, or register the changed '
    'workflow beside the former one with version="..."; then `holdfast runs retry` the run. [HF501]'
)
approved = Signal("approved", str)


async def recorded() -> int:
    await work(1)
    await work(2)
    await asyncio.sleep(60)
    return await ship(3)


async def swapped() -> int:
    await work(2)
    await work(1)
    return 0


async def renamed() -> int:
    return await pack(1)


async def many() -> int:
    await asyncio.gather(*(pack(n) for n in range(7)))
    return 0


async def shorter() -> int:
    await work(1)
    return 0


async def without_sleep() -> int:
    await work(1)
    await work(2)
    await asyncio.gather(ship(3), wait_for(approved))
    return 0


async def stuck() -> int:
    await asyncio.Event().wait()
    return 0


def line(function: Callable[..., Any], text: str) -> int:
    import inspect

    lines, start = inspect.getsourcelines(function)
    return start + next(n for n, found in enumerate(lines) if text in found)


TABLE: list[tuple[Callable[..., Any], str, str]] = [
    (
        swapped,
        "work(2)",
        "Event 2 is the result of step work#1, and the code now calls work#1 with other arguments",
    ),
    (renamed, "pack", "Event 2 is the result of step work#1, and the code now waits for pack#1"),
    (
        many,
        "pack",
        "Event 2 is the result of step work#1, and the code now waits for "
        "pack#1, pack#2, pack#3, pack#4, pack#5 and 2 more",
    ),
    (
        without_sleep,
        "ship",
        "Event 4 is the firing of timer timer#1, and the code now waits for ship#1, "
        "signal approved",
    ),
    (stuck, "Event", "Event 2 is the result of step work#1, and the code now waits for nothing"),
]


def history() -> list[Event]:
    driver = Driver(recorded)
    driver.finish()
    driver.machine.close()
    return driver.history


def fed(body: Callable[..., Any], events: list[Event]) -> Machine:
    machine = Machine(body, Signature.of(body), ns="test", run="run-1")
    try:
        for event in events:
            machine.feed(event)
    finally:
        machine.close()
    return machine


@pytest.mark.parametrize(("body", "at", "text"), TABLE, ids=[row[0].__name__ for row in TABLE])
def test_other_code_is_refused(body: Callable[..., Any], at: str, text: str) -> None:
    with pytest.raises(ReplayMismatch) as caught:
        fed(body, history())
    place = f"test_replay.py:{line(body, at)} in {body.__name__}"
    assert str(caught.value) == f"{text} at {place}. {FIX}"


def test_code_that_ends_earlier_is_refused() -> None:
    with pytest.raises(ReplayMismatch) as caught:
        fed(shorter, history())
    assert str(caught.value) == (
        f"Event 3 is the result of step work#2, and the code now has ended. {FIX}"
    )


def test_a_history_fed_at_once_is_the_same_as_event_by_event() -> None:
    events = history()
    for length in range(1, len(events) + 1):
        one_by_one, at_once = (
            Machine(recorded, Signature.of(recorded), ns="test", run="run-1") for _ in range(2)
        )
        for event in events[:length]:
            one_by_one.feed(event)
        at_once.feed_all(events[:length])
        assert at_once.fingerprint() == one_by_one.fingerprint()
        assert (at_once.seq, at_once.now) == (one_by_one.seq, one_by_one.now)
        one_by_one.close()
        at_once.close()


def test_a_failure_is_checked_like_a_result() -> None:
    driver = Driver(recorded)
    driver.fail("work#1")
    with pytest.raises(ReplayMismatch, match="Event 2 is the failure of step work#1, and"):
        fed(renamed, driver.history)


def test_another_schema_with_other_arguments_is_accepted() -> None:
    driver = Driver(recorded)
    event = driver.machine.asks["work#1"].digest
    driver.add("step.completed", "work#1", payload=b"1", digest=b"x" * 8 + b"y" * 8)
    assert driver.waits == ["work#2"]
    assert event != b"x" * 8 + b"y" * 8


def test_a_whole_history_may_be_fed() -> None:
    events = history()
    marks = [
        Event("step.started", at=1, key="work#1"),
        Event("run.paused", at=2),
        Event("note.annotated", at=3),
    ]
    whole = [*events[:2], *marks, *events[2:], Event("run.completed", at=9)]
    whole = [event._replace(seq=n) for n, event in enumerate(whole, 1)]
    machine = fed(recorded, whole)
    assert machine.ended is not None
    assert machine.ended.status == "completed"
    assert machine.seq == len(whole)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            Event("step.completed", at=2, key="work#1", payload=b'"x"', seq=2),
            "Event 2 (the result of work#1) cannot be read: ",
        ),
        (
            Event("step.completed", at=2, key="work#1", payload=b"{", seq=2),
            "Event 2 (the result of work#1) cannot be read: ",
        ),
        (
            Event("step.failed", at=2, key="work#1", payload=b"{", seq=2),
            "Event 2 (the failure of work#1) cannot be read: ",
        ),
    ],
)
def test_a_payload_of_another_time_is_undecodable(event: Event, text: str) -> None:
    with pytest.raises(Undecodable) as caught:
        fed(recorded, [Event("run.started", at=1, payload=b"{}", seq=1), event])
    assert str(caught.value).startswith(text)


def test_input_that_does_not_decode_is_undecodable() -> None:
    async def body(n: int) -> None: ...

    with pytest.raises(Undecodable, match=r"Event 1 \(the input\) cannot be read"):
        fed(body, [Event("run.started", at=1, payload=b'{"n":"x"}', seq=1)])


def test_the_run_starts_once() -> None:
    driver = Driver(recorded)
    with pytest.raises(ReplayMismatch, match="the start of the run, and the code now has started"):
        driver.machine.feed(driver.history[0])
    driver.machine.close()


def test_nothing_is_shared_across_the_line() -> None:
    @Step
    def collect(items: list[int]) -> list[int]:
        return items

    async def body() -> list[list[int]]:
        items = [1]
        call = collect(items)
        items.append(2)
        first = await call
        return [items, first]

    driver = Driver(body)
    assert driver.machine.asks["collect#1"].args == b'{"items":[1]}'
    driver.complete("collect#1", [5])
    assert driver.result == [[1, 2], [5]]


def test_a_decoded_value_is_taken_as_it_is() -> None:
    driver = Driver(recorded, paranoid=False)
    event = Event("step.completed", at=1, key="work#1", payload=b"no JSON at all", seq=2)
    driver.machine.feed(event, 5)
    assert driver.waits == ["work#2"]
    driver.machine.close()


def test_paranoia_finds_a_body_that_is_not_deterministic() -> None:
    seen = list[int]()

    async def body() -> None:
        seen.append(1)
        await work(len(seen))

    driver = Driver(body, paranoid=False)
    with pytest.raises(ReplayMismatch, match="in a replay"):
        check_replay(driver.machine, driver.history)
    driver.machine.close()


# --- random bodies

PLANS = st.recursive(
    st.sampled_from(["work", "ship", "sleep", "yield"]),
    lambda inner: st.tuples(
        st.sampled_from(["seq", "gather", "group", "timeout", "wait_for", "shield", "first"]),
        st.lists(inner, min_size=1, max_size=4),
    ),
    max_leaves=12,
)


async def carry_out(plan: Any) -> None:
    match plan:
        case "work":
            await work(1)
        case "ship":
            await ship(1)
        case "sleep":
            await asyncio.sleep(3)
        case "yield":
            await asyncio.sleep(0)
        case ("gather", plans):
            await asyncio.gather(*(carry_out(each) for each in plans))
        case ("group", plans):
            async with asyncio.TaskGroup() as group:
                for each in plans:
                    group.create_task(carry_out(each))
        case ("first", plans):
            tasks = [asyncio.create_task(carry_out(each)) for each in plans]
            _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
        case (kind, plans):
            for each in plans:
                await carry_out_guarded(kind, each)


async def carry_out_guarded(kind: str, plan: Any) -> None:
    try:
        if kind == "timeout":
            async with asyncio.timeout(2):
                await carry_out(plan)
        elif kind == "wait_for":
            await asyncio.wait_for(carry_out(plan), 2)
        elif kind == "shield":
            await asyncio.shield(carry_out(plan))
        else:
            await carry_out(plan)
    except TimeoutError:
        await pack(1)


@settings(max_examples=60)
@given(plan=PLANS, choices=st.lists(st.integers(0, 7), max_size=30))
def test_a_fed_machine_and_a_replayed_one_take_the_same_next_turn(
    plan: Any, choices: list[int]
) -> None:
    async def body() -> None:
        await carry_out(plan)

    driver = Driver(body)
    for choice in choices:
        open_now = [*driver.machine.asks]
        if driver.machine.ended or driver.machine.is_stuck():
            break
        if open_now and choice:
            act: Any = driver.complete if choice < 6 else driver.fail
            act(open_now[choice % len(open_now)])
        elif driver.machine.next_timer():
            driver.fire()
        elif choice == 7:
            driver.cancel()
    twin = replay(driver)
    assert twin.fingerprint() == driver.machine.fingerprint()
    wanted = [ask.key for ask in twin.take_turn().asks]
    assert wanted == list(driver.machine.asks)
    twin.close()
    driver.machine.close()
