"""A payment as a saga: what was done is undone if the rest fails, is cancelled, or crashes.

Run it: python examples/saga_payment.py
"""

import asyncio

import holdfast as hf

app = hf.App("payment")


@app.step
async def charge(cents: int) -> str:
    return f"payment {hf.idempotency_key()}"  # the bank books one key once


@app.step
async def refund(payment: str | None) -> None:  # None: it may have been booked, or not
    hf.log.info("refunded %s", payment)


@app.step
async def reserve(item: str) -> int:
    return len(item)


@app.step
async def release(shelf: int | None) -> None:
    hf.log.info("released shelf %s", shelf)


@app.step(retry=hf.Retry(max_attempts=1))
async def ship(item: str) -> str:
    if item == "piano":
        raise RuntimeError("too heavy")
    return f"{item} is on its way"


@app.workflow
async def order(item: str, cents: int) -> str:
    async with hf.saga() as saga:
        await saga.do(charge(cents), undo=refund)  # the undo is registered before the step runs
        await saga.do(reserve(item), undo=release)  # last in, first out
        return await ship(item)


async def main() -> None:
    async with app.open("sqlite:///saga_payment.db") as client:
        for item in ("lamp", "piano"):
            run = await client.start(order.bind(item, 4_900), id=item)
            try:
                print(await run.result())
            except hf.RunFailed as error:
                print(item, error.status, [line.message async for line in run.logs()], sep=": ")


if __name__ == "__main__":
    asyncio.run(main())
