"""Every driver, in every way, does each piece of work in turns; prints the figures as JSON.

    python -m benchmarks.drivers.measure URL ROUNDS

All connections are open in one process and take turns of a twentieth of a second, so that what
is compared was measured within the same second.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from statistics import median
from typing import Protocol

from benchmarks.driver import percentile
from benchmarks.drivers.asyncpg_ import Asyncpg
from benchmarks.drivers.psycopg_ import Psycopg, PsycopgBlocking, PsycopgPipeline
from benchmarks.drivers.statements import HISTORY, Columns, Turns

BATCH = 50
CLAIMED = 10
WARM_UP = 10  # also the calls after which the server keeps a plan
TURN = 0.05  # seconds
CALLS = 40  # at most in a turn, so that the queue lasts


class Driver(Protocol):
    async def turn(self, columns: Columns) -> int: ...
    async def load(self, run: str) -> int: ...
    async def claim(self, count: int) -> int: ...
    async def close(self) -> None: ...


WAYS: dict[str, Callable[[str], Awaitable[Driver]]] = {
    "asyncpg": Asyncpg.prepared,
    "psycopg": Psycopg.prepared,
    "psycopg, pipeline mode": PsycopgPipeline.prepared,
    "psycopg, blocking": PsycopgBlocking.prepared,
    "asyncpg, nothing prepared": Asyncpg.unprepared,
    "psycopg, nothing prepared": Psycopg.unprepared,
}
Call = Callable[[], Awaitable[int]]


def pieces(driver: Driver, place: int) -> dict[str, tuple[Call, int]]:
    """Return each piece of work as a call, and how many rows it touches."""
    first = place * (BATCH + 1)  # every driver has runs of its own
    one, many = Turns.of(first, 1), Turns.of(first + 1, BATCH)
    return {
        "one": (lambda: driver.turn(one.next()), 1),
        "many": (lambda: driver.turn(many.next()), BATCH),
        "load": (lambda: driver.load("history"), HISTORY),
        "claim": (lambda: driver.claim(CLAIMED), CLAIMED),
    }


class Times:
    """What one driver took for one piece of work, turn by turn, in microseconds."""

    def __init__(self) -> None:
        self.each: list[float] = []
        self.medians: list[float] = []
        self.processor: list[float] = []

    async def take_turn(self, call: Call, rows: int) -> None:
        taken: list[float] = []
        cpu, deadline = time.process_time(), time.perf_counter() + TURN
        while (began := time.perf_counter()) < deadline and len(taken) < CALLS:
            if await call() != rows:
                raise RuntimeError("a call touched another number of rows than it should")
            taken.append((time.perf_counter() - began) * 1e6)
        self.processor.append((time.process_time() - cpu) * 1e6 / len(taken))
        self.medians.append(median(taken))
        self.each += taken

    def figures(self) -> dict[str, float]:
        return {
            "p50": median(self.medians),
            "p99": percentile(self.each, 0.99),
            "cpu": median(self.processor),
        }


async def measure(url: str, rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    drivers = {way: await connect(url) for way, connect in WAYS.items()}
    work = {way: pieces(driver, i) for i, (way, driver) in enumerate(drivers.items())}
    times = {way: {piece: Times() for piece in work[way]} for way in WAYS}
    for piece in ("one", "many", "load", "claim"):
        for way in WAYS:
            for _ in range(WARM_UP):
                await work[way][piece][0]()
        for round_ in range(rounds):
            order = list(WAYS)
            for way in order[round_ % len(order) :] + order[: round_ % len(order)]:
                await times[way][piece].take_turn(*work[way][piece])
    for driver in drivers.values():
        await driver.close()
    return {
        way: {piece: taken.figures() for piece, taken in of_way.items()}
        for way, of_way in times.items()
    }


def main(url: str, rounds: str) -> None:
    figures = asyncio.run(measure(url, int(rounds)))
    versions = {name: version(name) for name in ("asyncpg", "psycopg", "psycopg-binary")}
    sys.stdout.write(json.dumps({"figures": figures, "versions": versions}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
