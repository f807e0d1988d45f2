"""A change of a workflow that has open runs: they end as they began, new ones take it up.

Run it: python examples/change.py
"""

import asyncio
from contextlib import suppress

import holdfast as hf

former = hf.App("shop")  # the code that ran until today
app = hf.App("shop")  # the code that is deployed now
paid = hf.Signal("paid", int)


@app.step
async def check(item: str) -> str:
    return f"{item} is in stock"


@app.step
async def reserve(item: str) -> str:
    return f"{item} was reserved"


@app.step
async def ship(item: str) -> str:
    return f"{item} is on its way"


@former.workflow(name="order")
async def order_before(item: str) -> list[str]:
    done = [await check(item)]
    await hf.wait_for(paid)
    return [*done, await ship(item)]


@app.workflow
async def order(item: str) -> list[str]:
    done = [await check(item)]
    if hf.patched("reserve"):  # noted in the history of a run that is new here; others skip it
        done.append(await reserve(item))
    await hf.wait_for(paid)
    return [*done, await ship(item)]


async def main() -> None:
    async with former.open("sqlite:///change.db") as client:
        run = await client.start(order_before.bind("lamp"), id="yesterday")
        async for event in run.events():
            if event.kind == "step.completed":
                break
    async with app.open("sqlite:///change.db") as client:  # the deploy
        await client.start(order.bind("lamp"), id="today")
        for id in ("yesterday", "today"):
            run = client.get(id, order)
            with suppress(hf.RunClosed):  # the second time you run this
                await run.signal(paid, 4_900, id="payment")
            print(f"{id}: {', '.join(await run.result())}")


if __name__ == "__main__":
    asyncio.run(main())
