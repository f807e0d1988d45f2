"""Going on after a crash: whoever starts takes over at once what processes of this machine left.

A look at the queue shows all of it, but is the longest statement there is, and a new session plans
it before it answers. Who holds runs is asked with the greeting. If one of them has ended, its runs
are taken from it in one statement, and the queue is looked at when they have begun. Meanwhile
another line, which has nothing to do yet, reads the history of one of them *ahead*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Self

from holdfast.model.run import SUSPECT, Loaded, Run
from holdfast.model.writes import Claim, Claimed
from holdfast.stores import processes
from holdfast.stores.postgres import claims, reader
from holdfast.stores.postgres.connection import Line
from holdfast.stores.postgres.statements import queries

SQL = queries()


class Left(NamedTuple):
    """A worker that held runs, the name of its process, and one of the runs."""

    worker: str
    address: str
    ns: str
    run: str
    workflow: str
    version: str

    def is_wanted(self, claim: Claim) -> bool:
        """Tell whether the run is one of those that a claim asks for."""
        names = (self.workflow, f"{self.workflow}/{self.version}")
        return self.ns == claim.ns and any(name in claim.workflows for name in names)


def left_behind(holders: Sequence[str]) -> Sequence[Left]:
    """Return those holders whose process is one of this machine's, and over."""
    told = (Left._make(holder.split("\n")) for holder in holders)
    return [left for left in told if processes.has_ended(left.address)]


async def rehearse_taking(line: Line) -> None:
    """Have a session plan what it will be asked next, by asking it of nobody.

    A worker is being made meanwhile, and has nothing to ask yet.
    """
    nobody = claims.taking_over(Claim("", "", (), limit=0, lease=0), "", "", None)
    await line.fetch(SQL.take_over, **nobody)


async def take_over(line: Line, claim: Claim, dead: Sequence[Left], now: int | None) -> Claimed:
    """Take the runs of the dead, as far as the claim goes; the rest goes back to the queue."""
    runs, reaped = list[Run](), list[tuple[str, int]]()
    for left in dead:
        held = sum(run.strikes >= SUSPECT for run in runs)
        rest = claim._replace(
            limit=max(claim.limit - len(runs), 0), suspects=max(claim.suspects - held, 0)
        )
        given = claims.taking_over(rest, left.worker, left.address, now)
        rows = await line.fetch(SQL.take_over, **given)
        runs += [Run._make(row[1:]) for row in rows if row[1] is not None]
        if freed := rows[0][0]:
            reaped.append((left.worker, freed))
    return Claimed(runs=tuple(runs), reaped=tuple(reaped))


class Ahead:
    """The history of one run, read while the run is being taken over.

    It counts only if the row as it was taken shows that nothing else came in between: the history
    and the inbox are as long as they were, and the epoch is the same, or the next one. A message
    that comes later is heard of like any other: the row is not read again for it.
    """

    def __init__(self, line: Line, left: Left) -> None:
        self._left = left
        self._taken: Run | None = None
        self._reading = asyncio.create_task(reader.load(line, left.ns, left.run, 0))
        self._reading.add_done_callback(_heard)

    @classmethod
    def of(cls, dead: Sequence[Left], claim: Claim, line: Line) -> Self | None:
        """Begin to read what a claim will want to have read."""
        wanted = (left for left in dead if left.is_wanted(claim))
        return next((cls(line, left) for left in wanted), None)

    def is_of(self, ns: str, run: str) -> bool:
        """Tell whether it is of this run."""
        return (ns, run) == (self._left.ns, self._left.run)

    def know(self, taken: Sequence[Run]) -> None:
        """Remember the run's row as it was taken, if it is among those that were."""
        self._taken = next((run for run in taken if self.is_of(run.ns, run.id)), None)

    async def loaded(self) -> Loaded | None:
        """Return the run as it was taken, if its history is the one that was read ahead."""
        taken = self._taken
        if taken is None:
            return None
        await asyncio.wait((self._reading,))
        if self._reading.cancelled() or self._reading.exception() is not None:
            return None
        ahead = self._reading.result()
        if ahead is None or _length(ahead.run) != _length(taken):
            return None
        is_next = 0 <= taken.epoch - ahead.run.epoch <= 1
        return ahead._replace(run=taken) if is_next else None


def _length(run: Run) -> tuple[int, int, int]:
    """Return how much has happened to a run: each message and each event counts."""
    return run.seq, run.inbox_seq, run.inbox_read


def _heard(reading: asyncio.Task[Loaded | None]) -> None:
    if not reading.cancelled():
        reading.exception()  # whoever wants the run reads it anyway, and will meet it again
