"""`holdfast.testing.crashtest`: what it lets pass, what it finds, and how it says so."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest

import holdfast as hf
from holdfast.errors import BadDefinition
from holdfast.testing import CrashtestFailed, Driven, crashtest
from holdfast.testing.crash_database import Database
from holdfast.testing.crashing import Where
from holdfast.testing.inline import Elsewhere

app = hf.App("shop")
paid = hf.Signal("paid", int)
bank: Counter[str] = Counter()
tokens = itertools.count()


@app.step
def charge(item: str) -> str:
    """Refuses to do the same twice, as a bank with idempotency keys does."""
    bank[hf.idempotency_key()] = 1
    return item


@app.step
async def charge_blindly(item: str) -> str:
    bank[item] += 1
    return item


@app.step
async def ship(item: str) -> str:
    await asyncio.sleep(3)
    return f"{item} shipped"


@app.step(retry=hf.Retry(max_attempts=3, initial=60))
async def flaky(item: str) -> str:
    if hf.attempt() < 3:
        raise ConnectionError("no line")
    return item


@app.step
async def draw() -> int:
    return next(tokens)


@app.workflow
async def order(item: str) -> str:
    cents = await hf.wait_for(paid, timeout=timedelta(days=60))
    await charge(item)
    await hf.sleep(timedelta(days=300))
    return f"{await ship(await flaky(item))} for {cents}"


@app.workflow
async def careless(item: str) -> str:
    await ship(item)
    return await charge_blindly(item)


@app.workflow
async def drawn() -> int:
    return await draw()


@app.workflow
async def refused(item: str) -> str:
    raise ValueError(f"no {item} left")


@app.workflow
async def cleans_up(item: str) -> str:
    try:
        await hf.wait_for(paid)
    except asyncio.CancelledError:
        await charge(item)
        raise
    return item


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        pytest.param("postgres", marks=[pytest.mark.proof, pytest.mark.timeout(600)]),
    ]
)
def store(request: pytest.FixtureRequest) -> Iterator[Where]:
    if request.param != "postgres":
        yield request.param
        return
    with Elsewhere() as elsewhere:
        database = Database(request.getfixturevalue("migrated"), elsewhere)
        yield database
        database.close()


async def pays_after_a_month(run: Driven) -> None:
    await run.sleep(30 * 86_400)
    await run.signal(paid, 5)


def effects() -> dict[str, int]:
    return dict(bank)


def test_a_careful_workflow_survives_every_crash(store: Where) -> None:
    report = crashtest(
        order.bind("lamp"), pays_after_a_month, before=bank.clear, effects=effects, store=store
    )
    assert report.executed == report.points
    kinds = Counter(point.flavour for point in report.points)
    assert set(kinds) == {"before", "after", "sent", "unheard", "happened", "lost"}
    assert len(set(kinds.values())) == 1
    assert len(bank) == 1


def test_an_effect_that_is_not_safe_to_repeat_is_found(store: Where) -> None:
    def blind() -> None:
        crashtest(careless.bind("lamp"), before=bank.clear, effects=effects, store=store)

    with pytest.raises(CrashtestFailed) as caught:
        blind()
    found = caught.value
    assert found.where == (
        "the process dies before the commit of step.completed charge_blindly#1, run.completed"
    )
    assert found.problems == ("the effects are {'lamp': 2}, and should be {'lamp': 1}",)
    assert f"only={found.only!r}" in str(found)
    assert isinstance(found, AssertionError)
    with pytest.raises(CrashtestFailed) as again:
        crashtest(
            careless.bind("lamp"), before=bank.clear, effects=effects, store=store, only=found.only
        )
    assert again.value.problems == found.problems
    assert again.value.tried == "1 of 1"


def test_a_step_that_gives_something_else_each_time_is_found_unless_it_may() -> None:
    told = r"(?s)the close of run drawn: .* should be .* loose="
    with pytest.raises(CrashtestFailed, match=told):
        crashtest(drawn.bind())
    assert crashtest(drawn.bind(), loose=["draw", "drawn"]).violations == []


def test_failures_and_cancels_survive_too(store: Where) -> None:
    async def cancels(run: Driven) -> None:
        await run.sleep(60)
        await run.cancel()

    assert crashtest(refused.bind("lamp"), store=store).violations == []
    report = crashtest(
        cleans_up.bind("lamp"), cancels, before=bank.clear, effects=effects, store=store
    )
    assert len(report.points) > 20


def test_a_run_that_does_not_end_is_told_with_what_it_waits_for() -> None:
    with pytest.raises(CrashtestFailed, match="is wrong without any crash") as caught:
        crashtest(cleans_up.bind("lamp"))
    assert "cleans_up is waiting, signal paid" in str(caught.value)


def test_the_same_seed_gives_the_same_points() -> None:
    first, second = (
        crashtest(order.bind("lamp"), pays_after_a_month, seed=seed) for seed in (4, 4)
    )
    assert first.points == second.points


def test_what_is_no_workflow_with_its_input_is_refused() -> None:
    with pytest.raises(BadDefinition, match=r"crashtest\(order\.bind\(\.\.\.\)\)"):
        crashtest(order)  # type: ignore[arg-type]
    with pytest.raises(BadDefinition, match="There is no point 'before@9999'"):
        crashtest(refused.bind("lamp"), only="before@9999")


put = hf.Update("put", str, int)
count = hf.Query("count", int)


@app.workflow
async def basket() -> list[str]:
    items: list[str] = []

    async def take(item: str) -> int:
        items.append(await charge(item))
        return len(items)

    def check(item: str) -> None:
        if item in items:
            raise ValueError("it is there")

    hf.handle(put, take, validate=check)
    hf.handle(count, lambda: len(items))
    await hf.wait_for(paid)
    await hf.handlers_finished()
    return items


async def shops(run: Driven) -> None:
    assert await run.update(put, "lamp") == 1
    with pytest.raises(hf.UpdateRejected, match="it is there"):
        await run.update(put, "lamp")
    assert await run.query(count) == 1
    await run.signal(paid, 1)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_story_updates_and_asks(store: Where) -> None:
    report = crashtest(basket.bind(), shops, before=bank.clear, effects=bank.copy, store=store)
    assert report.points
    assert report.executed == report.points
