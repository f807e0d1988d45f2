"""Everything from one store to another, by changes that are each one transaction in one of them.

1. The source is closed: from then on it takes no writes, of nobody.
2. The target, which must be empty, is closed to all but the mover.
3. Rows are copied in batches; how far it has come is kept in the target, in each transaction. The
   blobs that rows name are carried first.
4. What the target holds is read back and compared with what was read, and both are examined.
5. The source says that it is moved. This decides: before it a move can be taken back, after it not.
6. The target is opened.

Whoever is killed between two of them, or does not know whether the last one happened, moves again:
both stores say where it was, and each change is refused if it has been made already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from holdfast.errors import MoveRefused
from holdfast.model.dump import Dump
from holdfast.model.moving import (
    TABLES,
    Close,
    Decide,
    Empty,
    Fill,
    Move,
    Open,
    Progress,
    Release,
    Row,
    Standing,
    Sum,
    Table,
    TakeBack,
)
from holdfast.model.workers import WorkerRow
from holdfast.ports.moving import Side

BATCH_ROWS = 2_000
BATCH_BYTES = 4 * 2**20
"""About so much is in memory at a time: fewer rows are read at once where they are large."""
BEHIND = 5_000_000
"""Microseconds by which the target's clock may be behind: that long is waited for it."""
TRIES = 3


class Sight(NamedTuple):
    """How far a move has come."""

    stage: str
    """`copy` or `verify`."""
    table: str
    rows: int


class Moved(NamedTuple):
    """What was moved."""

    id: str
    source: str
    target: str
    rows: dict[str, int]


Carry = Callable[[Sequence[Row]], Awaitable[None]]
"""Brings what rows name and do not hold to where the target looks for it."""
Examine = Callable[[Dump], Sequence[str]]
"""Looks for what does not hold in a store, and says it; nothing is what you want."""


class Mover:
    """Moves from one open side to the other. `tell` hears how far it has come; `carry` is called
    with rows before they are written.
    """

    def __init__(
        self, source: Side, target: Side, *, id: str,
        examine: Examine | None = None, carry: Carry | None = None,
        tell: Callable[[Sight], None] = lambda sight: None,
    ) -> None:  # fmt: skip
        self._source, self._target, self._id = source, target, id
        self._examine, self._carry, self._tell = examine, carry, tell

    async def move(self) -> Moved:
        """Move everything, or go on where it was. Raises `MoveRefused`, and says what to do."""
        here, there = await self._source.standing(), await self._target.standing()
        leaving = await self._close_source(here, there)
        coming = await self._close_target(leaving, there)
        if coming.state == "filling":
            progress = await self._copied(coming)
            if leaving.state == "moving":
                await self._verify(progress)
                await self._decide(leaving)
            await self._open(coming)
        else:
            progress = Progress.from_text(coming.progress)
        sums = {name: summed.rows for name, summed in progress.done}
        return Moved(leaving.id, self._source.place, self._target.place, sums)

    # --- closing both sides

    async def _close_source(self, here: Standing, there: Standing) -> Move:
        """Return the move that the source is closed by: the one it was, or a new one."""
        place = self._target.place
        for _ in range(TRIES):
            if (move := here.move) is not None and move.role == "source":
                known = there.move.id if there.move is not None else ""
                if known != move.id and (move.state == "moved" or move.place != place):
                    raise _elsewhere(self._source.place, move)
                return move
            self._must_fit(here, there)
            for worker, known_dead in here.dead:
                await self._source.change(Release(worker, known_dead))
            move = Move(self._id, "source", place, "moving", here.now)
            if await self._source.change(Close(move)):
                return move
            here = await self._source.standing()  # a worker came, or another mover
        raise MoveRefused(f"{self._source.place} is in use. Stop its workers, and try again.")

    def _must_fit(self, here: Standing, there: Standing) -> None:
        if here.move is not None and here.move.state == "filling":
            raise _half_filled(self._source.place, here.move)
        if here.live:
            raise _in_use(self._source.place, here.live, here.now)
        if there.move is not None and there.move.state == "filling":
            raise _half_filled(self._target.place, there.move)
        if there.live:
            raise _in_use(self._target.place, there.live, there.now)
        if not there.is_empty or there.move is not None:
            raise _not_empty(self._target.place)
        if here.now - there.now > BEHIND:
            behind = (here.now - there.now) / 1e6
            raise MoveRefused(
                f"The clock of {self._target.place} is {behind:.0f} seconds behind that of "
                f"{self._source.place}. Set it, and move again; nothing was changed."
            )

    async def _close_target(self, leaving: Move, there: Standing) -> Move:
        """Return the move that the target is closed by, or was opened by."""
        for _ in range(TRIES):
            if (move := there.move) is not None and move.id == leaving.id:
                if move.role == "source":
                    await self._source.change(TakeBack(leaving))
                    raise MoveRefused(
                        f"{self._source.place} and {self._target.place} are one store. Name "
                        f"another to move into; nothing was changed."
                    )
                return move
            if move is not None and move.state == "filling":
                raise _half_filled(self._target.place, move)
            for worker, known_dead in there.dead:
                await self._target.change(Release(worker, known_dead))
            move = Move(leaving.id, "target", self._source.place, "filling", there.now)
            if there.is_empty and await self._target.change(Close(move)):
                return move
            there = await self._target.standing()
            if not there.is_empty and (there.move is None or there.move.id != leaving.id):
                raise _not_empty(self._target.place)
        raise MoveRefused(f"{self._target.place} is in use. Stop its workers, and try again.")

    # --- copying

    async def _copied(self, move: Move) -> Progress:
        """Copy what is not yet copied; return what there is."""
        progress = Progress.from_text(move.progress)
        known = {name for name, _ in progress.done}
        for table in TABLES:
            if table.name in known:
                continue
            if progress.table != table.name:
                progress = Progress(progress.done, table.name)
            move, progress = await self._copy(move, table, progress)
        return progress

    async def _copy(self, move: Move, table: Table, progress: Progress) -> tuple[Move, Progress]:
        limit = BATCH_ROWS // 10
        while True:
            rows = await self._source.read(table, progress.after, limit)
            if not rows:
                done = (*progress.done, (table.name, progress.so_far))
                progress = Progress(done)
            else:
                key = rows[-1][: len(table.key)]
                so_far = progress.so_far.plus(rows)
                progress = Progress(progress.done, table.name, key, so_far)
                if self._carry is not None:
                    await self._carry(rows)
            if not await self._target.change(Fill(move, table, rows, progress)):
                raise MoveRefused(
                    "Another process moves the same store at the same time. Let one of them go on."
                )
            move = move._replace(step=move.step + 1)
            if not rows:
                return move, progress
            self._tell(Sight("copy", table.name, progress.so_far.rows))
            limit = _next_limit(rows)

    # --- verifying and ending

    async def _verify(self, progress: Progress) -> None:
        """Compare what the target holds with what was read. Raises `MoveRefused`."""
        sums = dict(progress.done)
        for table in TABLES:
            name, summed = table.name, sums[table.name]
            counted = await self._source.count(table)
            found = await self._sum(table)
            if found != summed or counted != summed.rows:
                raise MoveRefused(
                    f"{name} differs: the source holds {counted:,} rows, {summed.rows:,} were read "
                    f"and {found.rows:,} arrived. Nothing is lost: the source is as it was. Take "
                    f"the move back with `holdfast move --undo`, and report this as a bug."
                )
        if self._examine is not None:
            for side in (self._source, self._target):
                wrong = self._examine(await side.dump())
                if wrong:
                    raise MoveRefused(
                        f"{side.place} is not sound: {'; '.join(wrong[:3])}. The move stopped "
                        f"before it counted. Take it back with `holdfast move --undo`, and see "
                        f"`holdfast doctor`."
                    )

    async def _sum(self, table: Table) -> Sum:
        summed, limit = Sum(), BATCH_ROWS // 10
        after: Row = ()
        while rows := await self._target.read(table, after, limit):
            summed, after = summed.plus(rows), rows[-1][: len(table.key)]
            self._tell(Sight("verify", table.name, summed.rows))
            limit = _next_limit(rows)
        return summed

    async def _decide(self, leaving: Move) -> None:
        if await self._source.change(Decide(leaving)):
            return
        move = (await self._source.standing()).move
        if move is None or move.id != leaving.id or move.state != "moved":
            raise MoveRefused(
                f"The move was taken back while it went on: {self._source.place} is in use again. "
                f"Empty {self._target.place} with `holdfast move --undo`."
            )

    async def _open(self, coming: Move) -> None:
        now = (await self._source.standing()).now
        while not await self._target.change(Open(coming, now)):
            there = await self._target.standing()
            if there.move is not None and there.move.state == "filled":
                return
            if there.now >= now:
                continue
            # Time must not go back for those who work there.
            await asyncio.sleep(min((now - there.now) / 1e6, 1.0))


async def take_back(source: Side, target: Side | None) -> Move:
    """Open a source again whose move has not been decided, and empty the target if it is named.

    Raises `MoveRefused` if there is nothing to take back.
    """
    leaving = (await source.standing()).move
    coming = None if target is None else (await target.standing()).move
    if leaving is not None and leaving.role != "source":
        leaving = None
    if coming is not None and not _is_of(coming, leaving, source):
        coming = None
    taken = leaving or coming
    if taken is None:
        raise MoveRefused(f"{source.place} is not being moved. There is nothing to take back.")
    if leaving is not None and not await source.change(TakeBack(leaving._replace(state="moving"))):
        raise MoveRefused(
            f"{source.place} was moved to {leaving.place}, where its runs go on. It cannot be "
            f"taken back; move them into an empty store instead."
        )
    if target is not None and coming is not None:
        await target.change(Empty(coming))
    return taken


def _is_of(coming: Move, leaving: Move | None, source: Side) -> bool:
    """Tell whether a half-filled store was filled by this move, or by one from here that was
    taken back: never what a source that is moved still needs."""
    if coming.state != "filling":
        return False
    return coming.id == leaving.id if leaving is not None else coming.place == source.place


def _next_limit(rows: Sequence[Row]) -> int:
    size = sum(len(value) for row in rows for value in row if isinstance(value, str | bytes))
    each = max(size // len(rows), 1)
    return min(max(BATCH_BYTES // each, 1), BATCH_ROWS)


def _in_use(place: str, live: Sequence[WorkerRow], now: int) -> MoveRefused:
    listed = ", ".join(worker.id for worker in live[:3])
    silent = [w for w in live if not w.is_listening and w.lease_until is not None]
    ends = max((w.lease_until or 0 for w in silent), default=0)
    wait = f"; one that was killed counts for {(ends - now) / 1e6:.0f} more seconds" * bool(silent)
    return MoveRefused(
        f"{place} has workers: {listed}{wait}. Stop them, and move again; nothing was changed."
    )


def _elsewhere(place: str, move: Move) -> MoveRefused:
    if move.state == "moved":
        return MoveRefused(f"{place} was moved to {move.place}. Move that one.")
    return MoveRefused(
        f"{place} is being moved to {move.place}. Name that one to go on, or take the move back "
        f"with `holdfast move --undo`."
    )


def _half_filled(place: str, move: Move) -> MoveRefused:
    return MoveRefused(
        f"{place} holds the beginning of a move from {move.place}. Finish that one, empty it with "
        f"`holdfast move --undo`, or name another store."
    )


def _not_empty(place: str) -> MoveRefused:
    return MoveRefused(
        f"{place} is not empty. Name an empty store, or one that is not there yet; a move that has "
        f"begun is taken back with `holdfast move --undo`."
    )
