"""An order is watched as it goes on: every event after its commit, then what was counted.

    python examples/watch.py

The bank fails once. The stream shows the attempt, the wait and the end; the metrics are what
Prometheus would collect (`pip install 'holdfast[prometheus]'`).
"""

import asyncio

from prometheus_client import CollectorRegistry

import holdfast as hf

app = hf.App("watch")
streaming = hf.StreamingObserver()
metrics = hf.PrometheusObserver(CollectorRegistry())
app.observe(streaming, metrics)


@app.step(retry=hf.Retry(max_attempts=3, initial=0.1))
async def charge(cents: int) -> str:
    if hf.attempt() == 1:
        raise ConnectionError("the bank is away")
    return f"paid {cents}"


@app.workflow
async def order(cents: int) -> str:
    await hf.sleep(0.1)
    return await charge(cents)


async def watch(run: str) -> None:
    """Say what happens to a run, until it is closed."""
    async for event in streaming.events(run):
        more = f" attempt {event.attempt}" if event.attempt else ""
        if event.failure.type:
            more += f", {event.failure.type}"
        print(f"{event.seq} {event.kind} {event.key}{more}".rstrip())


async def main() -> None:
    async with app.open("memory://") as client:
        run = await client.start(order.bind(4200), id="order-42")
        await watch(run.id)
        print(await run.result())
    tried = {
        outcome: metrics.registry.get_sample_value(
            "holdfast_step_attempts_total",
            {"workflow": "order", "step": "charge", "outcome": outcome},
        )
        for outcome in ("retrying", "completed")
    }
    print(f"attempts: {tried['retrying']:g} tried again, {tried['completed']:g} completed")


if __name__ == "__main__":
    asyncio.run(main())
