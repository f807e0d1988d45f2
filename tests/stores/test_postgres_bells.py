"""When a process rings for others: at once, but never in a storm."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, cast

import pytest

from holdfast.model.writes import Claim, Notice
from holdfast.stores.postgres import PostgresStore, bells
from holdfast.stores.postgres.bells import MOMENT, WHILE, Ringer
from holdfast.stores.postgres.connection import Line
from holdfast.testing.loop import VirtualLoop

GOES_ON = [Notice("default", "r", "events")]
ENDED = [Notice("default", "r", "closed")]
READY = [Notice("default", "r", "ready")]
JOB = [Notice("default", "r", "job"), *GOES_ON]
OURS = "01a1eba6-b403-7326-a42f-05903f696de5"
NAMED = [Notice("shop", OURS, "ready")]


class Recorder:
    """A line on which nothing is sent: it keeps what was rung, and when."""

    def __init__(self) -> None:
        self.rung: list[tuple[float, str]] = []

    async def fetch(self, asked: object, *, channel: str, payload: str) -> list[Any]:
        self.rung.append((round(asyncio.get_running_loop().time() - self.began, 4), payload))
        return []

    def __enter__(self) -> Ringer:
        self.began = asyncio.get_running_loop().time()
        return Ringer(cast("Line", self), "me")

    def __exit__(self, *error: object) -> None:
        pass


def rung(*told: tuple[float, list[Notice]]) -> list[tuple[float, str]]:
    """Return when others were rung, after these were told at these times."""

    async def main() -> list[tuple[float, str]]:
        line = Recorder()
        with line as ringer:
            for at, notices in told:
                await asyncio.sleep(max(0, line.began + at - asyncio.get_running_loop().time()))
                ringer.ring(notices)
            await asyncio.sleep(1)
            await ringer.close()
        return line.rung

    return on_virtual_time(main())


def on_virtual_time(main: Coroutine[Any, Any, list[tuple[float, str]]]) -> list[tuple[float, str]]:
    return VirtualLoop().run(main)  # type: ignore[abstract]


def test_the_first_ring_comes_at_once() -> None:
    assert rung((0, ENDED)) == [(0, "cme")]
    assert rung((0, READY)) == [(0, "wme ready")]


def test_what_comes_right_after_a_ring_is_told_a_moment_later_in_one() -> None:
    told = rung((0, ENDED), (0.001, READY), (0.002, ENDED))
    assert told == [(0, "cme"), (MOMENT, "wme ready")]


def test_a_ring_says_what_to_look_for_if_it_is_one_thing() -> None:
    assert rung((0, JOB)) == [(0, "wme job")]
    told = rung((0, ENDED), (0.001, JOB), (0.002, READY), (0.5, JOB))
    assert told == [(0, "cme"), (MOMENT, "wme"), (0.5, "wme job")]


def test_a_run_that_goes_on_rings_once_in_a_while() -> None:
    steps = [(step / 1000, GOES_ON) for step in range(100)]
    told = rung(*steps)
    assert (told[0], len(told)) == ((WHILE, "cme"), 3)


def test_an_end_is_told_soon_though_its_steps_were_told_late() -> None:
    told = rung((0, GOES_ON), (0.001, GOES_ON), (0.010, ENDED), (0.011, GOES_ON))
    assert told == [(0.010, "cme"), (0.051, "cme")]


def test_what_came_last_is_told_before_the_line_is_closed() -> None:
    async def main() -> list[tuple[float, str]]:
        line = Recorder()
        with line as ringer:
            ringer.ring(ENDED)
            await asyncio.sleep(0.001)
            ringer.ring(READY)
            await ringer.close()
        return line.rung

    assert on_virtual_time(main()) == [(0, "cme"), (0.001, "wme ready")]


def test_a_run_that_can_be_claimed_is_named_if_it_is_one() -> None:
    assert rung((0, NAMED)) == [(0, f"wme ready shop {OURS}")]
    assert rung((0, NAMED), (0.5, ENDED)) == [(0, f"wme ready shop {OURS}"), (0.5, "cme")]
    told = rung((0, ENDED), (0.001, NAMED), (0.002, NAMED), (0.5, [*NAMED, *JOB]))
    assert told == [(0, "cme"), (MOMENT, "wme ready"), (0.5, "wme")]


@pytest.mark.parametrize("id", ["order-42", "a" * 36, OURS.upper(), f"{OURS[:-1]} "])
def test_a_name_that_a_person_gave_is_told_to_nobody(id: str) -> None:
    assert rung((0, [Notice("shop", id, "ready")])) == [(0, "wme ready")]


async def test_a_worker_elsewhere_hears_the_name(postgres_store: str) -> None:
    heard, told = list[Notice](), asyncio.Event()

    def hear(notices: Sequence[Notice]) -> None:
        heard.extend(notices)
        told.set()

    near, far = PostgresStore(postgres_store), PostgresStore(postgres_store)
    await near.open()
    await far.open()
    try:
        far.listen(hear, worker="W")
        await asyncio.wait_for(told.wait(), 10)  # when listening begins
        assert heard == [Notice()]
        for notices in (NAMED, READY, ENDED, JOB):
            near._tell(notices)
            await near._ringer.close()  # else two of them might become one ring
        async with asyncio.timeout(10):
            while len(heard) < 4:  # noqa: ASYNC110 - a callback sets no event twice
                await asyncio.sleep(0.01)
    finally:
        await near.close()
        await far.close()
    assert heard[1:] == [*NAMED, Notice(what="ready"), Notice(what="job")]


async def test_a_worker_that_finds_nothing_to_do_listens_at_once(
    postgres_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bells, "SOON", 3600)
    told = asyncio.Event()
    store = PostgresStore(postgres_store)
    await store.open()
    try:
        store.listen(lambda _: told.set(), worker="W")
        await store.claim(Claim("shop", "W", (), 1, 1_000_000))
        await asyncio.wait_for(told.wait(), 10)
    finally:
        await store.close()
