"""A database that is moved, or moved into.

It is closed by triggers on all tables that others write: whoever is connected meets them with the
next write. They let writes pass while the move's row says that it is open, which it does only
inside the mover's transactions: nobody else sees that.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.model.dump import Dump
from holdfast.model.moving import (
    REKEYED,
    TABLES,
    TEXTS,
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
    Value,
    named,
)
from holdfast.model.workers import WorkerRow
from holdfast.model.writes import Reap
from holdfast.stores import processes
from holdfast.stores.postgres import checks, doctor, inspection
from holdfast.stores.postgres.alone import reaping
from holdfast.stores.postgres.connection import Ask, Line
from holdfast.stores.postgres.failures import Conflict, of_a_write, reading
from holdfast.stores.postgres.rounds import as_bytes
from holdfast.stores.postgres.statements import Statement, fragments, queries, statement
from holdfast.stores.postgres.target import BY_ORDER, Target

SQL = queries()
TEXT = fragments()
TAGS = "run_tags"
TAG_COLUMNS = ("ns", "run", "name", "kind", "word", "number")
TRIES = 5
"""How often a change is tried that other writers come in the way of."""


class PostgresSide:
    """One database, through a writing connection and a reading one of its own."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._truths: set[tuple[str, str]] = set()

    @property
    def place(self) -> str:
        """Where it is, as a URL without user and password."""
        return f"postgresql://{self._target.place}"

    async def open(self) -> None:
        """Connect, and create or migrate the schema."""
        self._writes = Line(self._target, {"application_name": "holdfast move"})
        self._reads = Line(self._target, {**BY_ORDER, "application_name": "holdfast move reads"})
        with reading():
            await checks.check(self._writes, self._target)
            await checks.migrate(self._writes)
            self._truths = {(row[0], row[1]) for row in await self._writes.fetch(SQL.truths)}

    async def close(self) -> None:
        """Hang up."""
        await self._writes.close()
        await self._reads.close()

    async def standing(self) -> Standing:
        """Return the time, the move that the database is part of, and who works on it."""
        with reading():
            [[now]] = await self._reads.fetch(SQL.clock)
            moves = await self._reads.fetch(SQL.current_move)
            workers = {each.id: each for each in await inspection.workers(self._reads)}
            holders = await self._reads.fetch(SQL.holders)
            filled = [await self._ask(self._reads, "is_filled", table) for table in TABLES]
        gone: list[tuple[str, bool]] = []
        for id, lease_until, address in holders:
            worker = workers.setdefault(id, WorkerRow(id, lease_until, None, False))
            is_dead = processes.has_ended(address)
            if is_dead or (not worker.is_listening and lease_until <= now):
                gone.append((id, is_dead))
        live = tuple(worker for worker in workers.values() if worker.id not in dict(gone))
        move = Move._make(moves[0]) if moves else None
        return Standing(now, move, not any(filled), live, tuple(gone))

    async def read(self, table: Table, after: Row, limit: int) -> list[Row]:
        """Return the next rows behind a key, in the order of the keys."""
        with reading():
            if table.name == TAGS:
                return await self._read_tags(after, limit)
            asked = named(
                TEXT["next_rows" if after else "first_rows"],
                table=table.name, columns=", ".join(table.columns), key=", ".join(table.key),
                after=", ".join(f":k{n}" for n in range(len(after))),
            )  # fmt: skip
            binds = {f"k{n}": value for n, value in enumerate(after)}
            rows = await self._reads.fetch(statement(asked), **binds, limit=limit)
        return self._taken(table, rows)

    async def count(self, table: Table) -> int:
        """Return how many rows there are."""
        with reading():
            return int(await self._ask(self._reads, "count_rows", table))

    async def dump(self) -> Dump:
        """Return everything, as of one moment."""
        with reading():
            [[now]] = await self._reads.fetch(SQL.clock)
            async with self._reads.transaction(reads=True) as ask:
                return await doctor.dump(ask, now)

    async def change(self, change: Change) -> bool:
        """Carry out a change in one transaction; False if its guard refused it."""
        for tried in range(TRIES):
            try:
                async with self._writes.transaction() as ask:
                    return await self._apply(ask, change)
            except StoreError:
                raise
            except Exception as error:
                meant = of_a_write(error)
                if not isinstance(meant, Conflict):
                    raise meant from error
                if tried == TRIES - 1:
                    raise StoreUnavailable(
                        f"Nothing was written, others came in the way: {meant}. Try again."
                    ) from error
        raise AssertionError("the last try returns or raises")

    # --- changes

    async def _apply(self, ask: Ask, change: Change) -> bool:
        match change:
            case Release():
                reap = Reap(change.worker, change.known_dead)
                await ask(SQL.reap_worker, **reaping(reap, None))
                return True
            case Close():
                return await self._close(ask, change.move)
            case Fill():
                return await self._fill(ask, change)
            case Decide():
                return bool(await ask(SQL.decide_move, id=change.move.id))
            case Open():
                return await self._open(ask, change)
            case TakeBack() | Empty():
                return await self._take_back(ask, change)
            case Reseal():
                return await self._reseal(ask, change)

    async def _close(self, ask: Ask, move: Move) -> bool:
        await ask.script(SQL.lock_tables.text)
        [[held]] = await ask(SQL.anything_held)
        [[closed]] = await ask(SQL.is_closed)
        if held or closed:
            return False
        if move.role == "target":
            for table in TABLES:
                if await self._ask(ask, "is_filled", table):
                    return False
        await ask(SQL.close_store, **move._asdict())
        await ask.script(SQL.fence.text)
        return True

    async def _fill(self, ask: Ask, change: Fill) -> bool:
        move, table = change.move, change.table
        if not await ask(SQL.begin_filling, id=move.id, step=move.step):
            return False
        columns = TAG_COLUMNS if table.name == TAGS else table.columns
        await ask.copy(table.name, columns, self._given(table, change.rows))
        await ask(SQL.end_filling, id=move.id, progress=change.progress.to_text())
        return True

    async def _open(self, ask: Ask, change: Open) -> bool:
        if not await ask(SQL.open_filled, id=change.move.id, now=change.now):
            return False
        await ask.script(SQL.unfence.text)
        return True

    async def _forget(self, ask: Ask, move: Move) -> bool:
        if not await ask(SQL.forget_move, id=move.id, role=move.role, state=move.state):
            return False
        await ask.script(SQL.unfence.text)
        return True

    async def _take_back(self, ask: Ask, change: TakeBack | Empty) -> bool:
        if not await self._forget(ask, change.move):
            return False
        for table in TABLES if isinstance(change, Empty) else ():
            await ask.script(named(TEXT["empty_table"], table=table.name))
        return True

    async def _reseal(self, ask: Ask, change: Reseal) -> bool:
        changed = [(was, new) for was, new in change.rows if new is not None]
        dropped = [(was, was) for was, new in change.rows if new is None]
        done = 0
        for name, rows in (("reseal_row", changed), ("drop_row", dropped)):
            if rows:
                asked, binds = _resealing(TEXT[name], change.table, rows)
                done += len(await ask(asked, **binds))
        await ask(SQL.mark_pruned, key=REKEYED, now=None)
        return done == len(change.rows)

    # --- rows

    async def _ask(self, ask: Ask | Line, name: str, table: Table) -> Any:
        asked = statement(named(TEXT[name], table=table.name))
        [[answer]] = await (ask(asked) if isinstance(ask, Ask) else ask.fetch(asked))
        return answer

    async def _read_tags(self, after: Row, limit: int) -> list[Row]:
        ns, run, name, value = after or ("", "", "", "")
        word = value if isinstance(value, str) else ""
        asked: Statement = SQL.next_tags
        rows = await self._reads.fetch(asked, k0=ns, k1=run, k2=name, k3=word, limit=limit)
        return [(*row[:3], _value(row["kind"], row["word"], row["number"]), row[3]) for row in rows]

    def _taken(self, table: Table, rows: Sequence[Any]) -> list[Row]:
        """Return rows as they go from store to store."""
        texts = [table.columns.index(name) for name in table.as_bytes]
        truths = self._places(table)
        if not texts and not truths:
            return [tuple(row) for row in rows]
        changed = [list(row) for row in rows]
        for row in changed:
            for n in texts:
                row[n] = row[n].decode("utf-8", "surrogatepass")
            for n in truths:
                row[n] = row[n] if row[n] is None else int(row[n])
        return [tuple(row) for row in changed]

    def _given(self, table: Table, rows: Sequence[Row]) -> list[tuple[Any, ...]]:
        """Return rows as this database keeps them."""
        if table.name == TAGS:
            return [_tag(*row) for row in rows]
        texts = [table.columns.index(name) for name in table.as_bytes]
        truths = self._places(table)
        if not texts and not truths:
            return list(rows)
        changed: list[list[Any]] = [list(row) for row in rows]
        for row in changed:
            for n in texts:
                row[n] = as_bytes(row[n])
            for n in truths:
                row[n] = row[n] if row[n] is None else bool(row[n])
        return [tuple(row) for row in changed]

    def _places(self, table: Table) -> list[int]:
        names = enumerate(table.columns)
        return [n for n, name in names if (table.name, name) in self._truths]


def _value(kind: str, word: str | None, number: Decimal | None) -> Value:
    if number is None:
        return word
    return int(number) if kind == "int" else float(number)


def _tag(ns: Value, run: Value, name: Value, value: Value, kind: Value) -> tuple[Any, ...]:
    if isinstance(value, str):
        return ns, run, name, kind, value, None
    return ns, run, name, kind, None, Decimal(value)  # type: ignore[arg-type]


def _resealing(
    text: str, table: Table, rows: Sequence[tuple[Row, Row]]
) -> tuple[Statement, dict[str, Any]]:
    """Return the statement that changes these rows at once, and what it binds."""
    key, columns = table.key, table.rest
    places = [*(f"k{n}" for n in range(len(key))), *(f"w{n}" for n in range(len(columns)))]
    news = [f"n{n}" for n in range(len(columns))]
    values = [(*was, *new[len(key) :]) for was, new in rows]
    kinds = ["int8" if isinstance(value, int) else "text" for value in rows[0][0][: len(key)]]
    kinds += ["text" if name in TEXTS else "bytea" for name in columns] * 2
    bound = [*places, *news]
    asked = named(
        text, table=table.name, names=", ".join(bound),
        arrays=", ".join(f":{name}::{kind}[]" for name, kind in zip(bound, kinds, strict=True)),
        is_row=" AND ".join(f"t.{name} = k{n}" for n, name in enumerate(key)),
        is_same=" AND ".join(
            f"t.{name} IS NOT DISTINCT FROM w{n}" for n, name in enumerate(columns)
        ),
        changes=", ".join(f"{name} = n{n}" for n, name in enumerate(columns)),
    )  # fmt: skip
    return statement(asked), {
        name: list(each) for name, each in zip(bound, zip(*values, strict=True), strict=True)
    }
