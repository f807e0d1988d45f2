"""Films rendered on machines with a graphics card; mails sent two at a time, in turn by customer.

Run it: python examples/render_farm.py
"""

import asyncio

import holdfast as hf
from holdfast.testing import virtual

app = hf.App("farm")
app.queue("mail", concurrency=2, key_concurrency=1, rate=hf.Rate(100, per=60))
SENT: list[str] = []  # in which order


@app.step(queue="gpu", timeout=3600, heartbeat_timeout=60)
async def render(film: str, part: int) -> str:
    hf.heartbeat(part)  # a job of whoever serves the queue "gpu": the run waits without a worker
    return f"{film}/{part}"


@app.step
async def send(customer: str) -> str:
    SENT.append(customer)
    await asyncio.sleep(1)
    return f"{customer} has mail"


@app.workflow(queue="mail")
async def mail(customer: str) -> str:
    return await send(customer)  # a run on a queue with limits begins when there is a slot for it


@app.workflow
async def produce(film: str, parts: int, customer: str) -> str:
    done = await asyncio.gather(*(render(film, part) for part in range(parts)))
    return f"{' '.join(done)}: {await mail.options(queue_key=customer)(customer)}"


async def story(client: hf.Client) -> None:
    ada = [await client.start(mail.bind("ada"), queue_key="ada") for _ in range(10)]
    bob = await client.start(mail.bind("bob"), queue_key="bob")
    film = await client.start(produce.bind("up", 3, "eve"))
    print(await bob.result(), "after", SENT[: SENT.index("bob")])
    print(await film.result())
    [line] = await client.queues.list()
    print(f"queue {line.queue.name}: {line.waiting} in line, {line.held} have begun")
    for run in ada:
        await run.result()
    print(len(SENT), "mails were sent")


if __name__ == "__main__":
    virtual.run(app, story)
