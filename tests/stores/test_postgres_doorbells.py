"""Processes of one machine ring at each other's doors, and hear each ring once."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pytest

from holdfast.model.writes import Notice
from holdfast.stores.postgres import PostgresStore, doorbells
from holdfast.stores.postgres.bells import MOMENT, Ringer
from holdfast.stores.postgres.connection import Line as PostgresLine
from holdfast.stores.postgres.doorbells import Doorbell, new_name
from tests.engine.places import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no bells without names elsewhere")

OURS = "01a1eba6-b403-7326-a42f-05903f696de5"
READY = Notice("shop", OURS, "ready")


class Line:
    """A line on which nothing is sent: it says when something would be."""

    def __init__(self, heard: list[str]) -> None:
        self._heard = heard

    async def fetch(self, asked: object, *, channel: str, payload: str) -> list[Any]:
        self._heard.append("notice")
        return []


@contextmanager
def hung() -> Iterator[tuple[str, Doorbell, list[str]]]:
    """A bell, by its process's name, and what is heard there."""
    name, heard = new_name(), list[str]()
    bell = Doorbell(name)
    bell.hang(heard.append)
    try:
        yield name, bell, heard
    finally:
        bell.close()


async def test_who_was_heard_once_is_rung_at() -> None:
    with hung() as (_, near, _), hung() as (name, _, heard):
        near.ring("before")
        assert near.is_news(name, 1, by_bell=False)
        near.ring("after")
        near.ring("again")
        await until(lambda: len(heard) == 2)
        assert heard == ["after", "again"]


async def test_who_is_near_hears_before_everybody_is_woken_up() -> None:
    with hung() as (me, near, _), hung() as (name, _, heard):
        line = Line(heard)
        ringer = Ringer(cast("PostgresLine", line), me, near)
        ringer.ring([READY])
        await ringer.close()
        assert heard == ["notice"], "nobody is known to be near"
        assert near.is_news(name, 1, by_bell=False)
        ringer.ring([READY])
        await ringer.close()
        await until(lambda: len(heard) == 3)
        assert heard[1:] == [f"w{me}.2 ready shop {OURS}", "notice"]
        near.is_news(f"{'0' * 12}{new_name()[12:]}", 1, by_bell=False)
        ringer.ring([READY])
        await ringer.close()
        await until(lambda: len(heard) == 5)
        assert heard[3] == "notice", "somebody is far away, and does not wait"


async def test_who_is_gone_is_forgotten_and_who_is_elsewhere_not_rung_at() -> None:
    with hung() as (_, near, _):
        with hung() as (gone, _, _):
            near.is_news(gone, 1, by_bell=False)
        elsewhere = f"{'0' * 12}{new_name()[12:]}"
        near.is_news(elsewhere, 1, by_bell=False)
        near.ring("anybody?")
        assert list(near._heard) == [elsewhere]


async def test_what_a_bell_told_is_no_news_in_a_notice() -> None:
    bell = Doorbell(new_name())
    assert bell.is_news("p", 1, by_bell=False)
    assert bell.is_news("p", 3, by_bell=True)
    assert bell.is_news("p", 2, by_bell=False), "its bell was not heard"
    assert not bell.is_news("p", 3, by_bell=False)
    assert bell.is_news("q", 3, by_bell=False), "of another process"


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbells, "MOST", 3)
    bell = Doorbell(new_name())
    for number in range(10):
        bell.is_news("p", number, by_bell=True)
        bell.is_news(f"p{number}", 1, by_bell=False)
        assert len(bell._heard) <= 3
        assert len(bell._heard.get("p", {})) <= 3


async def test_where_there_can_be_no_bell_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbells, "_machine", lambda: "")
    with hung() as (name, bell, heard):
        bell.is_news(name, 1, by_bell=False)
        bell.ring("anybody?")
        await asyncio.sleep(0)
        assert (bell._bell, heard) == (None, [])


async def test_stores_that_know_each_other_need_no_notice(postgres_store: str) -> None:
    """And with both, each ring is heard once."""
    one, other = PostgresStore(postgres_store), PostgresStore(postgres_store)
    heard: dict[str, list[Notice]] = {"one": [], "other": []}
    for name, store in (("one", one), ("other", other)):
        await store.open()

        def hear(notices: Sequence[Notice], name: str = name) -> None:
            heard[name].extend(notices)

        store.listen(hear, worker=name)
    try:
        await until(lambda: heard == {"one": [Notice()], "other": [Notice()]})
        other._ringer.ring([READY])
        await until(lambda: heard["one"][1:] == [READY])
        for n in range(2, 5):
            await asyncio.sleep(2 * MOMENT)
            one._ringer.ring([READY])
            await until(lambda n=n: len(heard["other"]) == n)  # type: ignore[misc]
        await until(lambda: not any(other._bell._heard.values()))  # the notices have come, too
        assert heard["other"][1:] == [READY] * 3
        await one._bells.close()
        one._bells._target = None  # type: ignore[assignment]
        await asyncio.sleep(2 * MOMENT)
        one._ringer.ring([READY])
        await until(lambda: heard["other"][1:] == [READY] * 4)
        one._bells._target = one._target
    finally:
        await one.close()
        await other.close()
