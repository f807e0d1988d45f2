"""Sagas: registered before, undone last in first out, through every cancel, owed if they fail."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import BadDefinition, CompensationFailed, StepFailed
from holdfast.machine.machine import Machine
from holdfast.machine.paranoid import twin_of
from holdfast.machine.sagas import sagas_of, taken_back
from holdfast.model.asks import Ended
from holdfast.model.events import Event
from holdfast.model.keys import undone_by
from tests.machine import driver as drivers
from tests.machine.driver import Step, pack, ship, work

MACHINES: list[Machine] = []


class Driver(drivers.Driver):
    """One whose machine is closed at the end of the test, however far it came."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        MACHINES.append(self.machine)


@pytest.fixture(autouse=True)
def closed_machines() -> Iterator[None]:
    yield
    while MACHINES:
        MACHINES.pop().close()


@Step
def undo_work(result: int | None) -> None: ...


@Step
def undo_ship(result: int | None) -> None: ...


def ended(driver: Driver) -> Ended:
    assert driver.machine.ended is not None
    return driver.machine.ended


def owed(driver: Driver) -> list[str]:
    failure = ended(driver).failure
    assert failure is not None
    listed: Any = failure.details["owed"]
    return [f"{each['undo']} of {each['key']}: {each['type']}" for each in listed]


def retried(driver: Driver, kind: Any = "run.reopened") -> Driver:
    """Return the driver with a new machine, as after a retry of a run that owes something."""
    again = Driver.__new__(Driver)
    again.__dict__.update(driver.__dict__)
    again.history = [*driver.history]
    again.given = []
    seq = len(again.history) + 1
    again.history.append(Event(kind, at=driver.at, key="compensation", seq=seq))
    again.machine = twin_of(driver.machine)
    MACHINES.append(again.machine)
    again.machine.feed_all(again.history)
    return again


async def two_then_pack() -> int:
    async with hf.saga() as saga:
        first = await saga.do(work(1), undo=undo_work)
        second = await saga.do(ship(2), undo=undo_ship)
        return first + second + await pack(3)


def test_a_block_that_ends_well_undoes_nothing() -> None:
    driver = Driver(two_then_pack)
    driver.complete("work#1", 10)
    driver.complete("ship#1", 20)
    driver.complete("pack#1", 30)
    assert driver.result == 60
    assert driver.given == ["work#1", "ship#1", "pack#1"]


def test_undone_last_in_first_out_with_the_results_and_raised_again() -> None:
    driver = Driver(two_then_pack)
    driver.complete("work#1", 10)
    driver.complete("ship#1", 20)
    driver.fail("pack#1", "Boom")
    assert driver.waits == ["undo(ship#1)/undo_ship#1"]
    assert driver.machine.asks["undo(ship#1)/undo_ship#1"].args == b'{"result":20}'
    driver.complete("undo(ship#1)/undo_ship#1", None)
    assert driver.waits == ["undo(work#1)/undo_work#1"]
    assert driver.machine.asks["undo(work#1)/undo_work#1"].args == b'{"result":10}'
    driver.complete("undo(work#1)/undo_work#1", None)
    failure = ended(driver).failure
    assert ended(driver).status == "failed"
    assert failure is not None
    assert failure.cause == ("pack#1",)


def test_the_undo_of_a_failed_call_gets_none() -> None:
    driver = Driver(two_then_pack)
    driver.complete("work#1", 10)
    driver.fail("ship#1")
    assert driver.machine.asks["undo(ship#1)/undo_ship#1"].args == b'{"result":null}'


def test_the_undo_of_a_call_that_was_stopped_gets_none() -> None:
    driver = Driver(two_then_pack)
    turn = driver.cancel()
    assert turn.dropped == ["work#1"]
    assert driver.machine.asks["undo(work#1)/undo_work#1"].args == b'{"result":null}'
    driver.complete("undo(work#1)/undo_work#1", None)
    assert ended(driver).status == "cancelled"


def test_an_undo_is_registered_before_its_call_runs() -> None:
    seen: list[int] = []

    async def body() -> None:
        async with hf.saga() as saga:

            async def call() -> None:
                (block,) = sagas_of(saga._machine).open
                seen.append(len(block.entries))
                await work()

            await saga.do(call(), undo=undo_work)

    driver = Driver(body, paranoid=False)
    assert seen == [1]
    assert driver.waits == ["call[1]/work#1"]


def test_a_nested_function_is_undone_as_one() -> None:
    async def trip(n: int) -> int:
        return await work(n) + await ship(n)

    async def body() -> None:
        async with hf.saga() as saga:
            await saga.do(trip(1), undo=undo_work)
            await pack()

    driver = Driver(body)
    driver.complete("trip[1]/work#1", 1)
    driver.complete("trip[1]/ship#1", 2)
    driver.fail("pack#1")
    assert driver.machine.asks["undo(trip[1])/undo_work#1"].args == b'{"result":3}'


def test_calls_in_a_gather_are_stopped_and_undone_in_the_order_of_registration() -> None:
    async def body() -> None:
        async with hf.saga() as saga:
            await asyncio.gather(
                saga.do(work(1), undo=undo_work),
                saga.do(ship(2), undo=undo_ship),
                saga.do(pack(3), undo=undo_work),
            )

    driver = Driver(body)
    driver.complete("pack#1", 3)
    turn = driver.fail("work#1")
    assert turn.dropped == ["ship#1"]
    order = []
    while driver.machine.asks:
        (key,) = driver.machine.asks
        order.append(key)
        driver.complete(key, None)
    assert order == ["undo(pack#1)/undo_work#1", "undo(ship#1)/undo_ship#1",
                     "undo(work#1)/undo_work#1"]  # fmt: skip
    assert ended(driver).status == "failed"


def test_nested_sagas_undo_from_the_inside() -> None:
    async def body() -> None:
        async with hf.saga() as outer:
            await outer.do(work(), undo=undo_work)
            async with hf.saga() as inner:
                await inner.do(ship(), undo=undo_ship)
                await pack()

    driver = Driver(body)
    driver.complete("work#1")
    driver.complete("ship#1")
    driver.fail("pack#1")
    assert driver.waits == ["undo(ship#1)/undo_ship#1"]
    driver.complete("undo(ship#1)/undo_ship#1", None)
    assert driver.waits == ["undo(work#1)/undo_work#1"]


def test_a_second_cancel_and_a_deadline_do_not_stop_the_undos() -> None:
    driver = Driver(two_then_pack)
    driver.complete("work#1", 1)
    driver.complete("ship#1", 2)
    driver.cancel()
    for kind in ("cancel.requested", "deadline.passed"):
        assert not driver.add(kind).dropped
    driver.complete("undo(ship#1)/undo_ship#1", None)
    driver.complete("undo(work#1)/undo_work#1", None)
    assert ended(driver).status == "cancelled"


def test_a_cancel_while_a_failure_is_undone_is_raised_afterwards() -> None:
    async def body() -> int:
        try:
            return await two_then_pack()
        except StepFailed:
            return await pack()

    driver = Driver(body)
    driver.complete("work#1", 1)
    driver.complete("ship#1", 2)
    driver.fail("pack#1")
    assert not driver.cancel().dropped
    driver.complete("undo(ship#1)/undo_ship#1", None)
    driver.complete("undo(work#1)/undo_work#1", None)
    assert ended(driver).status == "cancelled"


@pytest.mark.parametrize("times_out", [False, True])
def test_a_time_out_around_the_block(times_out: bool) -> None:
    """While undoing it does not displace the failure; else it is the failure."""

    async def body() -> str:
        try:
            async with asyncio.timeout(60):
                await two_then_pack()
        except TimeoutError:
            return "late"
        except StepFailed:
            return f"failed {await pack()}"
        return ""

    driver = Driver(body)
    driver.complete("work#1", 1)
    driver.complete("ship#1", 2)
    if not times_out:
        driver.fail("pack#1")
    driver.fire()
    driver.complete("undo(ship#1)/undo_ship#1", None)
    driver.complete("undo(work#1)/undo_work#1", None)
    if not times_out:
        driver.complete("pack#2", 7)
    assert driver.result == ("late" if times_out else "failed 7")


def test_a_failing_sibling_in_a_group_has_the_branch_undone_first() -> None:
    async def branch() -> None:
        async with hf.saga() as saga:
            await saga.do(work(), undo=undo_work)
            await ship()

    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(branch())
            group.create_task(pack())

    driver = Driver(body)
    driver.complete("branch[1]/work#1", 5)
    driver.fail("pack#1")
    assert driver.waits == ["branch[1]/undo(work#1)/undo_work#1"]
    driver.complete("branch[1]/undo(work#1)/undo_work#1", None)
    assert ended(driver).status == "failed"


def test_a_branch_left_over_in_a_saga_undoes_before_the_run_ends() -> None:
    async def branch() -> None:
        async with hf.saga() as saga:
            await saga.do(work(), undo=undo_work)
            await ship()

    async def body() -> None:
        await asyncio.gather(branch(), pack())

    driver = Driver(body)
    driver.complete("branch[1]/work#1", 5)
    turn = driver.fail("pack#1")
    assert turn.ended is None
    assert turn.dropped == ["branch[1]/ship#1"]
    driver.complete("branch[1]/undo(work#1)/undo_work#1", None)
    failure = ended(driver).failure
    assert failure is not None
    assert failure.cause == ("pack#1",)


@pytest.mark.parametrize("fails", [False, True])
def test_a_generator_left_half_way_in_a_saga_is_undone_before_the_run_ends(fails: bool) -> None:
    async def booked() -> AsyncIterator[int]:
        async with hf.saga() as saga:
            yield await saga.do(work(), undo=undo_work)

    async def body() -> int:
        async for n in booked():
            if fails:
                raise ValueError
            return n
        return 0

    driver = Driver(body)
    driver.complete("work#1", 5)
    assert driver.waits == ["undo(work#1)/undo_work#1"]
    driver.complete("undo(work#1)/undo_work#1", None)
    assert ended(driver).status == ("failed" if fails else "completed")


# --- undos that fail


def fail_both(catches: bool = False) -> Driver:
    async def body() -> int:
        try:
            return await two_then_pack()
        except CompensationFailed:
            if catches:
                return 0
            raise

    driver = Driver(body)
    driver.complete("work#1", 1)
    driver.complete("ship#1", 2)
    driver.fail("pack#1", "Original")
    driver.fail("undo(ship#1)/undo_ship#1", "Away")
    return driver


@pytest.mark.parametrize("catches", [False, True])
def test_the_other_undos_still_run_and_the_rest_is_owed(catches: bool) -> None:
    driver = fail_both(catches)
    assert driver.waits == ["undo(work#1)/undo_work#1"]
    driver.complete("undo(work#1)/undo_work#1", None)
    assert ended(driver).status == "compensation_failed"
    assert owed(driver) == ["undo_ship of ship#1: Away"]
    failure = ended(driver).failure
    assert failure is not None
    original: Any = failure.details["original"]
    assert original["status"] == ("completed" if catches else "failed")


def test_a_retry_runs_only_what_is_owed_and_ends_as_it_would_have() -> None:
    first = fail_both()
    first.complete("undo(work#1)/undo_work#1", None)
    second = retried(first)
    assert second.waits == ["undo(ship#1)/undo_ship#2"]
    second.fail("undo(ship#1)/undo_ship#2", "Away again")
    assert owed(second) == ["undo_ship of ship#1: Away again"]
    third = retried(second)
    assert third.waits == ["undo(ship#1)/undo_ship#3"]
    third.complete("undo(ship#1)/undo_ship#3", None)
    assert ended(third).status == "failed"
    failure = ended(third).failure
    assert failure is not None
    assert failure.cause == ("pack#1",)


def test_a_retry_after_a_cancel_ends_cancelled() -> None:
    driver = Driver(two_then_pack)
    driver.complete("work#1", 1)
    driver.cancel()
    driver.complete("undo(ship#1)/undo_ship#1", None)
    driver.fail("undo(work#1)/undo_work#1")
    assert ended(driver).status == "compensation_failed"
    again = retried(driver)
    again.complete("undo(work#1)/undo_work#2", None)
    assert ended(again).status == "cancelled"


def test_what_two_sagas_owe_runs_in_the_order_in_which_it_failed() -> None:
    async def body() -> None:
        async with hf.saga() as outer:
            await outer.do(work(), undo=undo_work)
            async with hf.saga() as inner:
                await inner.do(ship(), undo=undo_ship)
                await pack()

    driver = Driver(body)
    driver.complete("work#1")
    driver.complete("ship#1")
    driver.fail("pack#1")
    driver.fail("undo(ship#1)/undo_ship#1")
    driver.fail("undo(work#1)/undo_work#1")
    assert owed(driver) == ["undo_ship of ship#1: Boom", "undo_work of work#1: Boom"]
    again = retried(driver)
    assert again.waits == ["undo(ship#1)/undo_ship#2"]
    again.complete("undo(ship#1)/undo_ship#2", None)
    again.fail("undo(work#1)/undo_work#2")
    assert owed(again) == ["undo_work of work#1: Boom"]


def test_a_signal_and_a_cancel_do_not_disturb_the_second_round() -> None:
    first = fail_both()
    first.complete("undo(work#1)/undo_work#1", None)
    second = retried(first)
    second.signal("go", b"1")
    second.cancel()
    second.complete("undo(ship#1)/undo_ship#2", None)
    assert ended(second).status == "failed"


def raises_at_once(_: object) -> Any:
    raise KeyError("no such booking")


def is_sync(_: object) -> Any:
    return None


@pytest.mark.parametrize(("undo", "told"), [(raises_at_once, "KeyError"), (is_sync, "BadDefin")])
def test_an_undo_that_is_no_undo_is_owed(undo: Any, told: str) -> None:
    async def body() -> None:
        async with hf.saga() as saga:
            await saga.do(work(), undo=undo)
            raise ValueError

    driver = Driver(body)
    driver.complete("work#1")
    assert ended(driver).status == "compensation_failed"
    assert told in owed(driver)[0]


def test_an_undo_that_fails_at_once_is_tried_once_a_retry() -> None:
    calls: list[int] = []

    async def body() -> None:
        async with hf.saga() as saga:

            def fails_at_once(_: object) -> Any:
                calls.append(1)
                raise KeyError("no such booking \ud800")

            await saga.do(work(), undo=fails_at_once)
            raise ValueError

    driver = Driver(body, paranoid=False)
    driver.complete("work#1")
    for rounds in (2, 3):
        calls.clear()
        driver = retried(driver)
        assert len(calls) == rounds
        assert owed(driver) == ["fails_at_once of work#1: KeyError"]


# --- what is refused


async def gives_a_step() -> None:
    async with hf.saga() as saga:
        await saga.do(work, undo=undo_work)  # type: ignore[arg-type]


async def gives_a_call_as_undo() -> None:
    async with hf.saga() as saga:
        await saga.do(work(), undo=undo_work(1))


async def calls_outside() -> None:
    await hf.saga().do(work(), undo=undo_work)


async def enters_twice() -> None:
    async with hf.saga() as saga, saga:
        pass


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (gives_a_step, "not a call. Write saga.do(charge(order), undo=refund)"),
        (gives_a_call_as_undo, "Write undo=refund, without a call."),
        (calls_outside, "Write `async with hf.saga() as saga:` around it."),
        (enters_twice, "Call hf.saga() for each."),
    ],
)
def test_a_wrong_call_says_what_to_write(body: Any, told: str) -> None:
    failure = ended(Driver(body)).failure
    assert failure is not None
    assert failure.type == "BadDefinition"
    assert told in failure.message


def test_outside_of_a_body_there_is_no_saga() -> None:
    with pytest.raises(hf.NotInBody, match=r"hf\.saga"):
        hf.saga()


def test_a_block_whose_undos_have_begun_takes_no_more_calls() -> None:
    async def body() -> None:
        async with hf.saga() as saga:

            async def also(_: int | None) -> None:
                with pytest.raises(BadDefinition, match="outside of its block"):
                    await saga.do(ship(), undo=undo_ship)
                await pack()

            await saga.do(work(), undo=also)
            raise ValueError

    driver = Driver(body)
    driver.complete("work#1")
    assert driver.waits == ["undo(work#1)/pack#1"]


# --- closing, and what a retry takes back


@pytest.mark.parametrize("answers", [1, 2, 3])
def test_a_closed_machine_undoes_nothing(answers: int) -> None:
    driver = Driver(two_then_pack)
    for key in ("work#1", "ship#1")[:answers]:
        driver.complete(key, 1)
    if answers == 3:
        driver.fail("pack#1")
    before = [*driver.given]
    machine: Machine = driver.machine
    machine.close()
    assert driver.given == before
    assert not machine.asks


def test_keys_tell_what_is_undone() -> None:
    assert [*undone_by("charge#1")] == []
    assert [*undone_by("undo(charge#1)/refund#2")] == ["charge#1"]
    assert [*undone_by("a[1]/undo(b[2])/c[1]/d#1")] == ["a[1]/b[2]"]
    assert [*undone_by("undo(a[1])/undo(b#1)/c#1")] == ["undo(a[1])/b#1"]


def test_what_was_undone_is_taken_back_with_its_undo() -> None:
    keys = ["work#1", "trip[1]/work#1", "trip[10]/work#1", "undo(work#1)/undo_work#1",
            "undo(trip[1])/undo_work#1"]  # fmt: skip
    events = [Event("step.completed", 0, key, seq=seq) for seq, key in enumerate(keys, 1)]
    assert taken_back(events, (4,), 2) == {1}
    assert taken_back(events, (5,), 2) == {2}
    assert taken_back(events, (3,), 2) == frozenset()
    assert taken_back(events, (4, 5), 1) == frozenset()
