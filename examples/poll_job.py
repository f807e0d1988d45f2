"""An outside job that may call back, and is asked from time to time in case it does not.

Run it: python examples/poll_job.py
"""

import asyncio

import holdfast as hf
from holdfast.testing import virtual

app = hf.App("jobs")
SERVICE: dict[str, str] = {}  # an outside system: a token for each job it was given


@app.step(completes_later=True, timeout=86_400)
async def submit(video: str) -> str:
    SERVICE.setdefault(video, hf.completion_token())  # or give it hf.callback_url()
    hf.complete_later()


@app.step
async def look(video: str, minute: int) -> str:
    return f"{video}.mp4" if video == "dogs" and minute >= 3 else ""  # what the service says


async def polled(video: str) -> str:
    minute = 0
    while not (found := await look(video, minute)):
        await hf.sleep(60)
        minute += 1
    return found


@app.workflow
async def publish(video: str) -> str:
    racers = [asyncio.ensure_future(submit(video)), asyncio.ensure_future(polled(video))]
    done, late = await hf.wait(racers, return_when=asyncio.FIRST_COMPLETED)
    for each in late:
        each.cancel()  # its token is refused from now on
    return f"{done[0].result()} is online"


async def story(client: hf.Client) -> None:
    runs = [await client.start(publish.bind(video), id=video) for video in ("cats", "dogs")]
    await asyncio.sleep(90)
    await client.complete(SERVICE["cats"], "cats.webm", by="service")
    for run in runs:
        print(await run.result(), "after", len((await run.history()).events), "events")


if __name__ == "__main__":
    virtual.run(app, story)
