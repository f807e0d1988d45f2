"""Updates: judged before anything is recorded, carried out once, told after the commit."""

import asyncio
import logging
from typing import Any

import pytest
from pydantic import BaseModel

import holdfast as hf
from tests.engine.places import Place, event_of, kinds, status_of, until, within


class Cart(BaseModel):
    items: list[str] = []


add = hf.Update("add", str, Cart)
count = hf.Update("count", int)
done = hf.Signal("done", bool)


def check(name: str) -> None:
    if not name:
        raise ValueError("an item has a name")


def shopping(app: hf.App) -> hf.Workflow[[], list[str]]:
    @app.step
    async def reserve(name: str) -> str:
        if name == "bomb":
            raise hf.NonRetryable("not for sale")
        return name.upper()

    @app.workflow
    async def cart() -> list[str]:
        items: list[str] = []

        async def put(name: str) -> Cart:
            items.append(await reserve(name))
            return Cart(items=items)

        hf.handle(add, put, validate=check)
        hf.handle(count, lambda: len(items))
        await hf.wait_for(done)
        await hf.handlers_finished()
        return items

    return cart


async def test_an_update_is_carried_out_and_its_result_returned(place: Place, app: hf.App) -> None:
    async with place.open(app) as client:
        run = await client.start(shopping(app).bind())
        assert await within(run.update(add, "lamp", id="u1")) == Cart(items=["LAMP"])
        assert await within(run.update(count)) == 1
        await run.signal(done, True)
        assert await within(run.result()) == ["LAMP"]
        assert await kinds(run) == [
            "run.started",
            "update.accepted",
            "step.completed",
            "update.completed",
            "update.accepted",
            "update.completed",
            "signal.received",
            "run.completed",
        ]
        events = (await run.history()).events
        assert [event.key for event in events[1:4]] == [
            "add/u1",
            "update.add[1]/reserve#1",
            "add/u1",
        ]


async def test_a_refused_update_leaves_the_history_alone(place: Place, app: hf.App) -> None:
    async with place.open(app) as client:
        run = await client.start(shopping(app).bind())
        await status_of(run, "waiting")
        with pytest.raises(hf.UpdateRejected, match="ValueError: an item has a name") as refused:
            await within(run.update(add, "", id="u1"))
        assert (refused.value.type, refused.value.message) == ("ValueError", "an item has a name")
        assert await kinds(run) == ["run.started"]
        with pytest.raises(hf.UpdateRejected):
            await within(run.update(add, "", id="u1"))
        assert await within(run.update(add, "lamp", id="u2")) == Cart(items=["LAMP"])


async def test_an_argument_of_another_type_is_refused(place: Place, app: hf.App) -> None:
    async with place.open(app) as client:
        run = await client.start(shopping(app).bind())
        with pytest.raises(hf.UpdateRejected, match="update add"):
            await within(run.update("add", 7))
        assert await kinds(run) == ["run.started"]


async def test_a_failing_handler_tells_its_caller_and_the_run_goes_on(
    place: Place, app: hf.App
) -> None:
    async with place.open(app) as client:
        run = await client.start(shopping(app).bind())
        with pytest.raises(hf.UpdateFailed, match="not for sale") as failed:
            await within(run.update(add, "bomb", id="u1"))
        assert failed.value.type == "StepFailed"
        assert "reserve" in failed.value.traceback
        assert await within(run.update(add, "lamp")) == Cart(items=["LAMP"])


async def test_the_same_id_gets_the_same_reply(place: Place, app: hf.App) -> None:
    flow = shopping(app)
    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        both = await within(
            asyncio.gather(run.update(add, "lamp", id="u1"), run.update(add, "lamp", id="u1"))
        )
        assert both == [Cart(items=["LAMP"])] * 2
    async with place.open(app) as client:
        again = client.get("r", flow)
        assert await within(again.update(add, "lamp", id="u1")) == Cart(items=["LAMP"])
        await again.signal(done, True)
        assert await within(again.result()) == ["LAMP"]
        assert await within(again.update(add, "lamp", id="u1")) == Cart(items=["LAMP"])


async def test_an_id_of_another_message_is_a_conflict(place: Place, app: hf.App) -> None:
    async with place.open(app) as client:
        run = await client.start(shopping(app).bind())
        await within(run.update(add, "lamp", id="u1"))
        with pytest.raises(hf.MessageConflict, match="another value"):
            await run.update(add, "desk", id="u1")
        with pytest.raises(hf.MessageConflict, match=r"another name \(update add\)"):
            await run.update(count, id="u1")
        await run.signal("other", 1, id="s1")
        with pytest.raises(hf.MessageConflict, match=r"another name \(signal other\)"):
            await within(run.update(count, id="s1"))


async def test_an_accepted_update_can_be_waited_for_later(place: Place, app: hf.App) -> None:
    over = asyncio.Event()

    @app.step
    async def slow() -> int:
        await over.wait()
        return 7

    @app.workflow
    async def flow() -> None:
        hf.handle(count, slow)
        await hf.wait_for(done)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        handle = await within(run.update(count, id="u1", wait="accepted"))
        assert (handle.id, handle.run) == ("u1", run.id)
        assert "update.completed" not in await kinds(run)
        over.set()
        assert await within(handle.result()) == 7


async def test_updates_run_side_by_side_and_start_in_order(place: Place, app: hf.App) -> None:
    started: list[int] = []
    over = asyncio.Event()
    work = hf.Update("work", int, int)

    @app.step
    async def slow(n: int) -> int:
        started.append(n)
        await over.wait()
        return n

    @app.workflow
    async def flow() -> list[int]:
        order: list[int] = []

        async def handler(n: int) -> int:
            order.append(n)
            return await slow(n)

        hf.handle(work, handler)
        await hf.wait_for(done)
        await hf.handlers_finished()
        return order

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        waiting = [await within(run.update(work, n, wait="accepted")) for n in range(5)]
        await until(lambda: len(started) == 5)
        await run.signal(done, True)
        over.set()
        assert [await within(each.result()) for each in waiting] == [0, 1, 2, 3, 4]
        assert await within(run.result()) == [0, 1, 2, 3, 4]


async def test_an_update_wakes_a_run_that_nobody_holds(place: Place, app: hf.App) -> None:
    flow = shopping(app)
    async with place.open(app) as client:
        await status_of(await client.start(flow.bind(), id="r"), "waiting")
    async with place.open(app, worker=False) as client:
        run = client.get("r")
        asking = asyncio.ensure_future(run.update(add, "lamp", id="u1"))
        await until(lambda: has_mail(run))
        assert not asking.done()
        async with place.open(app):
            assert await within(asking) == Cart(items=["LAMP"])


async def has_mail(run: hf.RunHandle[Any]) -> bool:
    return (await run.describe()).has_mail


async def test_an_update_waits_until_there_is_a_handler(place: Place, app: hf.App) -> None:
    @app.workflow
    async def late() -> int:
        await hf.wait_for(done)
        hf.handle(count, lambda: 7)
        await hf.wait_for(done)
        return 1

    async with place.open(app) as client:
        run = await client.start(late.bind(), id="r")
        await status_of(run, "waiting")
        asking = asyncio.ensure_future(run.update(count, id="u1"))
        await until(lambda: is_told(run, "signal done; a handler for update count"))
        assert [message.id for message in (await run.history()).mail] == ["u1"]
        assert await kinds(run) == ["run.started"]
        asking.cancel()
    async with place.open(app) as client:  # another process takes it over
        run = client.get("r", late)
        await run.signal(done, True)
        assert await within(run.update(count, id="u1")) == 7
        await run.signal(done, True)
        assert await within(run.result()) == 1


async def is_told(run: hf.RunHandle[Any], reason: str) -> bool:
    return (await run.describe()).reason == reason


async def test_a_run_that_ends_first_says_so(place: Place, app: hf.App) -> None:
    over = asyncio.Event()

    @app.step
    async def slow() -> int:
        await over.wait()
        return 7

    @app.workflow
    async def flow() -> int:
        hf.handle(count, slow)
        await hf.wait_for(done)
        return 1

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        accepted = await within(run.update(count, id="u1", wait="accepted"))
        never = asyncio.ensure_future(run.update("nobody handles it", id="u2"))
        await until(lambda: has_messages(run, 2))
        await run.signal(done, True)
        assert await within(run.result()) == 1
        with pytest.raises(hf.UpdateUnfinished, match="was accepted and not done"):
            await within(accepted.result())
        with pytest.raises(hf.UpdateUnfinished, match="was not accepted"):
            await within(never)
        with pytest.raises(hf.RunClosed):
            await run.update(count)
        over.set()


async def has_messages(run: hf.RunHandle[Any], number: int) -> bool:
    return (await run.describe()).inbox_seq == number


async def test_handlers_left_at_the_end_are_named(
    place: Place, app: hf.App, caplog: pytest.LogCaptureFixture
) -> None:
    @app.workflow
    async def flow() -> int:
        hf.handle(count, forever)
        await hf.wait_for(done)
        return 1

    async def forever() -> int:
        await asyncio.Event().wait()
        return 0

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await within(run.update(count, wait="accepted"))
        await run.signal(done, True)
        with caplog.at_level(logging.WARNING, "holdfast.worker"):
            assert await within(run.result()) == 1
            await until(lambda: "task update.count[1] was unfinished" in caplog.text)


async def test_a_cancel_reaches_the_body_and_not_the_handler(place: Place, app: hf.App) -> None:
    over = asyncio.Event()

    @app.step
    async def slow() -> int:
        await over.wait()
        return 7

    @app.workflow
    async def flow() -> None:
        hf.handle(count, slow)
        try:
            await hf.wait_for(done)
        finally:
            await hf.handlers_finished()

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        accepted = await within(run.update(count, wait="accepted"))
        await run.cancel()
        await event_of(run, "cancel.requested")
        over.set()
        assert await within(accepted.result()) == 7
        with pytest.raises(hf.RunCancelled):
            await within(run.result())


async def test_a_validator_that_asks_for_something_refuses(place: Place, app: hf.App) -> None:
    ran: list[str] = []

    @app.step
    async def effect() -> None:
        ran.append("effect")

    def meddle(name: str) -> None:
        _ = effect()

    @app.workflow
    async def flow() -> str:
        hf.handle(add, lambda name: Cart(items=[name]), validate=meddle)
        await hf.wait_for(done)
        return str(hf.uuid())

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.UpdateRejected, match="validator of update add asked for something"):
            await within(run.update(add, "lamp"))
        await run.signal(done, True)
        assert await within(run.result())
        assert ran == []


async def test_a_validator_that_wakes_the_body_blocks_the_run(place: Place, app: hf.App) -> None:
    is_mended: list[bool] = []

    @app.workflow
    async def flow() -> str:
        woken = asyncio.Event()

        def meddle(name: str) -> None:
            if not is_mended:
                woken.set()

        hf.handle(add, lambda name: Cart(items=[name]), validate=meddle)
        waiting = asyncio.ensure_future(woken.wait())
        await hf.wait_for(done)
        waiting.cancel()
        return "done"

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await status_of(run, "waiting")
        asking = asyncio.ensure_future(run.update(add, "lamp"))
        row = await status_of(run, "blocked")
        assert row.reason.startswith("guard: The validator of update 'add' woke or cancelled")
        is_mended.append(True)
        await run.retry()
        assert await within(asking) == Cart(items=["lamp"])


async def test_updates_that_come_while_a_run_is_paused_wait(place: Place, app: hf.App) -> None:
    async with place.open(app) as client:
        run = await client.start(shopping(app).bind())
        await run.pause()
        await status_of(run, "paused")
        asking = asyncio.ensure_future(run.update(add, "lamp"))
        await until(lambda: has_mail(run))
        await run.resume()
        assert await within(asking) == Cart(items=["LAMP"])


async def test_a_retried_run_carries_on_with_its_updates(place: Place, app: hf.App) -> None:
    is_mended: list[bool] = []

    @app.step(retry=hf.Retry(max_attempts=1))
    async def fragile() -> int:
        if not is_mended:
            raise ValueError("not yet")
        return 1

    @app.step
    async def work(name: str) -> str:
        return name

    @app.workflow
    async def flow() -> list[str]:
        items: list[str] = []

        async def put(name: str) -> Cart:
            items.append(await work(name))
            return Cart(items=items)

        hf.handle(add, put)
        await hf.wait_for(done)
        await fragile()
        return items

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.update(add, "lamp", id="u1")) == Cart(items=["lamp"])
        await run.signal(done, True)
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        is_mended.append(True)
        await run.retry()
        assert await within(run.result()) == ["lamp"]
        assert await within(run.update(add, "lamp", id="u1")) == Cart(items=["lamp"])


async def test_an_update_accepted_after_a_failure_that_is_retried_waits_for_its_handler(
    place: Place, app: hf.App
) -> None:
    is_mended: list[bool] = []

    @app.step(retry=hf.Retry(max_attempts=1))
    async def fragile() -> int:
        if not is_mended:
            raise ValueError("not yet")
        return 1

    @app.workflow
    async def flow() -> int:
        try:
            await fragile()
        except hf.StepFailed:
            hf.handle(count, lambda: 7)
            await hf.wait_for(done)
            raise
        hf.handle(count, lambda: 8)
        await hf.wait_for(done)
        return 1

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        assert await within(run.update(count, id="u1")) == 7
        await run.signal(done, True)
        with pytest.raises(hf.RunFailed):
            await within(run.result())
        is_mended.append(True)
        await run.retry()
        await within(run.result())
        assert await within(run.update(count, id="u1")) == 8, "what the run says now"


async def test_handlers_that_wait_for_all_handlers_fail(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        async def handler() -> int:
            await hf.handlers_finished()
            return 1

        hf.handle(count, handler)
        await hf.wait_for(done)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.UpdateFailed, match="itself among them"):
            await within(run.update(count))


async def test_a_result_that_cannot_be_stored_fails_the_update(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> None:
        hf.handle(count, lambda: "seven")  # type: ignore[arg-type]
        await hf.wait_for(done)

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.UpdateFailed, match="result of update count"):
            await within(run.update(count))


async def test_a_body_may_wait_for_what_only_an_update_brings(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow() -> str:
        got: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def take(name: str) -> Cart:
            got.set_result(name)
            return Cart()

        hf.handle(add, take)
        return await got

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        row = await status_of(run, "waiting")
        assert row.reason == "update add"
        await within(run.update(add, "lamp"))
        assert await within(run.result()) == "lamp"


async def test_a_rerun_offers_the_updates_after_the_cut_again(place: Place, app: hf.App) -> None:
    ran: list[str] = []

    @app.step
    async def first() -> int:
        return 1

    @app.step
    async def reserve(name: str) -> str:
        ran.append(name)
        return f"{name} {len(ran)}"

    @app.workflow
    async def flow() -> list[str]:
        items: list[str] = []

        async def take(name: str) -> Cart:
            items.append(await reserve(name))
            return Cart(items=items)

        hf.handle(add, take, validate=check)
        await first()
        await hf.wait_for(done)
        await hf.handlers_finished()
        return items

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        await event_of(run, "step.completed")
        assert await within(run.update(add, "lamp", id="u1")) == Cart(items=["lamp 1"])
        with pytest.raises(hf.UpdateRejected):
            await within(run.update(add, "", id="u2"))
        await run.signal(done, True)
        assert await within(run.result()) == ["lamp 1"]
        await run.rerun("first#1")
        assert await within(run.result()) == ["lamp 2"]
        assert await within(run.update(add, "lamp", id="u1")) == Cart(items=["lamp 2"])
        with pytest.raises(hf.UpdateRejected):
            await within(run.update(add, "", id="u2"))


async def test_updates_go_over_to_the_next_generation(place: Place, app: hf.App) -> None:
    @app.workflow
    async def flow(turn: int = 1) -> int:
        if turn == 2:
            hf.handle(count, lambda: 7)
        await hf.wait_for(done)
        if turn == 1:
            return hf.continue_as_new(flow.bind(2))
        return turn

    async with place.open(app) as client:
        run = await client.start(flow.bind(), id="r")
        asking = asyncio.ensure_future(run.update(count, id="u1"))
        await until(lambda: is_told(run, "signal done; a handler for update count"))
        await run.signal(done, True)
        assert await within(asking) == 7
        assert await within(run.update(count, id="u1")) == 7
    async with place.open(app) as client:
        again = client.get("r", flow)
        assert await within(again.update(count, id="u1")) == 7, "its reply is kept"
        await again.signal(done, True)
        assert await within(again.result()) == 2


async def test_an_update_cut_short_by_a_continuation_fails(place: Place, app: hf.App) -> None:
    async def forever() -> int:
        await asyncio.Event().wait()
        return 0

    @app.workflow
    async def flow(turn: int = 1) -> int:
        hf.handle(count, forever)
        await hf.wait_for(done)
        if turn == 1:
            return hf.continue_as_new(flow.bind(2))
        return turn

    async with place.open(app) as client:
        run = await client.start(flow.bind())
        accepted = await within(run.update(count, wait="accepted"))
        await run.signal(done, True)
        with pytest.raises(hf.UpdateFailed, match="continued as new before its handler was done"):
            await within(accepted.result())
        await run.signal(done, True)
        assert await within(run.result()) == 2
