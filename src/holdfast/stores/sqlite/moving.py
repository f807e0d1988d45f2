"""A file that is moved, or moved into.

It is closed by triggers on all tables that others write: whoever has it open meets them with the
next write. They let writes pass while the move's row says that it is open, which it does only
inside the mover's transactions. Nobody else can write meanwhile.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast.model.dump import Dump
from holdfast.model.moving import (
    REKEYED,
    TABLES,
    Change,
    Close,
    Decide,
    Empty,
    Fill,
    Move,
    Open,
    Release,
    Reseal,
    Row,
    Standing,
    Table,
    TakeBack,
    named,
)
from holdfast.model.workers import WorkerRow
from holdfast.model.writes import Reap
from holdfast.stores.clock import SteadyClock
from holdfast.stores.sqlite import doctor, inspection
from holdfast.stores.sqlite.connection import connect, prepare
from holdfast.stores.sqlite.doorbell import Street
from holdfast.stores.sqlite.statements import queries
from holdfast.stores.sqlite.together import write_alone, write_together
from holdfast.stores.sqlite.transactions import Errand, Transactions
from holdfast.stores.sqlite.writes import apply

SQL = queries()
STORED = {"events": "run_events"}
"""The table in which rows are kept, where it is not the one of their name."""
FENCED = (*(STORED.get(table.name, table.name) for table in TABLES), "workers")
"""What others write. A file may hold tables of its users, too: those are theirs."""
VERBS = ("INSERT", "UPDATE", "DELETE")
OWN: Mapping[tuple[str, str], str] = {
    ("runs", "add_rows"): SQL.add_runs,
    ("events", "first_rows"): SQL.first_events,
    ("events", "next_rows"): SQL.next_events,
    ("events", "add_rows"): SQL.import_event,
    ("events", "is_row"): SQL.is_event,
}
"""What is asked otherwise of one table than of all others: the place of an event is found by the
number of its run, which is this file's own."""


class SqliteSide:
    """One file, through a writing connection and a reading one of its own."""

    def __init__(self, path: Path, clock: Callable[[], int] | None = None) -> None:
        self._path, self._clock = path, clock or SteadyClock()

    @property
    def place(self) -> str:
        """Where it is, as a URL."""
        return f"sqlite:///{self._path.resolve()}"

    async def open(self) -> None:
        """Open the file, creating or migrating it."""
        prepare(self._path)
        self._transactions = Transactions(self._path, self._now, write_together, write_alone)
        self._reads = connect(self._path, writes=False)
        self._street = Street(self._path.with_name(self._path.name + "-workers"))

    async def close(self) -> None:
        """Let go of the file."""
        self._reads.close()
        self._transactions.close()
        self._street.close()

    async def standing(self) -> Standing:
        """Return the time, the move that the file is part of, and who works on it."""
        reads, now = self._reads, self._now()
        row = reads.execute(SQL.current_move).fetchone()
        workers = {worker.id: worker for worker in inspection.workers(reads, self._path)}
        gone: list[tuple[str, bool]] = []
        for id, lease_until, _ in reads.execute(SQL.holders).fetchall():
            worker = workers.setdefault(id, WorkerRow(id, lease_until, None, False))
            is_dead = self._street.is_dead(id)
            if is_dead or (not worker.is_listening and lease_until <= now):
                gone.append((id, is_dead))
        live = tuple(worker for worker in workers.values() if worker.id not in dict(gone))
        is_empty = not any(_one(reads, "is_filled", table) for table in TABLES)
        return Standing(now, Move._make(row) if row else None, is_empty, live, tuple(gone))

    async def read(self, table: Table, after: Row, limit: int) -> list[Row]:
        """Return the next rows behind a key, in the order of the keys."""
        binds = {f"k{n}": value for n, value in enumerate(after)}
        asked = _asked(
            "next_rows" if after else "first_rows", table, key=", ".join(table.key),
            # Of events, the key is put together from other columns.
            columns=", ".join(table.rest if table.name in STORED else table.columns),
            after=", ".join(f":{name}" for name in binds),
        )  # fmt: skip
        return self._reads.execute(asked, {**binds, "limit": limit}).fetchall()

    async def count(self, table: Table) -> int:
        """Return how many rows there are."""
        return int(_one(self._reads, "count_rows", table))

    async def dump(self) -> Dump:
        """Return everything, as of one moment."""
        return doctor.dump(self._reads, self._now())

    async def change(self, change: Change) -> bool:
        """Carry out a change in one transaction; False if its guard refused it."""
        job = Errand(lambda at, now: (_apply(at, change, now), []), asyncio.get_running_loop())
        self._transactions.write([job])
        if job.error is not None:
            raise job.error
        return bool(job.outcome)

    def _now(self) -> int:
        marked = self._reads.execute(SQL.meta, ("clock",)).fetchone()
        return max(self._clock(), marked[0] if marked else 0)


def _asked(name: str, table: Table, **names: str) -> str:
    """Return a template's statement about a table of the model's, as this file keeps it."""
    template: str = OWN.get((table.name, name)) or getattr(SQL, name)
    return named(template, table=STORED.get(table.name, table.name), **names)


def _one(connection: sqlite3.Connection, name: str, table: Table) -> Any:
    return connection.execute(_asked(name, table)).fetchone()[0]


def _apply(connection: sqlite3.Connection, change: Change, now: int) -> bool:
    match change:
        case Release():
            apply(connection, Reap(change.worker, change.known_dead), now)
            return True
        case Close():
            return _close(connection, change.move)
        case Fill():
            return _fill(connection, change)
        case Decide():
            return _changed(connection, SQL.decide_move, {"id": change.move.id})
        case Open():
            return _open(connection, change)
        case TakeBack() | Empty():
            return _take_back(connection, change)
        case Reseal():
            return _reseal(connection, change, now)


def _close(connection: sqlite3.Connection, move: Move) -> bool:
    held = connection.execute(SQL.anything_held).fetchone()[0]
    if held or connection.execute(SQL.is_closed).fetchone()[0]:
        return False
    if move.role == "target" and any(_one(connection, "is_filled", t) for t in TABLES):
        return False
    connection.execute(SQL.close_store, move._asdict())
    told = f"{move.role} {move.place}".replace("'", "''")
    for table in FENCED:
        for verb in VERBS:
            connection.execute(named(SQL.fence, table=table, verb=verb, told=told))
    return True


def _fill(connection: sqlite3.Connection, change: Fill) -> bool:
    move, table = change.move, change.table
    if not _changed(connection, SQL.begin_filling, {"id": move.id, "step": move.step}):
        return False
    columns = ", ".join(table.columns)
    asked = _asked("add_rows", table, columns=columns, places=", ".join("?" * len(table.columns)))
    connection.executemany(asked, change.rows)
    ended = {"id": move.id, "progress": change.progress.to_text()}
    return _changed(connection, SQL.end_filling, ended)


def _open(connection: sqlite3.Connection, change: Open) -> bool:
    if not _changed(connection, SQL.open_filled, {"id": change.move.id}):
        return False
    _unfence(connection)
    # Time goes on from here, whatever the clock of this machine says.
    connection.execute(SQL.mark_clock, (change.now,))
    return True


def _forget(connection: sqlite3.Connection, move: Move) -> bool:
    wanted = {"id": move.id, "role": move.role, "state": move.state}
    if not _changed(connection, SQL.forget_move, wanted):
        return False
    _unfence(connection)
    return True


def _take_back(connection: sqlite3.Connection, change: TakeBack | Empty) -> bool:
    if not _forget(connection, change.move):
        return False
    for table in TABLES if isinstance(change, Empty) else ():
        connection.execute(_asked("empty_table", table))
    return True


def _reseal(connection: sqlite3.Connection, change: Reseal, now: int) -> bool:
    table, key, columns = change.table, change.table.key, change.table.rest
    is_row = _asked("is_row", table, key=", ".join(key), keys=", ".join("?" * len(key)))
    names = {"columns": ", ".join(columns), "places": ", ".join("?" * len(columns))}
    reseal = _asked("reseal_row", table, is_row=is_row, **names)
    drop = _asked("drop_row", table, is_row=is_row, **names)
    missed = 0
    for was, new in change.rows:
        asked = drop if new is None else reseal
        binds = was if new is None else (*new[len(key) :], *was)
        missed += connection.execute(asked, binds).rowcount != 1
    connection.execute(SQL.mark_pruned, (REKEYED, now))
    return not missed


def _unfence(connection: sqlite3.Connection) -> None:
    for table in FENCED:
        for verb in VERBS:
            connection.execute(named(SQL.unfence, table=table, verb=verb))


def _changed(connection: sqlite3.Connection, asked: str, values: dict[str, Any]) -> bool:
    return connection.execute(asked, values).rowcount > 0
