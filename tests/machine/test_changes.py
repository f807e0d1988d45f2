"""`patched`, `deprecate_patch` and `get_version`: one answer a run, decided by its history."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import (
    BadDefinition,
    InvalidName,
    NotInBody,
    ReplayMismatch,
    UnsupportedVersion,
)
from holdfast.machine.machine import Machine
from holdfast.machine.paranoid import check_replay
from holdfast.machine.patches import deprecate_patch, get_version, patched
from holdfast.machine.primitives import sleep
from holdfast.machine.values import Signature
from holdfast.model.events import Event
from tests.machine.driver import Driver, pack, ship, work

Body = Callable[..., Any]


async def before() -> str:
    await work(1)
    await work(2)
    await sleep(60)
    return "before"


async def after() -> str:
    await work(1)
    if patched("pack-it"):
        await pack()
    else:
        await work(2)
    await sleep(60)
    return "after" if patched("pack-it") else "before"


async def deprecated() -> str:
    await work(1)
    deprecate_patch("pack-it")
    await pack()
    await sleep(60)
    assert patched("pack-it")
    return "after"


async def removed() -> str:
    await work(1)
    await pack()
    await sleep(60)
    return "after"


async def numbered() -> str:
    await work(1)
    version = get_version("pack-it", 0, 2)
    if version == 2:
        await ship()
    elif version == 1:
        await pack()
    else:
        await work(2)
    await sleep(60)
    return f"version {version}"


async def newest_only() -> str:
    await work(1)
    get_version("pack-it", 2, 3)
    await ship()
    return "newest"


async def later() -> str:
    await work(1)
    await pack()
    await sleep(60)
    return "after" if patched("pack-it") else "before"


async def earlier() -> str:
    patched("pack-it")
    return await after()


def lived(body: Body, events: int | None = None) -> list[Event]:
    """Return the first events of a run that `body` lived to its end."""
    driver = Driver(body)
    driver.finish()
    driver.machine.close()
    return driver.history[:events]


def continued(body: Body, history: list[Event], generation: int = 1) -> Driver:
    """Replay `history` on `body` and return a driver that goes on from there."""
    driver = Driver.__new__(Driver)
    driver.paranoid, driver.given, driver.history = True, [], list(history)
    driver.at = history[-1].at
    driver.machine = Machine(body, Signature.of(body), ns="test", run="run-1")
    driver.machine.feed_all(history, generation)
    return driver


def notes(events: list[Event]) -> list[tuple[int, str, bytes | None, int]]:
    found = [event for event in events if event.kind == "note.patched"]
    return [(note.seq, note.key, note.payload, note.asked_seq) for note in found]


def test_a_new_run_takes_the_change_up_and_notes_it_after_the_event_of_the_turn() -> None:
    history = lived(after)
    assert [event.kind for event in history] == [
        "run.started", "step.completed", "note.patched", "step.completed", "timer.fired",
    ]  # fmt: skip
    assert notes(history) == [(3, "pack-it", b'{"version":1}', 2)]


@pytest.mark.parametrize("length", range(2, 5))
def test_a_run_that_passed_the_place_before_the_change_never_takes_it_up(length: int) -> None:
    driver = continued(after, lived(before, length))
    driver.finish()
    assert driver.result == "before"
    assert notes(driver.history) == []
    driver.machine.close()


def test_a_run_that_comes_to_the_place_after_the_change_takes_it_up() -> None:
    driver = continued(after, lived(before, 1))
    driver.finish()
    assert driver.result == "after"
    assert len(notes(driver.history)) == 1
    driver.machine.close()


def test_a_start_that_nobody_saw_is_a_new_turn() -> None:
    async def body() -> bool:
        return patched("x")

    history = lived(before, 1)
    for is_new in (True, False):
        machine = Machine(body, Signature.of(body), ns="test", run="run-1")
        machine.feed_all(history, is_new=is_new)
        assert machine.ended is not None
        assert machine.ended.payload == (b"true" if is_new else b"false")
        assert len(machine.notes) == is_new
        machine.close()


@pytest.mark.parametrize("length", range(3, 6))
def test_a_noted_change_is_followed_in_every_replay(length: int) -> None:
    history = lived(after)
    driver = continued(after, history[:length])
    if driver.machine.ended is None:
        driver.finish()
    assert driver.result == "after"
    assert notes(driver.history) == notes(history)
    driver.machine.close()


def test_the_answer_is_the_same_in_a_loop_and_in_every_branch() -> None:
    async def branch(answers: list[bool]) -> None:
        for _ in range(3):
            answers.append(patched("x"))
            await work()

    async def body() -> list[bool]:
        answers: list[bool] = []
        await asyncio.gather(branch(answers), branch(answers))
        return answers

    async def former() -> list[bool]:
        async def branch(answers: list[bool]) -> None:
            for _ in range(3):
                await work()

        await asyncio.gather(branch([]), branch([]))
        return []

    fresh = Driver(body)
    fresh.finish()
    assert fresh.result == [True] * 6
    assert notes(fresh.history) == [(2, "x", b'{"version":1}', 1)]
    old = continued(body, lived(former, 3))
    old.finish()
    assert old.result == [False] * 6
    assert notes(old.history) == []
    for driver in (fresh, old):
        driver.machine.close()


def test_a_note_is_seen_before_a_result_that_replay_foresees() -> None:
    async def body() -> list[bool]:
        answers: list[bool] = []
        for n in range(4):
            await work(n)
            answers.append(patched(f"change {n}"))
        return answers

    history = lived(body)
    assert [note[0] for note in notes(history)] == [3, 5, 7, 9]
    driver = continued(body, history)
    assert driver.result == [True] * 4
    driver.machine.close()


def test_changes_of_one_turn_are_each_decided_by_their_own_note() -> None:
    async def one() -> list[bool]:
        found = [patched("a")]
        await work()
        return found

    async def two() -> list[bool]:
        found = [patched("b"), patched("a"), patched("c")]
        await work()
        return found

    driver = continued(two, lived(one, 2))
    driver.finish()
    assert driver.result == [False, True, False]
    driver.machine.close()


def test_a_note_the_code_no_longer_asks_for_is_a_mismatch() -> None:
    with pytest.raises(ReplayMismatch) as caught:
        continued(removed, lived(after))
    assert str(caught.value).startswith(
        "Event 3 is the note of change 'pack-it', and the code now does not ask about it (put "
        "hf.deprecate_patch('pack-it') where it did) at test_changes.py:"
    )


def test_a_change_that_is_asked_about_in_a_later_turn_only_is_a_mismatch() -> None:
    with pytest.raises(ReplayMismatch, match="Event 3 is the note of change 'pack-it', and"):
        continued(later, lived(after))


def test_a_change_that_is_asked_about_in_an_earlier_turn_is_a_mismatch() -> None:
    with pytest.raises(ReplayMismatch, match="version 1, and the code now asked about it before"):
        continued(earlier, lived(after, 3))


def test_deprecation_accepts_runs_with_the_note() -> None:
    driver = continued(deprecated, lived(after))
    assert driver.result == "after"
    driver.machine.close()


def test_deprecation_does_not_bring_back_the_former_code() -> None:
    with pytest.raises(ReplayMismatch, match=r"step work#2, and the code now waits for pack#1"):
        continued(deprecated, lived(before, 3))


def test_what_deprecation_noted_need_not_be_asked_for_and_still_counts() -> None:
    history = lived(deprecated)
    assert notes(history) == [(3, "pack-it", b'{"version":1,"deprecated":true}', 2)]
    for body in (removed, later, after, deprecated):
        driver = continued(body, history)
        assert driver.result == "after"
        assert driver.machine.notes == ()
        driver.machine.close()


def test_versions_are_numbered_and_patched_is_the_first() -> None:
    for former, told in ((before, "version 0"), (after, "version 1"), (numbered, "version 2")):
        driver = continued(numbered, lived(former, 4))
        driver.finish()
        assert driver.result == told
        driver.machine.close()
    assert notes(lived(numbered)) == [(3, "pack-it", b'{"version":2}', 2)]


@pytest.mark.parametrize(("former", "version"), [(before, 0), (after, 1)])
def test_a_version_the_code_does_not_know_is_refused_whatever_the_body_catches(
    former: Body, version: int
) -> None:
    async def deaf() -> str:
        try:
            return await newest_only()
        except Exception:
            return "caught"

    for body in (newest_only, deaf):
        with pytest.raises(UnsupportedVersion) as caught:
            continued(body, lived(former))
        error = caught.value
        assert (error.change, error.version) == ("pack-it", version)
        assert (error.minimum, error.maximum) == (2, 3)
        assert f"follows version {version} of change 'pack-it', and the code knows 2 to 3" in str(
            error
        )
        assert "test_changes.py:" in error.source


def test_a_lost_first_turn_does_not_make_a_new_run_follow_code_that_is_gone() -> None:
    """Its worker died before the note was stored: nothing is recorded that could differ."""

    async def body() -> int:
        version = get_version("x", 1, 2)
        await work()
        return version

    start = lived(body, 1)
    marks = [Event("run.blocked", start[0].at, seq=2), Event("run.resumed", start[0].at, seq=3)]
    for history in (start, [*start, *marks]):
        driver = continued(body, history)
        (note,) = driver.machine.notes
        assert note.asked_seq == 1
        driver.machine.notes = ()
        driver.history.append(note._replace(seq=len(history) + 1))
        driver.machine.feed(driver.history[-1])
        driver.finish()
        assert driver.result == 2
        driver.machine.close()
    shown = Event("step.started", start[0].at, "work#1", b'{"attempt":1}', seq=2)
    with pytest.raises(UnsupportedVersion):
        continued(body, [*start, shown])


def test_a_note_from_before_a_retry_need_not_be_asked_for_and_still_counts() -> None:
    history = lived(after, 3)
    reopened = [*history, Event("run.reopened", history[-1].at, seq=4, generation=2)]
    machine = Machine(removed, Signature.of(removed), ns="test", run="run-1")
    assert machine.feed_all(reopened, 2) == ()
    assert [*machine.asks] == ["pack#1"]
    machine.close()
    driver = continued(later, reopened, generation=2)
    driver.paranoid = False
    driver.finish()
    assert driver.result == "after"
    assert len(notes(driver.history)) == 1
    driver.machine.close()


def test_paranoia_compares_what_the_body_was_told() -> None:
    async def body() -> None:
        patched("x")
        await work()

    driver = Driver(body)
    with pytest.raises(ReplayMismatch, match=r"changes \(\('x', 1\),\), and .*\('x', 0\)"):
        check_replay(driver.machine, driver.history[:1])
    driver.machine.close()


@pytest.mark.parametrize(
    "call", [lambda: patched("x"), lambda: deprecate_patch("x"), lambda: get_version("x", 0, 1)]
)
def test_outside_a_body_there_is_nothing_to_ask(call: Callable[[], Any]) -> None:
    with pytest.raises(NotInBody, match=r"^hf\.\w+\(\) works only in a workflow body"):
        call()


def refusal(call: Callable[[], Any]) -> BaseException:
    """Return what `call` raises in a body."""
    caught: list[BaseException] = []

    async def body() -> None:
        try:
            call()
        except Exception as error:
            caught.append(error)

    Driver(body).machine.close()
    return caught[0]


@pytest.mark.parametrize("change", ["", "x" * 256, "a\nb", 7, None])
def test_a_change_that_cannot_be_stored_is_refused(change: Any) -> None:
    for call in (patched, deprecate_patch, lambda name: get_version(name, 0, 1)):
        assert isinstance(refusal(lambda call=call: call(change)), InvalidName)  # type: ignore[misc]


@pytest.mark.parametrize("bounds", [(2, 1), (-1, 1), (0, 0), (0.0, 1), (True, 1), ("0", "1")])
def test_a_range_without_versions_is_refused(bounds: tuple[Any, Any]) -> None:
    error = refusal(lambda: get_version("x", *bounds))
    assert isinstance(error, BadDefinition)
    assert "0 <= oldest <= newest" in str(error)
