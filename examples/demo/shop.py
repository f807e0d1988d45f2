"""A shop: an order with steps, a retry, a timer and a signal. This is the code you would copy."""

import os
import time
from dataclasses import dataclass

import holdfast as hf

app = hf.App("shop")
picked_up = hf.Signal("picked_up", str)


@dataclass
class Order:
    item: str
    cents: int


@app.step
def reserve(order: Order) -> str:
    journal("reserve")
    return f"shelf 7: {order.item}"


@app.step(retry=hf.Retry(max_attempts=5, initial=0.3), timeout=30)
def charge(order: Order) -> str:
    journal("charge")
    if hf.attempt() == 1:
        raise ConnectionError("the bank did not answer")
    return f"receipt over {order.cents / 100:.2f} for {hf.idempotency_key()}"


@app.step
def pack(order: Order) -> int:
    journal("pack")
    time.sleep(1.5)  # long enough to be killed in the middle
    return 1250


@app.step
def notify(order: Order, van: str) -> str:
    journal("notify")
    return f"your {order.item} is in {van}"


@app.workflow
async def checkout(order: Order) -> str:
    await reserve(order)
    await charge(order)
    await pack(order)
    await hf.sleep(1)  # the label dries; a year would cost no more
    van = await hf.wait_for(picked_up)
    return await notify(order, van)


def journal(step: str) -> None:
    """Count executions outside the engine, so that the demo can tell what really ran."""
    with open(os.environ.get("SHOP_JOURNAL", os.devnull), "a", encoding="utf-8") as file:
        file.write(f"{step}\n")
