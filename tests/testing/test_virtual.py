"""Virtual time, as users test with it."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

import holdfast as hf
from holdfast.stores.memory import MemoryStore
from holdfast.testing import virtual

DAY = 86_400
app = hf.App("virtual-tests")
stop = hf.Signal("stop", str)
charged: list[Any] = []


@app.step
def charge(customer: str) -> None:
    charged.append(customer)


@app.step(
    retry=hf.Retry(max_attempts=6, initial=timedelta(hours=1), factor=10, cap=timedelta(days=9))
)
async def flaky() -> int:
    if hf.attempt() < 6:
        raise ConnectionError("not today")
    return hf.attempt()


@app.step(timeout=3600)
async def endless() -> None:
    await asyncio.sleep(10 * DAY)


@app.workflow
async def subscription(customer: str) -> int:
    began = hf.now()
    while True:
        try:
            await hf.wait_for(stop, timeout=timedelta(days=30))
        except TimeoutError:
            await charge(customer)
        else:
            return (hf.now() - began).days


@app.workflow
async def patient() -> int:
    return await flaky()


@app.workflow
async def hurried() -> str:
    try:
        await endless.options(retry=hf.Retry(max_attempts=1))()
    except TimeoutError:
        return "too slow"
    return "done"


@app.workflow
async def forlorn() -> str:
    return await hf.wait_for(stop)


def test_a_year_passes_at_once_and_to_the_day() -> None:
    charged.clear()

    async def story(client: hf.Client) -> int:
        run = await client.start(subscription.bind("ada"))
        await asyncio.sleep(365 * DAY)
        assert (await run.describe()).status == "waiting"
        await run.signal(stop, "enough")
        return await run.result()

    began = time.monotonic()
    assert virtual.run(app, story) == 365
    assert time.monotonic() - began < 30  # not 365 days
    assert charged == ["ada"] * 12


@app.workflow
async def month(customer: str) -> int:
    began = hf.now()
    await hf.sleep(timedelta(days=30))
    await charge.options(timeout=60)(customer)
    return (hf.now() - began).days


@app.workflow
async def year_of_months(customer: str) -> int:
    days = 0
    for _ in range(12):
        days += await month(customer)
    return days + sum(await hf.map(month, [customer] * 5))


def test_children_live_in_virtual_time() -> None:
    charged.clear()

    async def story(client: hf.Client) -> int:
        return await (await client.start(year_of_months.bind("ada"), id="year")).result()

    assert virtual.run(app, story) == 510
    assert charged == ["ada"] * 17


def test_retries_and_time_outs_are_virtual_too() -> None:
    async def story(client: hf.Client) -> tuple[int, str]:
        first, second = await client.start(patient.bind()), await client.start(hurried.bind())
        return await first.result(), await second.result()

    assert virtual.run(app, story) == (6, "too slow")


def test_what_never_comes_is_said() -> None:
    async def story(client: hf.Client) -> str:
        return await (await client.start(forlorn.bind())).result()

    with pytest.raises(TimeoutError):
        virtual.run(app, story)


def test_a_worker_with_nothing_to_do_looks_once_a_virtual_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chores that count in minutes would make a year half a million looks."""
    looks, find = 0, MemoryStore.find

    async def counted(self: MemoryStore, *args: Any) -> Any:
        nonlocal looks
        looks += 1
        return await find(self, *args)

    async def story(client: hf.Client) -> None:
        await asyncio.sleep(365 * DAY)

    monkeypatch.setattr(MemoryStore, "find", counted)
    virtual.run(app, story)
    assert 0 < looks <= 366


def test_an_error_of_the_story_comes_out() -> None:
    async def story(client: hf.Client) -> None:
        await client.get("nobody").result()

    with pytest.raises(hf.RunNotFound):
        virtual.run(app, story)


def test_the_same_seed_waits_the_same() -> None:
    async def story(client: hf.Client) -> list[int]:
        run = await client.start(patient.bind(), id="p")
        await run.result()
        return [event.at for event in (await run.history()).events]

    assert virtual.run(app, story, seed=7) == virtual.run(app, story, seed=7)
    assert virtual.run(app, story, seed=7) != virtual.run(app, story, seed=8)
