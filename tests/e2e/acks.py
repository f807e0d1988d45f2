"""Work whose every acknowledgement leaves a mark: `python -m tests.e2e.acks FILE [off]`.

With `off` the database does not wait for the disk, for the audit to find out.

An acknowledgement is not early because another commit is under way meanwhile, but a trace cannot
tell whose that is. So one thing is written at a time: by the loop itself, which then does nothing
else, and later by the writer's thread, with nobody but its one caller.
"""

import asyncio
import os
import sys
from typing import Any, cast

import holdfast as hf
from holdfast.stores.sqlite import writer

app = hf.App("acks")
go = hf.Signal("go", int)
MARK = b"ACK"


@app.step
async def add(n: int) -> int:
    return n + 1


@app.workflow
async def flow(n: int) -> int:
    return await add(n) + await hf.wait_for(go)


def acknowledge(what: str) -> None:
    """Tell the outside that something is stored."""
    os.write(1, MARK + b" " + what.encode() + b"\n")


async def main(path: str, *given: str) -> None:
    writer.QUICK = 60  # however slow the disk is under a trace
    async with app.open(f"sqlite:///{path}", settings=hf.Settings(poll=30)) as client:
        if "off" in given:
            store = cast("Any", client.engine.store).inner
            store._writer._transactions.connection.execute("PRAGMA synchronous = OFF")
        for n in range(25):
            run = await client.start(flow.bind(n), id=f"r{n}")
            acknowledge(f"start {n}")
            await run.signal(go, n)
            acknowledge(f"signal {n}")
            await run.result()
            acknowledge(f"result {n}")
    writer.QUICK = 0
    # Without a worker: nobody else writes while these are acknowledged.
    async with app.open(f"sqlite:///{path}", worker=False) as client:
        for n in range(5):
            together = [client.start(flow.bind(n), id=f"t{n}-{each}") for each in range(20)]
            runs = await asyncio.gather(*together)
            acknowledge(f"group {n}")
            await asyncio.gather(*(run.cancel() for run in runs))
            acknowledge(f"cancels {n}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
