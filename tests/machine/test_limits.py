"""What a body may not do too much of."""

import asyncio

from holdfast.machine.asking import MAX_ASKS
from holdfast.machine.machine import Machine
from holdfast.machine.values import Signature
from holdfast.model.events import Event
from tests.machine.driver import START, Step


async def work(i: int) -> int:
    return i


step = Step(work)


async def fan(n: int) -> int:
    return len(await asyncio.gather(*(step(i) for i in range(n))))


def fanned_out(n: int) -> Machine:
    signature = Signature.of(fan)
    machine = Machine(fan, signature, ns="default", run="r")
    machine.feed(Event("run.started", START, payload=signature.encode((n,), {}), seq=1))
    return machine


def test_a_body_may_wait_for_ten_thousand_steps_at_once() -> None:
    machine = fanned_out(MAX_ASKS)
    assert len(machine.asks) == MAX_ASKS
    assert machine.ended is None
    machine.close()


def test_one_step_more_fails_the_run_with_the_name_of_the_limit() -> None:
    machine = fanned_out(MAX_ASKS + 1)
    assert machine.ended is not None
    assert machine.ended.status == "failed"
    assert machine.ended.failure is not None
    assert machine.ended.failure.type == "TooManyAsks"
    assert machine.ended.failure.message.startswith(
        "Step work#10001 would be one more than the 10,000 steps a run may wait for at once."
    )
    machine.close()
