"""Retries: which errors, how often, when, and through a restart."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, event_of, history_when, kinds, status_of, within, worker_of

QUICK = hf.Retry(max_attempts=4, initial=0.001, jitter=False)


class Flaky(Exception):
    pass


async def test_a_failing_step_is_tried_again_and_every_attempt_recorded(
    place: Place, app: hf.App
) -> None:
    @app.step(retry=QUICK)
    async def flaky() -> int:
        if hf.attempt() < 3:
            raise Flaky(f"attempt {hf.attempt()}")
        return hf.attempt()

    @app.workflow
    async def flow() -> int:
        return await flaky()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == 3
        events = (await run.history()).events
    retrying = [json.loads(e.payload or b"") for e in events if e.kind == "step.retrying"]
    assert [(r["attempt"], r["type"], r["message"]) for r in retrying] == [
        (1, "Flaky", "attempt 1"),
        (2, "Flaky", "attempt 2"),
    ]
    assert all("raise Flaky" in r["traceback"] for r in retrying)
    first, second = (e for e in events if e.kind == "step.retrying")
    assert first.at + 1_000 <= retrying[0]["retry_at"] + 1
    assert second.at >= retrying[0]["retry_at"], "an attempt never starts before its time"


async def failing(place: Place, app: hf.App, error: Exception, **options: Any) -> hf.StepFailed:
    """Run a step that always raises `error`; return what the body caught."""
    caught: list[hf.StepFailed] = []

    @app.step(**options)
    async def bad() -> None:
        raise error

    @app.workflow
    async def flow() -> int:
        try:
            await bad()
        except hf.StepFailed as failed:
            caught.append(failed)
        return 1

    async with place.open(app) as client:
        await within((await client.start(flow.bind())).result())
    return caught[0]


POLICIES: list[tuple[Exception, hf.Retry, int]] = [
    (Flaky(), QUICK, 4),
    (Flaky(), hf.Retry(max_attempts=1), 1),
    (Flaky(), hf.Retry(max_attempts=3, initial=0.001, retry_on=(Flaky,)), 3),
    (ValueError(), hf.Retry(max_attempts=3, initial=0.001, retry_on=(Flaky,)), 1),
    (Flaky(), hf.Retry(max_attempts=3, initial=0.001, give_up_on=(Flaky,)), 1),
    (ValueError(), hf.Retry(max_attempts=2, initial=0.001, give_up_on=(Flaky,)), 2),
    (hf.NonRetryable("stop"), QUICK, 1),
    (hf.RetryAfter(0.001), hf.Retry(max_attempts=2, initial=60), 2),
    (hf.RetryAfter(0), hf.Retry(max_attempts=2, initial=60, retry_on=()), 2),
]


@pytest.mark.parametrize(
    ("error", "retry", "attempts"), POLICIES, ids=[str(n) for n in range(len(POLICIES))]
)
async def test_the_policy_decides_how_often(
    place: Place, app: hf.App, error: Exception, retry: hf.Retry, attempts: int
) -> None:
    failed = await failing(place, app, error, retry=retry)
    assert failed.attempts == attempts
    assert failed.type == type(error).__name__


async def test_what_a_body_catches_says_everything(place: Place, app: hf.App) -> None:
    failed = await failing(place, app, Flaky("why"), retry=hf.Retry(max_attempts=1))
    assert (failed.step, failed.type, failed.message, failed.attempts) == (
        "bad#1", "Flaky", "why", 1,
    )  # fmt: skip
    assert "raise error" in failed.traceback
    assert "bad#1" in str(failed)
    assert "HF401" in str(failed)


async def test_back_off_goes_on_after_a_restart(place: Place, app: hf.App) -> None:
    numbers: list[int] = []
    keys: set[str] = set()

    @app.step(retry=hf.Retry(max_attempts=3, initial=1, factor=1, jitter=False))
    async def flaky() -> str:
        numbers.append(hf.attempt())
        keys.add(hf.idempotency_key())
        raise Flaky

    @app.workflow
    async def flow() -> int:
        try:
            await flaky()
        except hf.StepFailed as failed:
            return failed.attempts
        return 0

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await event_of(run, "step.retrying")
    assert numbers == [1]
    async with place.open(app) as client:
        assert await within(client.get(run.id).result()) == 3
    assert numbers == [1, 2, 3]
    assert keys == {f"default/{run.id}/1/flaky#1"}


async def test_a_long_back_off_parks_the_run_without_slot_or_machine(
    place: Place, app: hf.App
) -> None:
    @app.step(retry=hf.Retry(max_attempts=2, initial=60, jitter=False))
    async def flaky() -> None:
        raise Flaky("later")

    @app.step
    async def other() -> str:
        return "other"

    @app.workflow
    async def waits() -> None:
        await flaky()

    @app.workflow
    async def works() -> str:
        return await other()

    async with place.open(app, steps=1, runs=1, machines=0) as client:
        run = await client.start(waits.bind())
        row = await status_of(run, "waiting")
        assert "attempt 2 of flaky#1 after Flaky: later" in row.reason
        assert row.wake_at is not None
        assert row.wake_at - row.updated_at == 60_000_000
        assert worker_of(client).steps.running == 0
        assert await within((await client.start(works.bind())).result()) == "other"


async def test_an_error_that_no_store_keeps_is_tried_again_too(place: Place, app: hf.App) -> None:
    @app.step(retry=hf.Retry(initial=60, jitter=False))
    async def read() -> None:
        raise Flaky("no file caf\udce9")  # so Python reads a name that is no UTF-8

    @app.workflow
    async def flow() -> None:
        await read()

    async with place.open(app) as client:
        row = await status_of(await client.start(flow.bind()), "waiting")
        assert row.reason == "attempt 2 of read#1 after Flaky: no file caf\\udce9"


async def test_a_short_back_off_holds_no_slot(place: Place, app: hf.App) -> None:
    began = asyncio.Event()

    @app.step(retry=hf.Retry(max_attempts=2, initial=0.2, jitter=False))
    async def flaky() -> str:
        if hf.attempt() == 1:
            raise Flaky
        return "second"

    @app.step
    async def other() -> str:
        began.set()
        return "other"

    @app.workflow
    async def flow() -> list[str]:
        return list(await asyncio.gather(flaky(), other()))

    async with place.open(app, steps=1) as client:
        run = await client.start(flow.bind())
        await within(began.wait())
        assert "step.completed" not in (await kinds(run))[:2]
        assert await within(run.result()) == ["second", "other"]
        events = (await run.history()).events
        assert [e.key for e in events if e.kind == "step.completed"] == ["other#1", "flaky#1"]


async def test_jitter_is_between_half_and_all_of_the_delay(place: Place, app: hf.App) -> None:
    @app.step(retry=hf.Retry(max_attempts=2, initial=10))
    async def flaky() -> None:
        raise Flaky

    @app.workflow
    async def flow() -> None:
        await flaky()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        row = await status_of(run, "waiting")
        assert row.wake_at is not None
        assert 5_000_000 <= row.wake_at - row.updated_at <= 10_000_000


async def test_retry_after_sets_the_time(place: Place, app: hf.App) -> None:
    @app.step
    async def busy() -> None:
        raise hf.RetryAfter(timedelta(hours=1), "busy")

    @app.workflow
    async def flow() -> None:
        await busy()

    async with place.open(app) as client:
        row = await status_of(await client.start(flow.bind()), "waiting")
        assert row.wake_at is not None
        assert row.wake_at - row.updated_at == 3_600_000_000


class CardDeclined(Exception):
    def __init__(self, code: str, amount: int) -> None:
        self.code, self.amount = code, amount
        super().__init__(f"{code}: {amount}")


async def test_listed_exceptions_cross_as_themselves(place: Place, app: hf.App) -> None:
    caught: list[Exception] = []

    @app.step(raises=[CardDeclined, ValueError], retry=hf.Retry(max_attempts=1))
    async def charge(kind: str) -> None:
        if kind == "card":
            raise CardDeclined("51", 42)
        if kind == "value":
            raise ValueError("a", 1)
        raise KeyError(kind)

    @app.workflow
    async def flow() -> None:
        for kind in ("card", "value", "other"):
            try:
                await charge(kind)
            except (CardDeclined, ValueError, hf.StepFailed) as error:
                caught.append(error)

    async with place.open(app, paranoid=False) as client:
        await within((await client.start(flow.bind())).result())
    card, value, other = caught
    assert isinstance(card, CardDeclined)
    assert (card.code, card.amount, str(card)) == ("51", 42, "51: 42")
    assert isinstance(card.__cause__, hf.StepFailed)
    assert card.__cause__.type == "CardDeclined"
    assert isinstance(value, ValueError)
    assert value.args == ("a", 1)
    assert isinstance(other, hf.StepFailed)
    assert other.type == "KeyError"


async def test_a_step_the_body_gave_up_is_not_retried(place: Place, app: hf.App) -> None:
    calls: list[int] = []

    @app.step(retry=hf.Retry(max_attempts=5, initial=0.3, jitter=False))
    async def flaky() -> None:
        calls.append(hf.attempt())
        raise Flaky

    @app.step
    async def after() -> str:
        return "after"

    @app.workflow
    async def flow() -> str:
        try:
            async with asyncio.timeout(0.2):
                await flaky()
        except TimeoutError:
            await hf.sleep(0.2)
            return await after()
        return ""

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == "after"
    assert calls == [1]


async def test_attempts_of_many_steps_are_counted_apart(place: Place, app: hf.App) -> None:
    @app.step(retry=QUICK)
    async def flaky(fails: int) -> int:
        if hf.attempt() <= fails:
            raise Flaky
        return hf.attempt()

    @app.workflow
    async def flow() -> list[int]:
        return await asyncio.gather(*(flaky(n) for n in (0, 1, 2, 3)))

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.result()) == [1, 2, 3, 4]
        loaded = await history_when(run, lambda found: found.run.status == "completed")
    retried = [e.key for e in loaded.events if e.kind == "step.retrying"]
    assert sorted(retried) == ["flaky#2"] + ["flaky#3"] * 2 + ["flaky#4"] * 3
