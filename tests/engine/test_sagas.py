"""Sagas on every store: undone after a failure and a cancel, owed if that fails, retried."""

import asyncio
import contextlib
from typing import Any

import pytest

import holdfast as hf
from tests.engine.places import Place, history_when, kinds, status_of, until, within, worker_of

go = hf.Signal("go", bool)
ONCE = hf.Retry(max_attempts=1)


class Shop:
    """A shop whose effects are counted and whose parts can be broken."""

    def __init__(self, app: hf.App) -> None:
        self.done: list[str] = []
        self.broken: set[str] = set()
        self.began, self.release = asyncio.Event(), asyncio.Event()
        self.release.set()

        @app.step(retry=ONCE)
        async def charge(order: str) -> str:
            return self.act("charge", f"receipt of {order}")

        @app.step(retry=ONCE)
        async def reserve(order: str) -> int:
            return len(self.act("reserve", order))

        @app.step(retry=ONCE)
        async def ship(order: str) -> str:
            return self.act("ship", f"{order} shipped")

        @app.step(retry=ONCE)
        async def refund(receipt: str | None) -> None:
            self.began.set()
            await self.release.wait()
            self.act("refund", receipt or "unknown")

        @app.step(retry=ONCE)
        async def free(shelf: int | None) -> None:
            self.act("free", str(shelf))

        @app.workflow
        async def checkout(order: str, waits: bool = False) -> str:
            async with hf.saga() as saga:
                await saga.do(charge(order), undo=refund)
                await saga.do(reserve(order), undo=free)
                if waits:
                    await hf.wait_for(go)
                return await ship(order)

        self.checkout = checkout

    def act(self, what: str, told: str) -> str:
        self.done.append(f"{what}: {told}")
        if what in self.broken:
            raise ConnectionError(f"{what} is broken")
        return told


@pytest.fixture
def shop(app: hf.App) -> Shop:
    return Shop(app)


async def test_what_was_done_is_undone_after_a_failure(
    place: Place, app: hf.App, shop: Shop
) -> None:
    shop.broken = {"ship"}
    async with place.open(app) as client:
        run = await client.start(shop.checkout.bind("lamp"))
        with pytest.raises(hf.RunFailed, match="ship is broken") as caught:
            await within(run.result())
        assert type(caught.value) is hf.RunFailed
        keys = [event.key for event in (await run.history()).events if event.key]
        assert keys == ["charge#1", "reserve#1", "ship#1", "undo(reserve#1)/free#1",
                        "undo(charge#1)/refund#1"]  # fmt: skip
    assert shop.done[-2:] == ["free: 4", "refund: receipt of lamp"]


async def test_what_was_done_is_undone_after_a_cancel(
    place: Place, app: hf.App, shop: Shop
) -> None:
    async with place.open(app) as client:
        run = await client.start(shop.checkout.bind("lamp", waits=True))
        await status_of(run, "waiting")
        await run.cancel()
        with pytest.raises(hf.RunCancelled):
            await within(run.result())
    assert shop.done[-2:] == ["free: 4", "refund: receipt of lamp"]


async def test_the_grace_time_does_not_cut_an_undo_short(
    place: Place, app: hf.App, shop: Shop
) -> None:
    shop.release.clear()
    async with place.open(app, cancel_grace=0.01) as client:
        run = await client.start(shop.checkout.bind("lamp", waits=True))
        await status_of(run, "waiting")
        await run.cancel()
        await within(shop.began.wait())
        held = worker_of(client).sessions[run.id]
        grace = (held.cancelled_at or 0) + 10_000
        await until(lambda: client.engine.store.now() > grace)
        await run.signal(go, True)  # has it take a turn
        await history_when(run, lambda loaded: not loaded.mail)
        assert (await run.describe()).status == "running"
        shop.release.set()
        with pytest.raises(hf.RunCancelled):
            await within(run.result())
    assert shop.done[-1] == "refund: receipt of lamp"


async def test_a_body_that_stays_in_its_saga_owes_its_undos(
    place: Place, app: hf.App, shop: Shop
) -> None:
    @app.step
    async def book() -> int:
        return 1

    @app.workflow
    async def stubborn() -> None:
        async with hf.saga() as saga:
            await saga.do(book(), undo=lambda _: hf.sleep(0.001))
            try:
                await hf.wait_for(go)
            finally:
                await hf.wait_for(go)

    async with place.open(app, cancel_grace=0.01) as client:
        run = await client.start(stubborn.bind())
        await status_of(run, "waiting")
        await run.cancel()
        with pytest.raises(hf.RunCompensationFailed, match=r", after cancelled\.") as caught:
            await within(run.result())
        assert [(each.key, each.type) for each in caught.value.owed] == [("book#1", "NotBegun")]
    async with place.open(app, cancel_grace=30) as client:
        run = client.get(run.id, stubborn)
        await run.retry()
        await run.signal(go, True)
        with pytest.raises(hf.RunCancelled):
            await within(run.result())


async def test_a_deadline_has_it_undone_and_times_out(
    place: Place, app: hf.App, shop: Shop
) -> None:
    async with place.open(app, cancel_grace=0.01) as client:
        run = await client.start(shop.checkout.bind("lamp", waits=True), timeout=1.5)
        with pytest.raises(hf.RunTimedOut):
            await within(run.result())
    assert shop.done[-2:] == ["free: 4", "refund: receipt of lamp"]


async def test_terminate_undoes_nothing(place: Place, app: hf.App, shop: Shop) -> None:
    async with place.open(app) as client:
        run = await client.start(shop.checkout.bind("lamp", waits=True))
        await status_of(run, "waiting")
        await run.terminate()
        with pytest.raises(hf.RunTerminated):
            await within(run.result())
    assert shop.done[-1] == "reserve: lamp"


async def test_an_undo_that_fails_for_good_is_owed_until_a_retry(
    place: Place, app: hf.App, shop: Shop
) -> None:
    shop.broken = {"ship", "free"}
    async with place.open(app) as client:
        run = await client.start(shop.checkout.bind("lamp"))
        with pytest.raises(hf.RunCompensationFailed, match="free of reserve#1") as caught:
            await within(run.result())
        assert caught.value.owed == (("reserve#1", "free", "ConnectionError", "free is broken"),)
        assert caught.value.details["original"]["type"] == "StepFailed"
        row = await run.describe()
        assert row.status == "compensation_failed"
        assert row.reason.startswith("CompensationFailed: still owed: free of reserve#1 (Conn")
        await run.retry()
        await history_when(run, lambda loaded: loaded.run.generation == 2)
        with pytest.raises(hf.RunCompensationFailed):
            await within(run.result())
    shop.broken = {"ship"}
    shop.done.clear()
    async with place.open(app, worker=False) as client:
        await client.get(run.id).retry("mended")
    async with place.open(app) as client:
        run = client.get(run.id, shop.checkout)
        with pytest.raises(hf.RunFailed, match="ship is broken") as ended:
            await within(run.result())
        assert type(ended.value) is hf.RunFailed
        assert (await kinds(run))[-3:] == ["run.reopened", "step.completed", "run.failed"]
    assert shop.done == ["free: 4"]


@pytest.mark.parametrize("ends", ["cancelled", "timed_out"])
async def test_a_retry_of_the_undos_keeps_what_led_to_them(
    ends: str, place: Place, app: hf.App, shop: Shop
) -> None:
    shop.broken = {"free"}
    async with place.open(app) as client:
        timeout = 0.2 if ends == "timed_out" else None
        run = await client.start(shop.checkout.bind("lamp", waits=True), timeout=timeout)
        if ends == "cancelled":
            await status_of(run, "waiting")
            await run.cancel()
        with pytest.raises(hf.RunCompensationFailed, match=ends.replace("_", " ")) as caught:
            await within(run.result())
        assert caught.value.details["original"] == {"status": ends}
        shop.broken.clear()
        shop.done.clear()
        await run.retry()
        with contextlib.suppress(hf.RunFailed):
            await within(run.result())
        assert (await run.describe()).status == ends
    assert shop.done == ["free: 4"]


async def test_a_retry_of_a_failed_run_does_again_what_was_undone(
    place: Place, app: hf.App, shop: Shop
) -> None:
    """Else an order would be shipped whose payment was given back."""
    shop.broken = {"ship"}
    async with place.open(app) as client:
        run = await client.start(shop.checkout.bind("lamp"))
        await status_of(run, "failed")
        shop.broken.clear()
        shop.done.clear()
        await run.retry()
        assert await within(run.result()) == "lamp shipped"
    assert shop.done == ["charge: receipt of lamp", "reserve: lamp", "ship: lamp shipped"]


async def test_a_retry_of_a_run_that_timed_out_does_again_what_was_undone(
    place: Place, app: hf.App, shop: Shop
) -> None:
    async with place.open(app) as client:
        run = await client.start(shop.checkout.bind("lamp", waits=True), timeout=1.5)
        await status_of(run, "timed_out")
        assert shop.done[-2:] == ["free: 4", "refund: receipt of lamp"]
        shop.done.clear()
        await run.retry()
        await run.signal(go, True)
        assert await within(run.result()) == "lamp shipped"
    assert shop.done == ["charge: receipt of lamp", "reserve: lamp", "ship: lamp shipped"]


async def test_a_retry_keeps_a_saga_that_was_undone_before_the_failure(
    place: Place, app: hf.App, shop: Shop
) -> None:
    @app.workflow
    async def careful() -> str:
        with contextlib.suppress(hf.StepFailed):
            return await shop.checkout.plain("lamp")
        return await app.steps["tell"]("sorry")

    @app.step(retry=ONCE)
    async def tell(what: str) -> str:
        return shop.act("tell", what)

    shop.broken = {"ship", "tell"}
    async with place.open(app) as client:
        run = await client.start(careful.bind())
        await status_of(run, "failed")
        shop.broken.clear()
        shop.done.clear()
        await run.retry()
        assert await within(run.result()) == "sorry"
    assert shop.done == ["tell: sorry"]


async def test_an_undo_is_tried_again_by_its_own_policy_across_a_restart(
    place: Place, app: hf.App
) -> None:
    tries: list[int] = []

    @app.step
    async def book() -> str:
        return "booking"

    @app.step(retry=hf.Retry(max_attempts=3, initial=0.2, jitter=False))
    async def free(booking: str | None) -> None:
        tries.append(hf.attempt())
        if hf.attempt() < 3:
            raise ConnectionError("away")

    @app.workflow
    async def flow() -> None:
        async with hf.saga() as saga:
            await saga.do(book(), undo=free)
            raise ValueError("no more")

    async with place.open(app, keep=0) as client:
        run = await client.start(flow.bind())
        await until(lambda: len(tries) == 1)
    async with place.open(app) as client:
        with pytest.raises(hf.RunFailed, match="ValueError: no more"):
            await within(client.get(run.id).result())
    assert tries == [1, 2, 3]


async def test_eviction_undoes_nothing(place: Place, app: hf.App, shop: Shop) -> None:
    async with place.open(app, machines=1, keep=0, paranoid=False) as client:
        runs: list[hf.RunHandle[Any]] = []
        for n in range(5):
            runs.append(await client.start(shop.checkout.bind(f"lamp {n}", waits=True)))
            await status_of(runs[-1], "waiting")
        assert not [each for each in shop.done if each.startswith(("refund", "free"))]
        for run in runs:
            await run.signal(go, True)
            await within(run.result())
    assert not [each for each in shop.done if each.startswith(("refund", "free"))]
