"""The statements of a PostgreSQL store, and the rows they are given.

`$1` as asyncpg and the server have it; `numbered` turns that into psycopg's words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.work import small_result

RUNS = 2_000
QUEUED = 100_000
HISTORY = 1_000

# The server would plan a statement over arrays anew at each call: 0.3 ms for one of 0.1 ms.
# The claim here does not have this: with an unknown LIMIT the one plan reads the whole queue.
# In the store it has, and `enable_sort` is off.
WRITING = {"plan_cache_mode": "force_generic_plan"}

TABLES = """
CREATE TABLE runs (
    ns text NOT NULL, id text NOT NULL, workflow text NOT NULL, version text NOT NULL,
    status text NOT NULL, epoch bigint NOT NULL, seq bigint NOT NULL, owner text,
    wake_at bigint, inbox_seq bigint NOT NULL, cancel smallint NOT NULL,
    created_at bigint NOT NULL, updated_at bigint NOT NULL, PRIMARY KEY (ns, id)
) WITH (fillfactor = 70);
CREATE INDEX runs_claim ON runs (ns, wake_at, id) WHERE wake_at IS NOT NULL;
CREATE TABLE events (
    ns text NOT NULL, run text NOT NULL, seq bigint NOT NULL, generation bigint NOT NULL,
    epoch bigint NOT NULL, kind text NOT NULL, key text NOT NULL, asked_seq bigint NOT NULL,
    at bigint NOT NULL, took bigint, digest bytea, codec smallint NOT NULL, payload bytea,
    PRIMARY KEY (ns, run, seq)
);
"""
FILL = (
    "INSERT INTO runs SELECT 'default', 'run-' || lpad(n::text, 12, '0'), 'chain', '1', 'running',"
    f" 1, 0, 'me', NULL, 0, 0, 0, 0 FROM generate_series(0, {RUNS - 1}) n",
    "INSERT INTO runs SELECT 'default', 'queued-' || lpad(n::text, 12, '0'), 'chain', '1',"
    f" 'pending', 0, 0, NULL, n, 0, 0, 0, 0 FROM generate_series(0, {QUEUED - 1}) n",
    "INSERT INTO events SELECT 'default', 'history', n, 1, 1, 'step.completed', 'work#' || n, n,"
    " 1800000000000000 + n, 9, decode(repeat('ab', 16), 'hex'), 0,"
    f" convert_to('{json.dumps(small_result(7))}', 'UTF8') FROM generate_series(1, {HISTORY}) n",
    "VACUUM ANALYZE",
)
TURN = """
WITH asked AS (
    SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
        AS t (id, epoch, was, becomes, at)
), locked AS MATERIALIZED (
    SELECT r.id, asked.becomes, asked.at FROM runs r JOIN asked ON r.id = asked.id
    WHERE r.ns = 'default' AND r.epoch = asked.epoch AND r.status = 'running'
        AND r.seq = asked.was AND r.cancel <> 1
    ORDER BY r.id FOR UPDATE OF r
), moved AS (
    UPDATE runs r SET seq = locked.becomes, updated_at = locked.at FROM locked
    WHERE r.ns = 'default' AND r.id = locked.id RETURNING r.id, r.inbox_seq, r.cancel
), added AS (
    INSERT INTO events
    SELECT 'default', e.run, e.seq, 1, e.epoch, e.kind, e.key, e.asked_seq, e.at, e.took, e.digest,
        0, e.payload
    FROM unnest($6::text[], $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::bigint[],
        $12::bigint[], $13::bigint[], $14::bytea[], $15::bytea[])
        AS e (run, seq, epoch, kind, key, asked_seq, at, took, digest, payload)
    JOIN moved ON moved.id = e.run
)
SELECT id, inbox_seq, cancel FROM moved
"""
LOAD = """
SELECT seq, generation, epoch, kind, key, asked_seq, at, took, digest, codec, payload
FROM events WHERE ns = 'default' AND run = $1 ORDER BY seq
"""
CLAIM = """
WITH due AS MATERIALIZED (
    SELECT id FROM runs WHERE ns = 'default' AND wake_at <= $1 AND status IN ('pending', 'waiting')
    ORDER BY wake_at, id LIMIT $2 FOR UPDATE SKIP LOCKED
)
UPDATE runs r SET status = 'running', owner = $3, epoch = epoch + 1, wake_at = NULL
FROM due WHERE r.ns = 'default' AND r.id = due.id
RETURNING r.id, r.workflow, r.version, r.epoch, r.seq, r.inbox_seq, r.cancel
"""

Columns = tuple[list[object], ...]
DIGEST = bytes(range(16))
PAYLOAD = json.dumps(small_result(7)).encode()
NOW = 1_800_000_000_000_000


@dataclass(slots=True)
class Turns:
    """The next turn of some runs, one event each, as columns."""

    runs: Sequence[str]
    seq: int = 0

    @classmethod
    def of(cls, first: int, count: int) -> Turns:
        return cls([f"run-{n:012d}" for n in range(first, first + count)])

    def next(self) -> Columns:
        # One row after another, then turned: a store is given rows, not columns.
        self.seq += 1
        was, now = self.seq - 1, NOW + self.seq
        asked = [(run, 1, was, self.seq, now) for run in self.runs]
        kind, key = "step.completed", f"work#{self.seq}"
        events = [(run, self.seq, 1, kind, key, was, now, 9, DIGEST, PAYLOAD) for run in self.runs]
        columns = (*zip(*asked, strict=True), *zip(*events, strict=True))
        return tuple(list(column) for column in columns)


def numbered(sql: str) -> str:
    """Return the statement with psycopg's placeholders: each parameter once, in its order."""
    return re.sub(r"\$\d+", "%b", sql)
