"""What the two PostgreSQL job queues share: W3 and W13, both to the *start* of a job.

They hand back nothing. The job tells its client that it began by a datagram on the loopback
interface, which takes tens of microseconds. At once: jobs put one by one, until each of them is
marked as done.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.calibrate import speed
from benchmarks.driver import Task, child, hear, percentile
from benchmarks.postgres import database
from benchmarks.rows import Row, emit

AT_ONCE = 50  # jobs that a worker runs at a time
PATIENCE = 60
VARIANT = "to the start of a job"
_voice = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


@dataclass(frozen=True, slots=True)
class Client:
    """How a queue is used: put one job, and count those that are not done."""

    put: Callable[[int], Awaitable[object]]
    count_left: Callable[[], Awaitable[int]]
    settings: Callable[[], Awaitable[dict[str, str]]]


Use = Callable[[Client], Awaitable[None]]


def tell(port: int, i: int) -> None:
    """Say, in a job, that it has begun."""
    _voice.sendto(str(i).encode(), ("127.0.0.1", port))


async def pick_up(
    peer: str,
    task: Task,
    install: Callable[[str], Awaitable[None]],
    connect: Callable[[str, Use], Awaitable[None]],
    work: str = "w3",
) -> None:
    with database() as url, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind(("127.0.0.1", 0))
        ear.setblocking(False)
        await install(url)
        with child(f"benchmarks.peers.{peer}", "worker", url, ear.getsockname()[1]) as worker:
            hear(worker, "ready")
            await asyncio.sleep(2)  # it has yet to listen

            async def measured(client: Client) -> None:
                figures = await one_by_one(client, ear, task.size.pickups)
                if work == "w3":
                    figures |= await together(client, task.size.burst)
                else:
                    figures = {
                        "job_ms": figures["pickup_ms"], "job_p99_ms": figures["pickup_p99_ms"],
                    }  # fmt: skip
                settings = await client.settings()
                emit(Row(peer, task.store, work, VARIANT, figures, settings, speed()))

            await connect(url, measured)


async def one_by_one(client: Client, ear: socket.socket, n: int) -> dict[str, float]:
    times, loop = [], asyncio.get_running_loop()
    for i in range(n):
        await asyncio.sleep(0.005)  # the worker is idle again when the next job comes
        began = time.perf_counter()
        await client.put(i)
        async with asyncio.timeout(PATIENCE):
            heard = await loop.sock_recv(ear, 64)
        times.append((time.perf_counter() - began) * 1e3)
        if int(heard) != i:
            raise RuntimeError("another job began")
    return {"pickup_ms": percentile(times, 0.5), "pickup_p99_ms": percentile(times, 0.99)}


async def together(client: Client, n: int) -> dict[str, float]:
    began = time.perf_counter()
    for i in range(n):
        await client.put(i)
    async with asyncio.timeout(PATIENCE):
        while await client.count_left():  # noqa: ASYNC110 - a queue tells nobody that it is empty
            await asyncio.sleep(0.01)
    return {"runs_s": n / (time.perf_counter() - began)}
