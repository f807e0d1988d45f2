"""An order: retries, an approval with a time-out, and clean-up when something goes wrong.

Run it: python examples/checkout.py
"""

import asyncio
from datetime import timedelta

import holdfast as hf

app = hf.App("checkout")
approved = hf.Signal("approved", bool)


@app.step(retry=hf.Retry(max_attempts=5, initial=0.05), timeout=30)
async def charge(cents: int) -> str:
    if hf.attempt() < 3:
        raise ConnectionError("the bank did not answer")
    return f"payment {hf.idempotency_key()}"  # the bank books one key once


@app.step
async def ship(item: str) -> str:
    return f"{item} is on its way"


@app.step
async def refund(payment: str) -> str:
    return f"refunded {payment}"


@app.workflow
async def checkout(item: str, cents: int, patience: timedelta = timedelta(days=2)) -> str:
    payment = await charge(cents)
    try:
        if cents < 10_000 or await hf.wait_for(approved, timeout=patience):
            return await ship(item)
    except (TimeoutError, hf.StepFailed):
        pass  # nobody cared, or nobody could ship it
    return await refund(payment)


async def main() -> None:
    async with app.open("sqlite:///checkout.db") as client:
        small = await client.start(checkout.bind("lamp", 4_900), id="order-1")
        large = await client.start(checkout.bind("piano", 490_000), id="order-2")
        hasty = checkout.bind("organ", 990_000, timedelta(seconds=0.2))
        ignored = await client.start(hasty, id="order-3")
        await large.signal(approved, True, id="yes-1")  # run this file twice: it counts once
        for run in (small, large, ignored):
            print(f"{run.id}: {await run.result()}")


if __name__ == "__main__":
    asyncio.run(main())
