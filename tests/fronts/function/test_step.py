"""Steps: what a call gives in a body and outside, and the settings it is attempted with."""

import asyncio
import inspect
from datetime import timedelta

import pytest

from holdfast.app import App
from holdfast.errors import BadDefinition, InvalidDuration
from holdfast.fronts.function.step import AsyncStep, SyncStep
from holdfast.machine import Machine
from holdfast.machine.values import Signature
from holdfast.model.asks import StepAsk
from holdfast.model.events import Event
from holdfast.model.options import StepOptions
from holdfast.model.retry import NO_RETRY, Retry


@pytest.fixture
def app() -> App:
    return App("shop")


def asked_by(body) -> StepAsk:
    """Return the one step that a body asks for when it begins."""
    machine = Machine(body, Signature.of(body), ns="default", run="r")
    machine.feed(Event("run.started", 1, payload=b"{}", seq=1))
    [ask] = machine.asks.values()
    machine.close()
    return ask


async def test_a_call_outside_a_body_is_a_plain_call(app) -> None:
    @app.step
    async def double(n: int) -> int:
        return n * 2

    assert await double(21) == 42


async def test_a_sync_step_gives_a_coroutine_too(app) -> None:
    @app.step
    def double(n: int) -> int:
        return n * 2

    called = double(n=21)
    assert inspect.iscoroutine(called)
    assert await called == 42


async def test_gather_and_create_task_take_calls_of_steps(app) -> None:
    @app.step
    def double(n: int) -> int:
        return n * 2

    task = asyncio.create_task(double(1))
    assert list(await asyncio.gather(task, double(2))) == [2, 4]


def test_a_call_in_a_body_asks_the_machine(app) -> None:
    @app.step(timeout=30)
    async def charge(order: str, *, currency: str) -> None: ...

    async def body() -> None:
        await charge("order-42", currency="EUR")

    ask = asked_by(body)
    assert (ask.step, ask.key) == (charge, "charge#1")
    assert ask.args == b'{"order":"order-42","currency":"EUR"}'
    assert ask.options == StepOptions(timeout=30_000_000)


def test_options_apply_to_one_call(app) -> None:
    @app.step(timeout=30, retry=NO_RETRY)
    async def charge(order: str) -> None: ...

    changed = charge.options(timeout=timedelta(seconds=5), total_timeout=60)

    async def with_others() -> None:
        await changed("order-42")

    async def as_defined() -> None:
        await charge("order-42")

    assert asked_by(with_others).options == StepOptions(NO_RETRY, 5_000_000, 60_000_000)
    assert asked_by(as_defined).options == StepOptions(NO_RETRY, 30_000_000)
    assert changed.name == charge.name
    assert app.steps["charge"] is charge


def test_options_take_a_limit_away_with_none(app) -> None:
    @app.step(timeout=30, total_timeout=60)
    def charge() -> None: ...

    assert charge.options(timeout=None).settings == StepOptions(total_timeout=60_000_000)
    assert charge.options(retry=NO_RETRY).settings == StepOptions(NO_RETRY, 30_000_000, 60_000_000)


def test_plain_is_the_bare_function(app) -> None:
    def double(n: int) -> int:
        return n * 2

    assert app.step(double).plain is double


def test_the_function_tells_which_step_it_becomes(app) -> None:
    async def fetch() -> None: ...
    def store() -> None: ...

    fetching, storing = app.step(fetch), app.step(store)
    assert (type(fetching), fetching.is_async) == (AsyncStep, True)
    assert (type(storing), storing.is_async) == (SyncStep, False)


def test_a_step_looks_like_its_function(app) -> None:
    @app.step(name="charge-card")
    async def charge(order: str) -> None:
        """Charge the card."""

    assert (charge.name, charge.__name__, charge.__doc__) == (
        "charge-card",
        "charge",
        "Charge the card.",
    )
    assert list(inspect.signature(charge).parameters) == ["order"]
    assert repr(charge) == "<step charge-card>"


def test_default_settings(app) -> None:
    @app.step
    def charge() -> None: ...

    assert charge.settings == StepOptions(Retry(max_attempts=5), None, None)


def test_a_number_is_no_retry(app) -> None:
    with pytest.raises(BadDefinition) as refused:
        app.step(retry=5)
    assert str(refused.value) == (
        "retry=5 is no Retry. Write retry=hf.Retry(max_attempts=...). [HF101]"
    )


@pytest.mark.parametrize("field", ["timeout", "total_timeout"])
def test_a_bad_duration_is_refused_by_name(app, field) -> None:
    def charge() -> None: ...

    message = f"{field}=-1 is no usable duration"
    with pytest.raises(InvalidDuration, match=message):
        app.step(**{field: -1})
    with pytest.raises(InvalidDuration, match=message):
        app.step(charge).options(**{field: -1})
