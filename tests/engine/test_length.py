"""How long a history may get."""

import logging

import pytest

import holdfast as hf
from tests.engine.places import Place, kinds, status_of, within


def counting(app: hf.App, calls: list[int]) -> hf.Workflow[[int], int]:
    @app.step
    async def count(n: int) -> int:
        calls.append(n)
        return n

    @app.workflow
    async def counts(to: int) -> int:
        return sum([await count(n) for n in range(to)])

    return counts


async def test_a_run_at_its_limit_is_blocked_and_goes_on_under_a_higher_one(
    place: Place, app: hf.App
) -> None:
    calls: list[int] = []
    flow = counting(app, calls)
    async with place.open(app, history=10) as client:
        run = await client.start(flow.bind(30), id="long")
        row = await status_of(run, "blocked")
        assert row.reason.startswith("limit: The history has 10 events, and the limit is 10.")
        # The turn that came to the limit is kept: its step has run.
        assert (await kinds(run)) == ["run.started", *["step.completed"] * 10, "run.blocked"]
        await run.signal("late", 1)
    async with place.open(app, history=1_000) as client:
        run = client.get("long", flow)
        await run.retry()
        assert await within(run.result()) == sum(range(30))
    assert calls == list(range(30))


async def test_a_run_that_ends_at_its_limit_has_ended(place: Place, app: hf.App) -> None:
    flow = counting(app, [])
    async with place.open(app, history=10) as client:
        run = await client.start(flow.bind(10))
        assert await within(run.result()) == sum(range(10))


async def test_a_long_history_is_named_in_the_log_once(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    flow = counting(app, [])
    with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
        async with place.open(app, history=50) as client:
            run = await client.start(flow.bind(30), id="long")
            await within(run.result())
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "run long has 10 events, and the limit is 50: let its body continue as new before that"
    ]
