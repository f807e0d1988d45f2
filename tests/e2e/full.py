"""A process whose disk is full for a while: `python -m tests.e2e.full FILE pages|file`.

It prints what it saw as one line of JSON. Its worker, and its callers, live through all of it.
"""

import asyncio
import json
import logging
import os
import resource
import sys
from pathlib import Path
from typing import Any, cast

import holdfast as hf
from holdfast.hosts.worker import Worker
from holdfast.stores.sqlite import SqliteStore

app = hf.App("full")
go = hf.Signal("go", str)
began, may_end = asyncio.Event(), asyncio.Event()
executions: list[str] = []
warnings: list[str] = []


class Heard(logging.Handler):
    """Keeps what is logged."""

    def emit(self, record: logging.LogRecord) -> None:
        warnings.append(record.getMessage())


@app.step
async def big(name: str) -> str:
    executions.append(name)
    if name == "first":
        began.set()
        await may_end.wait()
    return "x" * 200_000


@app.workflow
async def flow() -> int:
    sizes = [len(await big("first")), len(await big("second"))]
    return sum(sizes) + len(await hf.wait_for(go))


@app.workflow
async def small() -> int:
    return 1


def limit(store: SqliteStore, how: str, *, full: bool) -> None:
    """Let the disk be full, or have room again."""
    if how == "pages":
        connection: Any = cast("Any", store)._writer._transactions.connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0] if full else 1 << 20
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return
    files = (store.path, store.path.with_name(store.path.name + "-wal"))
    size = max(os.path.getsize(file) for file in files)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096 if full else hard, hard))


async def refused(call: Any) -> str:
    try:
        await call
    except hf.StoreError as error:
        return type(error).__name__
    return "accepted"


async def until(holds: Any) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


async def main(path: str, how: str) -> dict[str, Any]:
    async with app.open(f"sqlite:///{path}", settings=hf.Settings(poll=0.05)) as client:
        store = cast("SqliteStore", cast("Any", client.engine.store).inner)
        worker = cast("Worker", client.engine.host)
        run = await client.start(flow.bind(), id="r")
        await began.wait()
        limit(store, how, full=True)
        may_end.set()  # its result is too large for what is left
        await until(lambda: worker.health.is_degraded)
        late = [
            await refused(client.start(small.bind(), id=f"late-{n}")) if n < 3 else
            await refused(run.signal(go, "y" * 200_000, id="late"))
            for n in range(4)
        ]  # fmt: skip
        await asyncio.sleep(1.0)  # some more tries
        during = {"status": (await run.describe()).status, "executions": list(executions)}
        logged = [line for line in warnings if line.startswith("degraded") or "lease" in line]
        limit(store, how, full=False)
        await until(lambda: not worker.health.is_degraded)
        await run.signal(go, "yes")
        async with asyncio.timeout(20):
            result = await run.result()
        listed = [each.id for each in (await client.list()).runs]
        return {
            "late": late, "during": during, "logged": logged, "result": result, "listed": listed,
            "executions": executions, "healed": [w for w in warnings if "again after" in w],
        }  # fmt: skip


if __name__ == "__main__":
    logging.getLogger("holdfast").addHandler(Heard())
    print(json.dumps(asyncio.run(main(str(Path(sys.argv[1])), sys.argv[2]))))
