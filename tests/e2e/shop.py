"""A worker process for the kill tests: `python -m tests.e2e.shop URL JOURNAL [name=value ...]`.

Every execution of a step leaves a line in a journal outside the store, on disk before the step
returns, so that executions can be counted apart from what was recorded. The line comes first and
the rest of the step's time after it, as with a charge whose answer is still on its way.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import holdfast as hf
from holdfast.compose import store_of
from holdfast.hosts.worker import Worker
from holdfast.stores import processes
from holdfast.talking import new_id

app = hf.App("shop")
go = hf.Signal("go", int)
JOURNAL = "HOLDFAST_TEST_JOURNAL"
APART = "HOLDFAST_TEST_APART"
"""If set, this process is as if on a machine of its own: nobody sees that it has ended."""


def note(step: str) -> None:
    """Append one line and bring it to disk: the effect of the step has happened."""
    _, run, _, key = hf.idempotency_key().split("/", 3)
    line = f"{run} {key} {hf.attempt()} {os.getpid()} {step}\n"
    file = os.open(os.environ[JOURNAL], os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        os.write(file, line.encode())
        os.fsync(file)
    finally:
        os.close(file)


@app.step(retry=hf.Retry(max_attempts=4, initial=0.01))
async def reserve(n: int) -> int:
    note("reserve")
    await asyncio.sleep(0.01)
    if n % 7 == 0 and hf.attempt() == 1:
        raise ConnectionError("try again")
    return n * 2


@app.step
async def price(n: int) -> int:
    note("price")
    await asyncio.sleep(0.02)
    return n * 3


@app.step
def pack(n: int) -> int:
    note("pack")
    threading.Event().wait(0.01)
    return n * 5


@app.step
async def ship(parts: list[int]) -> int:
    note("ship")
    await asyncio.sleep(0.01)
    return sum(parts)


@app.workflow
async def order(n: int) -> int:
    reserved = await reserve(n)
    parts = await asyncio.gather(price(n), pack(n))
    await hf.sleep(0.02)
    return await ship([reserved, *parts])


def result_of_order(n: int) -> int:
    return n * 2 + n * 3 + n * 5


@app.step
async def crash(seconds: float) -> None:
    """Take the whole process down, at once or after a while."""
    note("crash")
    await asyncio.sleep(seconds)
    os.abort()


@app.workflow
async def killer(seconds: float) -> None:
    await price(1)
    await crash(seconds)


@app.step
async def block(seconds: float) -> int:
    """Hold up the whole event loop, as a careless step does."""
    note("block")
    time.sleep(seconds)
    return os.getpid()


@app.workflow
async def blocking(seconds: float) -> int:
    return await block(seconds)


@app.step
async def freeze(once: str) -> int:
    """Stop the whole process as the last act of the first execution: its result is in hand."""
    note("freeze")
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return os.getpid()
    os.kill(os.getpid(), signal.SIGSTOP)
    return os.getpid()


@app.workflow
async def freezing(once: str) -> int:
    return await freeze(once)


@app.step
async def wait_for_file(path: str) -> int:
    note("began")
    while not Path(path).exists():  # noqa: ASYNC110  (another process makes it)
        await asyncio.sleep(0.01)
    return os.getpid()


@app.step
async def pid() -> int:
    note("pid")
    return os.getpid()


@app.workflow
async def two_steps(path: str) -> list[int]:
    return [await wait_for_file(path), await pid()]


@app.step
async def pass_through(seconds: float) -> int:
    note("enter")
    await asyncio.sleep(seconds)
    note("leave")
    return os.getpid()


@app.workflow(queue="narrow")
async def squeezed(seconds: float) -> int:
    return await pass_through(seconds)


@app.step(timeout=0.05, retry=hf.Retry(max_attempts=1))
def hang() -> None:
    note("hang")
    threading.Event().wait()


@app.workflow
async def hanging() -> None:
    await hang()


paper = app.graph("paper")


@app.step
async def summary(text: str) -> str:
    note("summary")
    return text.upper()


@paper.node(body=True)
async def review(state: hf.State) -> dict[str, object]:
    short = await summary(state["text"])
    return {"short": short, "ok": await hf.ask(f"Publish {short}?", bool)}


paper.add_edge(hf.START, review).add_edge(review, hf.END)


async def serve(url: str, settings: hf.Settings) -> None:
    """Work until SIGTERM; leave at once on a second one."""
    store = store_of(url)
    await store.open()
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            os._exit(130)
        stopping.set()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    try:
        worker = Worker(app, store, id=new_id(store.now()), settings=settings)
        async with worker:
            print("ready", flush=True)
            await stopping.wait()
    finally:
        await store.close()
    print(json.dumps({"refusals": worker.refusals}), flush=True)


def main(url: str, journal: str, *given: str) -> None:
    os.environ[JOURNAL] = journal
    if os.environ.get(APART):
        processes.PROC = Path("/nowhere")
    pairs = (text.split("=") for text in given)
    settings = {name: json.loads(value) for name, value in pairs}
    asyncio.run(serve(url, hf.Settings(**settings)))


if __name__ == "__main__":
    # Under the module's own name, so that definitions exist once.
    from tests.e2e import shop

    shop.main(*sys.argv[1:])
