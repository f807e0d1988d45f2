"""Fakes of steps: what they stand for, what stays real."""

import asyncio

import pytest

import holdfast as hf
from holdfast.errors import BadDefinition
from holdfast.testing import crashtest, fake, virtual

app = hf.App("shop")
touched: list[str] = []


@app.step(retry=hf.Retry(max_attempts=3, initial=60), raises=[KeyError])
def charge(item: str, *, cents: int = 100) -> str:
    touched.append(item)
    return f"{item} for {cents}"


@app.step
async def ship(item: str) -> str:
    touched.append(item)
    return f"{item} shipped"


@app.workflow
async def order(item: str) -> list[str]:
    return [await charge(item, cents=5), await ship.options(timeout=60)(item)]


async def story(client: hf.Client) -> list[str]:
    return await (await client.start(order.bind("lamp"))).result()


@pytest.fixture(autouse=True)
def nothing_real_ran() -> None:
    touched.clear()


def test_a_fake_returns_what_it_is_told_and_keeps_its_calls() -> None:
    with fake(charge, returns="free") as charged, fake(ship, returns="gone") as shipped:
        assert virtual.run(app, story) == ["free", "gone"]
    assert charged.calls == [(("lamp",), {"cents": 5})]
    assert [call.args for call in shipped.calls] == [("lamp",)]
    assert repr(charged) == "<fake of charge, 1 calls>"
    assert touched == []


def test_the_step_is_itself_again_after_the_block() -> None:
    with pytest.raises(ZeroDivisionError), fake(charge, returns=""), fake(ship, returns=""):
        raise ZeroDivisionError
    assert virtual.run(app, story) == ["lamp for 5", "lamp shipped"]
    assert touched == ["lamp", "lamp"]


async def test_it_holds_in_a_real_worker_too() -> None:
    def dearly(item: str, *, cents: int = 0) -> str:
        return f"{cents}"

    async def slowly(item: str) -> str:
        await asyncio.sleep(0)
        return f"{item} flown"

    with fake(charge, does=dearly), fake(ship, does=slowly):
        async with app.open("memory://") as client:
            assert await story(client) == ["5", "lamp flown"]


def test_a_failure_is_retried_as_the_step_says() -> None:
    with fake(charge, raises=ConnectionError("no line")) as charged, pytest.raises(hf.RunFailed):
        virtual.run(app, story)
    assert len(charged.calls) == 3


def test_a_fake_may_fail_at_first() -> None:
    def second_time(item: str, *, cents: int = 0) -> str:
        if hf.attempt() == 1:
            raise ConnectionError("no line")
        return hf.idempotency_key().rpartition("/")[2]

    with fake(charge, does=second_time), fake(ship, returns="gone"):
        assert virtual.run(app, story) == ["charge#1", "gone"]


def test_what_a_fake_returns_must_fit_the_annotation() -> None:
    with fake(ship, returns=5), pytest.raises(hf.RunFailed) as caught:  # type: ignore[misc]
        virtual.run(app, story)
    assert "UnserialisableResult: result of step ship#1" in str(caught.value)


def test_fakes_may_stand_in_each_other() -> None:
    with fake(ship, returns="one"):
        with fake(ship, returns="two"):
            assert virtual.run(app, story)[1] == "two"
        assert virtual.run(app, story)[1] == "one"


async def test_a_plain_call_meets_the_fake() -> None:
    with fake(ship, returns="gone"):
        assert await ship("lamp") == "gone"


def test_a_crashtest_meets_it_as_well() -> None:
    with fake(charge, returns="free") as charged, fake(ship, returns="gone"):
        report = crashtest(order.bind("lamp"))
    assert report.violations == []
    assert len(charged.calls) > len(report.points)
    assert touched == []


def test_what_cannot_be_faked_is_refused() -> None:
    with pytest.raises(BadDefinition, match="which is no step"):
        fake(order, returns=1)  # type: ignore[call-overload]
    with pytest.raises(BadDefinition, match="was told 0 things"):
        fake(ship)  # type: ignore[call-overload]
    with pytest.raises(BadDefinition, match="was told 2 things"):
        fake(ship, returns="a", raises=ValueError)  # type: ignore[call-overload]
