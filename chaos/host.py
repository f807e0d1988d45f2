"""One worker process: `python -m chaos.host URL JOURNAL LEASE [apart]`. It leaves on SIGTERM.

With `apart` it is as if on a machine of its own: nobody sees that it has ended, and only its lease
tells. So it is with hosts of PostgreSQL; on SQLite all are on one machine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import holdfast as hf
from chaos import journal
from holdfast.compose import store_of
from holdfast.hosts.worker import Worker
from holdfast.hosts.worker.opening import open_unless
from holdfast.stores import processes
from holdfast.talking import new_id

READY = "ready"
LOOK = 0.05
"""Seconds between two looks at the count of refused commits: a kill loses no more of it."""


def settings(lease: float) -> hf.Settings:
    """Return how a host works. Few runs in hand each, so that all hosts have some."""
    return hf.Settings(
        lease=lease,
        renew=lease / 4,
        poll=0.2,
        keep=0.5,
        runs=30,
        steps=30,
        drain=2.0,
        # Hosts die here every other second, through no fault of the runs they hold.
        strikes=50,
    )


async def serve(url: str, how: hf.Settings) -> None:
    # Imported under its own name, so that definitions exist once.
    from chaos.flows import app

    leaving = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
    store = store_of(url)
    if not await open_unless(leaving, store):
        return
    try:
        worker = Worker(app, store, id=new_id(store.now()), settings=how)
        counting = asyncio.create_task(count_refusals(worker))
        async with worker:
            print(READY, flush=True)
            await leaving.wait()
        counting.cancel()
        await asyncio.gather(counting, return_exceptions=True)
    finally:
        await store.close()


async def count_refusals(worker: Worker) -> None:
    known = 0
    try:
        while True:
            await asyncio.sleep(LOOK)
            known = told(worker, known)
    finally:
        told(worker, known)


def told(worker: Worker, known: int) -> int:
    if worker.refusals > known:
        journal.note_refused(worker.refusals - known)
    return worker.refusals


def main(url: str, path: str, lease: str, apart: str = "") -> None:
    os.environ[journal.VARIABLE] = path
    if apart:
        processes.PROC = Path("/nowhere")
    logging.basicConfig(format=f"%(asctime)s {os.getpid()} %(name)s %(message)s")
    asyncio.run(serve(url, settings(float(lease))))


if __name__ == "__main__":
    main(*sys.argv[1:])
