"""The raw limit of PostgreSQL: the same rows, by a bare loop of the driver our store uses.

One durable step is one statement, which moves the run and adds an event, synced before it
returns. First a statement for each step, then one for each hundred.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from benchmarks.calibrate import speed
from benchmarks.driver import Task, main
from benchmarks.pace import counted, one_after_another, step_figures
from benchmarks.postgres import SETTINGS, database
from benchmarks.rows import Row, emit
from benchmarks.work import STEPS, small_result

GROUP = 100
RUNS = 100
TABLES = """
CREATE TABLE runs (
    ns text, id text, workflow text, version text, status text, epoch bigint, seq bigint,
    owner text, wake_at bigint, created_at bigint, updated_at bigint, PRIMARY KEY (ns, id)
) WITH (fillfactor = 70);
CREATE TABLE events (
    ns text, run text, seq bigint, generation bigint, epoch bigint, kind text, key text,
    asked_seq bigint, at bigint, took bigint, digest bytea, codec smallint, payload bytea,
    PRIMARY KEY (ns, run, seq)
);
"""
CREATE = """
INSERT INTO runs SELECT 'default', id, 'chain', '1', 'running', 1, 0, 'w', NULL, 0, 0
FROM unnest($1::text[]) AS id
"""
ONE = """
WITH moved AS (
    UPDATE runs SET seq = $2, updated_at = $3 WHERE ns = 'default' AND id = $1 AND epoch = 1
    RETURNING id
)
INSERT INTO events
SELECT 'default', id, $2, 1, 1, 'step.completed', $4, $2, $3, 9, $5, 0, $6 FROM moved
"""
MANY = """
WITH asked AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::bytea[],
        $6::bytea[]) AS t (id, seq, at, key, digest, payload)
), moved AS (
    UPDATE runs r SET seq = asked.seq, updated_at = asked.at FROM asked
    WHERE r.ns = 'default' AND r.id = asked.id AND r.epoch = 1
    RETURNING r.id
)
INSERT INTO events
SELECT 'default', id, seq, 1, 1, 'step.completed', key, seq, at, 9, digest, 0, payload
FROM asked JOIN moved USING (id)
"""
# Or the server would plan the statement over arrays anew at each call.
PLANNED_ONCE = {"plan_cache_mode": "force_generic_plan"}
DIGEST = bytes(range(16))
PAYLOAD = json.dumps(small_result(7)).encode()


class Bare:
    """A database of runs to which steps are added, in groups of a chosen size."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._runs = [f"01931f5e-0000-7000-8000-{i:012d}" for i in range(RUNS)]
        self._seq = 0

    @classmethod
    async def open(cls, url: str) -> Bare:
        bare = cls(await asyncpg.connect(url, server_settings=PLANNED_ONCE))
        await bare._connection.execute(TABLES)
        await bare._connection.fetch(CREATE, bare._runs)
        return bare

    async def one(self) -> None:
        self._seq += 1
        seq, run, now = self._seq, self._runs[0], time.time_ns()
        await self._connection.fetch(ONE, run, seq, now, f"work#{seq}", DIGEST, PAYLOAD)

    async def group(self) -> None:
        self._seq += 1
        seq, now = self._seq, time.time_ns()
        rows = [(run, seq, now, f"work#{seq}", DIGEST, PAYLOAD) for run in self._runs[:GROUP]]
        await self._connection.fetch(MANY, *map(list, zip(*rows, strict=True)))

    async def chain(self) -> None:
        for _ in range(STEPS):
            await self.one()

    async def settings(self) -> dict[str, str]:
        return {name: await self._connection.fetchval(f"SHOW {name}") for name in SETTINGS}

    async def close(self) -> None:
        await self._connection.close()


async def w1(task: Task) -> None:
    with database() as url:
        bare = await Bare.open(url)
        figures = step_figures(await one_after_another(bare.chain, task.size.chain_seconds))
        settings = await bare.settings()
        await bare.close()
    with database() as url:
        bare = await Bare.open(url)
        times = await one_after_another(bare.group, task.size.chain_seconds)
        await bare.close()
    figures["steps_s"] = len(times) * GROUP / sum(times)
    emit(Row("raw", task.store, "w1", "", figures, settings, speed()))


async def chain(task: Task) -> None:
    with database() as url:
        bare = await Bare.open(url)
        await counted(bare.chain, task, lanes=1)
        await bare.close()


def in_loop(piece: Callable[[Task], Awaitable[None]]) -> Callable[[Task], None]:
    async def run(task: Task) -> None:
        await piece(task)

    return lambda task: asyncio.run(run(task))


if __name__ == "__main__":
    main({"w1": in_loop(w1), "chain": in_loop(chain)}, {})
