"""A run and its first message are one commit; a run that is there gets the message."""

import asyncio

import pytest

import holdfast as hf
from tests.engine.places import Place, kinds, status_of, within

number = hf.Signal("number", int)
add = hf.Update("add", int, int)


def summing(app: hf.App) -> hf.Workflow[[str], int]:
    @app.workflow
    async def flow(name: str) -> int:
        total = 0

        def put(n: int) -> int:
            nonlocal total
            total += n
            return total

        def check(n: int) -> None:
            if n < 0:
                raise ValueError("too small")

        hf.handle(add, put, validate=check)
        while (n := await hf.wait_for(number)) > 0:
            total += n
        return total

    return flow


async def test_a_signal_starts_the_run_or_reaches_it(place: Place, app: hf.App) -> None:
    flow = summing(app)
    async with place.open(app) as client:
        for n in (1, 2, 2, 0):
            signal = number.bind(n, id=f"s{n}")
            await client.signal_with_start(flow.bind("ada"), signal, id="r")
        run = client.get("r", flow)
        assert await within(run.result()) == 3
        assert (await kinds(run))[:2] == ["run.started", "signal.received"]
        with pytest.raises(hf.RunClosed):
            await client.signal_with_start(flow.bind("ada"), number.bind(5), id="r")
        again = await client.signal_with_start(flow.bind("ada"), number.bind(2, id="s2"), id="r")
        assert await again.result() == 3


async def test_an_update_starts_the_run_or_reaches_it(place: Place, app: hf.App) -> None:
    flow = summing(app)
    async with place.open(app) as client:
        first = add.bind(3, id="u1")
        assert await within(client.update_with_start(flow.bind("ada"), first, id="r")) == 3
        assert await within(client.update_with_start(flow.bind("ada"), first, id="r")) == 3
        second = add.bind(4, id="u2")
        handle = await within(
            client.update_with_start(flow.bind("ada"), second, id="r", wait="accepted")
        )
        assert await within(handle.result()) == 7
        with pytest.raises(hf.UpdateRejected, match="too small"):
            await within(client.update_with_start(flow.bind("ada"), add.bind(-1), id="r"))
        with pytest.raises(hf.MessageConflict):
            await client.update_with_start(flow.bind("ada"), add.bind(9, id="u1"), id="r")


async def test_a_refused_first_update_leaves_the_run_started(place: Place, app: hf.App) -> None:
    flow = summing(app)
    async with place.open(app) as client:
        with pytest.raises(hf.UpdateRejected):
            await within(client.update_with_start(flow.bind("ada"), add.bind(-1), id="r"))
        run = client.get("r", flow)
        await status_of(run, "waiting")
        assert await kinds(run) == ["run.started"]


async def test_a_run_of_other_work_gets_no_message(place: Place, app: hf.App) -> None:
    flow = summing(app)
    async with place.open(app, worker=False) as client:
        run = await client.start(flow.bind("ada"), id="r")
        with pytest.raises(hf.RunConflict, match="another input"):
            await client.signal_with_start(flow.bind("bob"), number.bind(1), id="r")
        assert (await run.history()).mail == ()


async def test_many_at_once_start_one_run_and_all_arrive(place: Place, app: hf.App) -> None:
    flow = summing(app)
    async with place.open(app) as client:
        numbers = range(1, 21)
        await within(
            asyncio.gather(
                *(
                    client.update_with_start(flow.bind("ada"), add.bind(n, id=f"u{n}"), id="r")
                    for n in numbers
                )
            )
        )
        run = await client.signal_with_start(flow.bind("ada"), number.bind(0), id="r")
        assert await within(run.result()) == sum(numbers)


async def test_what_is_no_bound_message_is_refused(place: Place, app: hf.App) -> None:
    flow = summing(app)
    async with place.open(app, worker=False) as client:
        with pytest.raises(hf.BadDefinition, match=r"approved\.bind\(value\)"):
            await client.signal_with_start(flow.bind("ada"), number, id="r")  # type: ignore[arg-type]
        with pytest.raises(hf.BadDefinition, match=r"add\.bind\(item\)"):
            await client.update_with_start(flow.bind("ada"), add, id="r")  # type: ignore[call-overload]
        with pytest.raises(hf.InvalidName, match="signal id"):
            await client.signal_with_start(flow.bind("ada"), number.bind(1, id=""), id="r")
        assert (await client.list()).runs == []
