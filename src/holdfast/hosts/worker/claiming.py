"""What a worker asks for, and when it looks at more than the runs it takes."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from holdfast.model.run import SUSPECT
from holdfast.model.writes import Claim, Notice

if TYPE_CHECKING:
    from holdfast.hosts.worker.worker import Worker

CLAIM_LIMIT = 100
"""Runs that one claim takes."""
HEAD_START = 0.002
"""Seconds that runs which were just taken have for themselves, before we look at all others."""
FEW = 8
"""More runs than that are not asked for by their names."""
REST = 0.02
"""The same, if there was no hint of anything but runs to take."""


def claim_of(worker: Worker, *, schedules: bool, eager: bool, hints: tuple[str, ...]) -> Claim:
    """Return a claim for as many runs as there is room for."""
    sessions, settings = worker.sessions, worker.settings
    room = min(settings.runs - len(sessions), CLAIM_LIMIT)
    suspects = 1 - min(1, sum(each.run.strikes >= SUSPECT for each in sessions.values()))
    return Claim(
        ns=worker.app.namespace,
        worker=worker.id,
        workflows=worker.app.versions.claims(),
        limit=max(room, 0),
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
