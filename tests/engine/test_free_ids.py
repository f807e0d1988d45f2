"""The id of a run that was forgotten is free: another run may have it."""

import pytest

import holdfast as hf
from tests.engine.places import Place, status_of, until, within, worker_of

go = hf.Signal("go", int)
what = hf.Query("what", str)


@pytest.mark.parametrize("kind", ["buy", "rent"])
async def test_a_run_is_not_taken_for_the_former_one_of_its_id(
    place: Place, app: hf.App, kind: str
) -> None:
    """As long, under the same epoch, perhaps of the same workflow: only its beginning differs."""

    @app.step
    async def price(item: str) -> str:
        return f"price of {item}"

    @app.workflow
    async def buy(item: str) -> str:
        hf.handle(what, lambda: f"buy {item}")
        return f"{await price(item)}, bought {await hf.wait_for(go)}"

    @app.workflow
    async def rent(item: str) -> str:
        hf.handle(what, lambda: f"rent {item}")
        return f"{await price(item)}, rented {await hf.wait_for(go)}"

    async with place.open(app) as client:
        former = await client.start(buy.bind("lamp"), id="cart")
        await until(lambda: "cart" in worker_of(client).hands.parked)
        row = await status_of(former, "waiting")
        await former.terminate()
        await until(lambda: is_forgotten(client))
        async with place.open(app) as other:
            run = await other.start({"buy": buy, "rent": rent}[kind].bind("sofa"), id="cart")
            await until(lambda: "cart" in worker_of(other).hands.parked)
            again = await status_of(run, "waiting")
            assert (again.seq, again.epoch) == (row.seq, row.epoch), "or it would be read anyway"
        run = client.get("cart")
        assert await within(run.query(what)) == f"{kind} sofa"
        await run.signal(go, 7)
        done = {"buy": "bought", "rent": "rented"}[kind]
        assert await within(run.result()) == f"price of sofa, {done} 7"


async def is_forgotten(client: hf.Client) -> bool:
    return await client.prune(older_than=0) == 1


async def test_what_is_remembered_of_the_former_one_is_not_told(place: Place, app: hf.App) -> None:
    """Whoever asks for a result right after the end is told what was heard, without a read."""

    @app.workflow
    async def flow(item: str) -> str:
        return item

    async with place.open(app) as client, place.open(app, worker=False) as elsewhere:
        for item in ("lamp", "sofa", "desk"):
            run = await client.start(flow.bind(item), id="cart")
            assert await within(run.result()) == item
            await until(lambda: worker_of(client).held("cart") is None)
            await until(lambda: is_forgotten(elsewhere))
