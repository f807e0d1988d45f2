"""What a worker asks for, and when it looks at more than the runs it takes."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from holdfast.model.run import SUSPECT
from holdfast.model.writes import Claim, Notice

if TYPE_CHECKING:
    from holdfast.hosts.worker.worker import Worker
    from holdfast.model.writes import Claimed

CLAIM_LIMIT = 100
"""Runs that one claim takes."""
HEAD_START = 0.002
"""Seconds that runs which were just taken have for themselves, before we look at all others."""
SETTLED = 0.05
"""Seconds after which a worker has begun: its first runs go on before its chores do."""
FEW = 8
"""More runs than that are not asked for by their names."""
REST = 0.02
"""The same, if there was no hint of anything but runs to take."""


class Room:
    """The places that a worker has for runs. Used as a block, it keeps one for a start.

    A place is taken while a run is in hand, and promised while a start or a claim that may bring
    one is on its way.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._starts = self._claimed = 0
        self.is_crowded = False
        """More runs may wait than there was room for at the last claim."""

    @property
    def left(self) -> int:
        """How many places are neither taken nor promised."""
        if self._worker.steps.calls.is_stuck:
            return 0
        taken = len(self._worker.sessions) + self._starts + self._claimed
        return max(self._worker.settings.runs - taken, 0)

    def __enter__(self) -> str:
        self._starts += 1
        return self._worker.id

    def __exit__(self, *_: object) -> None:
        self._starts -= 1

    async def claim(self, claim: Claim) -> Claimed:
        """Claim, while its places are promised to nobody else."""
        worker, self._claimed = self._worker, claim.limit
        try:
            return await worker.store.claim(claim)
        finally:
            self._claimed = 0


def claim_of(worker: Worker, *, schedules: bool, eager: bool, hints: tuple[str, ...]) -> Claim:
    """Return a claim for as many runs as there is room for."""
    sessions, settings = worker.sessions, worker.settings
    suspects = 1 - min(1, sum(each.run.strikes >= SUSPECT for each in sessions.values()))
    return Claim(
        ns=worker.app.namespace,
        worker=worker.id,
        workflows=worker.app.versions.claims(),
        limit=min(worker.room.left, CLAIM_LIMIT),
        lease=round(settings.lease * 1e6),
        suspects=suspects,
        info=worker.info,
        eager=eager,
        strikes=settings.strikes,
        hints=hints,
        queues=worker.queues,
        schedules=schedules,
    )


class Rest:
    """The time between a claim that only took runs and the look at all others that it owes.

    Hints of more runs do not put that look off.
    """

    def __init__(self, ns: str) -> None:
        self._ns = ns
        self._until = self._sleeps_until = math.inf
        self._is_more_heard = False
        self._hints: list[str] = []

    @property
    def is_over(self) -> bool:
        """Tell whether a look is due."""
        return asyncio.get_running_loop().time() >= self._until

    def hear(self, notice: Notice) -> None:
        """Take a hint. Only a look shows what is no run to take: that is not put off for long."""
        self._is_more_heard = self._is_more_heard or notice.what != "ready"
        self._hints.append(notice.run if notice.ns == self._ns else "")

    def hints(self) -> tuple[str, ...]:
        """Return which runs there was a hint of since the last time, if it was of nothing else."""
        hints, self._hints = tuple(self._hints), []
        return hints if all(hints) and len(hints) <= FEW else ()

    def begin(self) -> float:
        """Return how long to wait, after a claim that only took runs."""
        now = asyncio.get_running_loop().time()
        head_start = HEAD_START if self._is_more_heard else REST
        self._until = min(self._until, now + head_start, self._sleeps_until)
        return max(self._until - now, 0)

    def end(self, pause: float) -> float:
        """Return the pause after a look, which is over sooner if something is due."""
        self._until, self._is_more_heard = math.inf, False
        self._sleeps_until = asyncio.get_running_loop().time() + pause
        return pause
