"""Steps and workflows as the machine sees them: asked for, answered, failed, closed."""

import pytest

from holdfast.app import App
from holdfast.errors import StepFailed
from holdfast.fronts.function.workflow import Bound
from holdfast.machine import Machine
from holdfast.model.asks import Ended, StepAsk
from holdfast.model.events import Event
from holdfast.model.failures import encode_failure
from holdfast.model.options import StepOptions


class CardDeclined(Exception):
    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(f"declined: {code}")


app = App("shop")


@app.step(timeout=30, raises=[CardDeclined])
async def charge(order: str, copies: int = 1) -> int:
    return len(order) * copies


@app.workflow
async def checkout(order: str) -> str:
    try:
        return f"paid {await charge.options(timeout=5)(order, copies=2)}"
    except CardDeclined as declined:
        return f"{declined.code} of {declined.__cause__}"
    except StepFailed as failed:
        return f"{failed.type}: {failed.message}"


@app.workflow
async def nested(order: str) -> str:
    return await checkout(order)


class Running:
    """A machine, and the events it was fed."""

    def __init__(self, bound: Bound[str]) -> None:
        workflow = bound.workflow
        self.machine = Machine(workflow.function, workflow.signature, ns="default", run="r")
        self.machine.feed(Event("run.started", 1, payload=bound.input, seq=1))

    def answer(self, kind, payload: bytes) -> Ended:
        ask = self.ask
        answer = Event(kind, 2, key=ask.key, payload=payload, digest=ask.digest, seq=2)
        self.machine.feed(answer._replace(asked_seq=ask.asked_seq))
        return self.ended

    @property
    def ended(self) -> Ended:
        assert self.machine.ended is not None
        return self.machine.ended

    @property
    def ask(self) -> StepAsk:
        return next(iter(self.machine.asks.values()))


@pytest.fixture
def running():
    made = Running(checkout.bind("order"))
    yield made
    made.machine.close()


def result_of(ended: Ended) -> object:
    assert ended.payload is not None, ended
    return checkout.signature.result.decode(ended.payload, where="result")


def test_a_call_is_asked_for_with_its_arguments_and_options(running) -> None:
    ask = running.ask
    assert (ask.key, ask.step.name) == ("charge#1", "charge")
    assert charge.signature.decode(ask.args) == (("order", 2), {})
    assert ask.options == StepOptions(timeout=5_000_000)


def test_a_result_reaches_the_body(running) -> None:
    assert result_of(running.answer("step.completed", b"10")) == "paid 10"


def test_a_listed_exception_reaches_the_body_as_itself(running) -> None:
    failure = encode_failure(charge.describe(CardDeclined("51"), attempts=3))
    told = str(result_of(running.answer("step.failed", failure)))
    assert told.startswith(
        "51 of Step charge#1 failed after 3 attempts: CardDeclined: declined: 51"
    )
    assert told.endswith("[HF401]")


def test_any_other_exception_reaches_the_body_as_step_failed(running) -> None:
    failure = encode_failure(charge.describe(ValueError("no card"), attempts=5))
    assert result_of(running.answer("step.failed", failure)) == "ValueError: no card"


def test_a_workflow_called_in_a_body_is_asked_for_as_a_child() -> None:
    running = Running(nested.bind("order"))
    assert running.machine.ended is None
    assert "checkout#1" in str(running.machine.fingerprint())
    running.machine.close()
