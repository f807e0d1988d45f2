"""A subscription: it charges every month, listens meanwhile, and costs a row while it sleeps.

Run it: python examples/subscription.py    (a year passes in a moment, in virtual time)
"""

import asyncio
from datetime import timedelta

import holdfast as hf
from holdfast.testing import virtual

app = hf.App("subscription")
changes = hf.Signal("changes", str)  # "pro", "free" or "cancel"

MONTH = timedelta(days=30)
CENTS = {"free": 0, "pro": 1_900}


@app.step(retry=hf.Retry(max_attempts=10, initial=60))
async def charge(customer: str, cents: int) -> str:
    return f"{customer} paid {cents / 100:.2f}"


@app.step
async def say_goodbye(customer: str) -> str:
    return f"{customer} left"


@app.workflow
async def subscription(customer: str, plan: str) -> list[str]:
    diary: list[str] = []
    ends = hf.now() + MONTH
    while True:
        try:
            change = await hf.wait_for(changes, timeout=ends - hf.now())
        except TimeoutError:  # nobody said anything: the month is over
            diary.append(f"{hf.now():%d %b}: {await charge(customer, CENTS[plan])}")
            ends += MONTH
            continue
        if change == "cancel":
            return [*diary, f"{hf.now():%d %b}: {await say_goodbye(customer)}"]
        plan = change
        diary.append(f"{hf.now():%d %b}: {customer} has {plan} now")


async def story(client: hf.Client) -> None:
    run = await client.start(subscription.bind("ada", "pro"), id="ada")
    await asyncio.sleep(MONTH.total_seconds() * 2.5)  # two months and a half, at once
    await run.signal(changes, "free")
    await asyncio.sleep(MONTH.total_seconds())
    await run.signal(changes, "cancel")
    print("\n".join(await run.result()))


if __name__ == "__main__":
    virtual.run(app, story)
