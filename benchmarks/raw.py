"""The raw limit: what the disk and SQLite allow when nothing but the rows is written.

One durable step is one UPDATE of the run's row and one INSERT of an event, in one transaction,
synced before it returns (WAL, `synchronous=FULL`). First a transaction for each step, then one
for each hundred. By this commit the targets were set; the store has since learnt to do without
the UPDATE (`docs/design/decisions.md`).
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.calibrate import speed
from benchmarks.driver import Task, main, scratch, sqlite_settings
from benchmarks.pace import counted_sync, one_after_another_sync, step_figures
from benchmarks.rows import Row, emit
from benchmarks.work import STEPS, small_result

GROUP = 100
RUNS = 100
TABLES = """
CREATE TABLE runs (
    ns TEXT, id TEXT, workflow TEXT, version TEXT, status TEXT, epoch INTEGER, seq INTEGER,
    owner TEXT, wake_at INTEGER, created_at INTEGER, updated_at INTEGER, PRIMARY KEY (ns, id)
) WITHOUT ROWID;
CREATE TABLE events (
    ns TEXT, run TEXT, seq INTEGER, generation INTEGER, epoch INTEGER, kind TEXT, key TEXT,
    asked_seq INTEGER, at INTEGER, took INTEGER, digest BLOB, codec INTEGER, payload BLOB,
    PRIMARY KEY (ns, run, seq)
) WITHOUT ROWID;
CREATE TABLE events_by_place (
    place INTEGER PRIMARY KEY, generation INTEGER, epoch INTEGER, kind TEXT, key TEXT,
    asked_seq INTEGER, at INTEGER, took INTEGER, digest BLOB, codec INTEGER, payload BLOB
);
"""
CREATE = "INSERT INTO runs VALUES ('default', ?, 'chain', '1', 'running', 1, 0, 'w', NULL, 0, 0)"
MOVE = "UPDATE runs SET seq = ?, updated_at = ? WHERE ns = 'default' AND id = ? AND epoch = 1"
ADD = "INSERT INTO events VALUES ('default', ?, ?, 1, 1, 'step.completed', ?, ?, ?, 9, ?, 0, ?)"
PLACE = "INSERT INTO events_by_place VALUES (?, 1, 1, 'step.completed', ?, ?, ?, 9, ?, 0, ?)"
DIGEST = bytes(range(16))
PAYLOAD = json.dumps(small_result(7)).encode()


class Disk:
    """A database of runs to which steps are added, in groups of a chosen size."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.executescript(TABLES)
        self._database.executemany(CREATE, [(self._run(i),) for i in range(RUNS)])
        self._seq = 0

    def one(self) -> None:
        self._seq += 1
        self._write([(self._run(0), self._seq)])

    def alone(self) -> None:
        """Write the event and nothing else, by one statement without a BEGIN, as our store may."""
        self._seq += 1
        seq, now = self._seq, time.time_ns()
        self._database.execute(PLACE, (seq, f"work#{seq}", seq, now, DIGEST, PAYLOAD))

    def group(self) -> None:
        self._seq += 1
        self._write([(self._run(i), self._seq) for i in range(GROUP)])

    def settings(self) -> dict[str, str]:
        return sqlite_settings(lambda sql: self._database.execute(sql).fetchone()[0])

    def close(self) -> None:
        self._database.close()

    def _write(self, steps: list[tuple[str, int]]) -> None:
        now = time.time_ns()
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany(MOVE, [(seq, now, run) for run, seq in steps])
        self._database.executemany(
            ADD, [(run, seq, f"work#{seq}", seq, now, DIGEST, PAYLOAD) for run, seq in steps]
        )
        self._database.execute("COMMIT")

    @staticmethod
    def _run(i: int) -> str:
        return f"01931f5e-0000-7000-8000-{i:012d}"


def chain_of(step: Callable[[], None]) -> Callable[[], None]:
    def chain() -> None:
        for _ in range(STEPS):
            step()

    return chain


def w1(task: Task) -> None:
    with scratch() as directory:
        disk = Disk(directory / "raw.db")
        figures = step_figures(one_after_another_sync(chain_of(disk.one), task.size.chain_seconds))
        settings = disk.settings()
        times = one_after_another_sync(chain_of(disk.alone), task.size.chain_seconds)
        figures["alone_ms"] = step_figures(times)["step_ms"]
        disk.close()
    with scratch() as directory:
        disk = Disk(directory / "raw.db")
        times = one_after_another_sync(disk.group, task.size.chain_seconds)
        disk.close()
    figures["steps_s"] = len(times) * GROUP / sum(times)
    emit(Row("raw", task.store, "w1", "", figures, settings, speed()))


def chain(task: Task) -> None:
    with scratch() as directory:
        disk = Disk(directory / "raw.db")
        counted_sync(chain_of(disk.one), task)
        disk.close()


if __name__ == "__main__":
    main({"w1": w1, "chain": chain}, {})
