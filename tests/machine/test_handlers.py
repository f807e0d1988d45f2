"""Handlers: what a body answers and does when it is asked to, the same in every replay."""

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.errors import BodyMeddled, NotInBody, ReplayMismatch, Undecodable
from holdfast.hosts.worker import guard
from holdfast.machine.handlers import Handlers
from holdfast.machine.looking import Seen, question
from holdfast.machine.machine import Machine
from tests.machine.driver import Driver, replay, work

add = hf.Update("add", int, int)
clear = hf.Update("clear", str)
total = hf.Query("total", int)
done = hf.Signal("done", bool)


def accept(driver: Driver, value: bytes = b"1", id: str = "u1", update: str = "add") -> None:
    driver.add("update.accepted", f"{update}/{id}", payload=value)


def notes(driver: Driver) -> list[tuple[str, str, bytes | None]]:
    return [(e.kind, e.key, e.payload) for e in driver.history if e.kind.startswith("update.")]


def handlers(driver: Driver) -> Handlers:
    found = driver.machine.handlers
    assert found is not None
    return found


def ask(machine: Machine, name: str, payload: bytes = b"null") -> Seen:
    return question(name, payload)(machine)


async def adds() -> int:
    numbers: list[int] = []

    async def put(n: int) -> int:
        numbers.append(await work(n))
        return sum(numbers)

    hf.handle(add, put)
    hf.handle(clear, lambda: str(hf.uuid()))
    hf.handle(total, lambda: sum(numbers))
    await hf.wait_for(done)
    await hf.handlers_finished()
    return sum(numbers)


def test_each_update_is_a_task_at_a_place_of_its_own() -> None:
    driver = Driver(adds)
    accept(driver, b"1", "u1")
    accept(driver, b"2", "u2")
    assert driver.given == ["update.add[1]/work#1", "update.add[2]/work#1"]
    driver.complete("update.add[2]/work#1", 2)
    driver.complete("update.add[1]/work#1", 1)
    assert notes(driver)[2:] == [
        ("update.completed", "add/u2", b"2"),
        ("update.completed", "add/u1", b"3"),
    ]
    driver.signal("done", b"true")
    assert driver.result == 3


def test_chance_in_a_handler_is_that_of_its_place() -> None:
    driver = Driver(adds)
    accept(driver, b"null", "u1", "clear")
    accept(driver, b"null", "u2", "clear")
    first, second = (payload for kind, _, payload in notes(driver) if kind == "update.completed")
    assert first != second
    assert replay(driver).fingerprint() == driver.machine.fingerprint()


def test_a_body_that_ends_waits_for_its_handlers_if_it_says_so() -> None:
    driver = Driver(adds)
    accept(driver)
    driver.signal("done", b"true")
    assert driver.machine.ended is None
    driver.complete("update.add[1]/work#1", 5)
    assert driver.result == 5


def test_a_failing_handler_leaves_a_note_and_the_body_goes_on() -> None:
    driver = Driver(adds)
    accept(driver)
    driver.fail("update.add[1]/work#1")
    [_, (kind, key, payload)] = notes(driver)
    assert (kind, key) == ("update.failed", "add/u1")
    assert b"StepFailed" in (payload or b"")
    driver.signal("done", b"true")
    assert driver.result == 0


def test_an_accepted_update_without_a_handler_is_a_mismatch() -> None:
    async def body() -> None:
        await hf.wait_for(done)

    driver = Driver(body)
    with pytest.raises(ReplayMismatch, match=r"acceptance of update add/u1.*has no handler"):
        accept(driver)


def test_a_handler_that_does_not_end_where_it_did_is_a_mismatch() -> None:
    driver = Driver(adds)
    accept(driver)
    driver.complete("update.add[1]/work#1", 1)

    async def longer() -> int:
        async def put(n: int) -> int:
            await work(n)
            return await work(n)

        hf.handle(add, put)
        await hf.wait_for(done)
        return 0

    twin = Machine(longer, driver.machine.signature, ns="test", run="run-1")
    with pytest.raises(ReplayMismatch, match=r"the end \(update.completed\) of update add/u1"):
        twin.feed_all(driver.history)
    twin.close()


def test_a_handler_that_returns_something_else_is_only_told() -> None:
    driver = Driver(adds)
    accept(driver)
    driver.complete("update.add[1]/work#1", 1)

    async def other() -> int:
        async def put(n: int) -> int:
            return 10 * await work(n)

        hf.handle(add, put)
        await hf.wait_for(done)
        return 0

    twin = Machine(other, driver.machine.signature, ns="test", run="run-1")
    twin.feed_all(driver.history)
    assert twin.warnings == ("update add/u1 was told another result than its handler gives now",)
    twin.close()


def test_what_a_handler_said_that_is_not_recorded_is_said_after_the_replay() -> None:
    driver = Driver(adds)
    accept(driver)
    driver.complete("update.add[1]/work#1", 1)
    without = [event for event in driver.history if event.kind != "update.completed"]
    twin = Machine(adds, driver.machine.signature, ns="test", run="run-1")
    twin.feed_all(without)
    assert [(note.kind, note.key) for note in twin.notes] == [("update.completed", "add/u1")]
    twin.close()


def test_an_argument_that_cannot_be_read_any_more_is_undecodable() -> None:
    driver = Driver(adds)
    with pytest.raises(Undecodable, match="the argument of update add/u1"):
        accept(driver, b'"one"')


def test_handlers_left_at_the_end_say_nothing() -> None:
    async def body() -> int:
        async def forever() -> str:
            try:
                await asyncio.Event().wait()
            finally:
                await work(1)
            return ""

        hf.handle(clear, forever)
        await hf.wait_for(done)
        return 1

    driver = Driver(body)
    accept(driver, b"null", "u1", "clear")
    driver.signal("done", b"true")
    assert driver.result == 1
    assert driver.machine.ended is not None
    assert driver.machine.ended.leftovers == ("update.clear[1]",)
    assert [kind for kind, _, _ in notes(driver)] == ["update.accepted"]


def test_a_query_sees_the_state_and_leaves_no_trace() -> None:
    driver = Driver(adds)
    accept(driver)
    driver.complete("update.add[1]/work#1", 4)
    before = driver.machine.fingerprint()
    assert ask(driver.machine, "total").reply() == b"4"
    assert driver.machine.fingerprint() == before
    with pytest.raises(hf.UnknownQuery):
        ask(driver.machine, "nothing").reply()


def test_a_body_that_has_ended_still_answers() -> None:
    driver = Driver(adds)
    accept(driver)
    driver.complete("update.add[1]/work#1", 4)
    driver.signal("done", b"true")
    assert driver.machine.ended
    assert ask(driver.machine, "total").reply() == b"4"
    assert driver.machine.awaited_updates() == ()


def judged(check: Any) -> Driver:
    async def body() -> None:
        hf.handle(add, lambda n: n, validate=check)
        await hf.wait_for(done)

    return Driver(body)


def test_what_a_validator_raises_is_the_refusal() -> None:
    def check(n: int) -> None:
        if n < 0:
            raise KeyError("too small")

    driver = judged(check)
    assert handlers(driver).judge("add", b"1") is None
    refusal = handlers(driver).judge("add", b"-1")
    assert refusal is not None
    assert (refusal.type, refusal.message, refusal.traceback) == ("KeyError", "'too small'", "")
    refusal = handlers(driver).judge("add", b'"one"')
    assert refusal is not None
    assert refusal.type == "InvalidValue"


def test_a_validator_that_asks_refuses_and_takes_no_key() -> None:
    def check(n: int) -> None:
        work(n)

    driver = judged(check)
    refusal = handlers(driver).judge("add", b"1")
    assert refusal is not None
    assert "asked for something" in refusal.message
    assert driver.machine.asks == {}


def test_a_validator_that_touches_a_file_is_refused_by_the_guard() -> None:
    guard.install()

    def check(n: int) -> None:
        open(__file__).close()

    driver = judged(check)
    refusal = handlers(driver).judge("add", b"1")
    assert refusal is not None
    assert refusal.type == "GuardViolation"
    assert driver.machine.violation is None
    driver.signal("done", b"true")


def test_a_validator_that_wakes_the_body_is_found_out() -> None:
    async def body() -> None:
        over = asyncio.Event()
        hf.handle(add, lambda n: n, validate=lambda n: over.set())
        await over.wait()

    driver = Driver(body)
    with pytest.raises(BodyMeddled):
        handlers(driver).judge("add", b"1")


def test_a_validator_gets_a_copy_of_the_argument() -> None:
    seen: list[list[int]] = []

    async def body() -> None:
        hf.handle(hf.Update("take", list[int], int), take, validate=lambda n: n.clear())
        await hf.wait_for(done)

    def take(numbers: list[int]) -> int:
        seen.append(numbers)
        return len(numbers)

    driver = Driver(body, paranoid=False)
    assert handlers(driver).judge("take", b"[1,2]") is None
    accept(driver, b"[1,2]", "u1", "take")
    assert seen == [[1, 2]]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: hf.handle("add", len), "no query and no update"),  # type: ignore[call-overload]
        (lambda: hf.handle(add, None), "cannot be called"),  # type: ignore[call-overload]
        (lambda: hf.handle(add, lambda n: n, validate=5), "cannot be called"),  # type: ignore[call-overload]
        (lambda: hf.handle(total, lambda: 1, validate=lambda: None), "was given a validator"),  # type: ignore[call-overload]
        (lambda: hf.Query("a"), "was given 0 types"),  # type: ignore[call-overload]
        (lambda: hf.Update("a", int, int, int), "was given 3 types"),  # type: ignore[call-overload]
    ],
)
def test_what_cannot_be_handled_is_refused(call: Any, told: str) -> None:
    async def body() -> None:
        with pytest.raises(hf.BadDefinition, match=told):
            call()

    assert Driver(body).machine.ended


def test_handlers_are_registered_in_a_body_only() -> None:
    with pytest.raises(NotInBody, match=r"hf\.handle\(\)"):
        hf.handle(total, lambda: 1)
    for name in ("", "a/b", "x" * 256, 5):
        with pytest.raises(hf.InvalidName, match="query name"):
            hf.Query(name, int)  # type: ignore[arg-type]
