"""Steps that run at most once, on every store: recorded before they begin, never begun twice."""

import asyncio
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, event_of, status_of, within


class Bank:
    """An outside service that must not be asked twice."""

    def __init__(self, app: hf.App, **options: Any) -> None:
        self.asked: list[int] = []
        self.seen: list[list[str]] = []
        self.hold: asyncio.Event | None = None
        self.error: Exception | None = None

        @app.step(at_most_once=True, **options)
        async def pay(cents: int) -> int:
            self.asked.append(cents)
            if self.hold is not None:
                await self.hold.wait()
            if self.error is not None:
                raise self.error
            return cents

        @app.workflow
        async def flow(cents: int) -> str:
            try:
                return f"paid {await pay(cents)}"
            except hf.StepOutcomeUnknown as error:
                return f"unknown: {error.step}, {error.attempts}"

        @app.workflow
        async def strict(cents: int) -> int:
            return await pay(cents)

        self.pay, self.flow, self.strict = pay, flow, strict


@pytest.fixture
def bank(app: hf.App) -> Bank:
    return Bank(app)


async def test_that_it_begins_is_recorded_first(place: Place, app: hf.App, bank: Bank) -> None:
    async with place.open(app) as client:
        run = await client.start(bank.flow.bind(5))
        assert await within(run.result()) == "paid 5"
        recorded = [event.kind for event in (await run.history()).events]
        assert recorded == ["run.started", "step.started", "step.completed", "run.completed"]


async def test_a_step_whose_worker_was_lost_does_not_begin_again(
    place: Place, app: hf.App, bank: Bank
) -> None:
    bank.hold = asyncio.Event()
    async with place.open(app, drain=0.01) as client:
        run = await client.start(bank.flow.bind(5), id="r")
        await event_of(run, "step.started")
    async with place.open(app) as client:  # the step was cut short when the first one left
        run = client.get("r", bank.flow)
        assert await within(run.result()) == "unknown: pay#1, 1"
        assert bank.asked == [5]


async def test_a_failure_is_final_and_known(place: Place, app: hf.App, bank: Bank) -> None:
    bank.error = ConnectionError("no answer")
    async with place.open(app) as client:
        run = await client.start(bank.strict.bind(5))
        with pytest.raises(hf.RunFailed, match="no answer"):
            await within(run.result())
        assert bank.asked == [5], "the default policy would have tried it five times"


async def test_a_person_may_have_it_run_again(place: Place, app: hf.App, bank: Bank) -> None:
    bank.hold = asyncio.Event()
    async with place.open(app, drain=0.01) as client:
        await event_of(await client.start(bank.strict.bind(5), id="r"), "step.started")
    async with place.open(app) as client:
        run = client.get("r", bank.strict)
        await status_of(run, "failed")
        with pytest.raises(hf.RunFailed, match="whether it ended is not known"):
            await within(run.result())
        bank.hold.set()
        await run.retry("the bank knows of nothing")
        assert await within(run.result()) == 5
        assert bank.asked == [5, 5]


def test_it_cannot_be_tried_again(app: hf.App) -> None:
    with pytest.raises(hf.BadDefinition, match="at most once, and its retry allows 3 attempts"):
        Bank(app, retry=hf.Retry(max_attempts=3))
    bank = Bank(hf.App("other"), retry=hf.Retry(max_attempts=1))
    with pytest.raises(hf.BadDefinition, match="its retry allows 2 attempts"):
        bank.pay.options(retry=hf.Retry(max_attempts=2))
    assert bank.pay.options(timeout=5).settings.at_most_once


async def test_it_is_not_done_in_chunks(place: Place, app: hf.App, bank: Bank) -> None:
    @app.workflow
    async def all_of_them() -> list[int]:
        return await hf.map(bank.pay, [1, 2], chunk=2)

    bank.error = ConnectionError("no answer")
    async with place.open(app) as client:
        run = await client.start(all_of_them.bind())
        with pytest.raises(hf.RunFailed, match="which cannot be done in chunks"):
            await within(run.result())
        assert bank.asked == [], "an item that fails in a chunk would be asked for again"
