"""The jobs of the store around a store: their arguments are opened for whoever does them."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.errors import UNREADABLE
from holdfast.model.jobs import ClaimedJobs, Job, JobClaim, JobFilter
from holdfast.ports.keys import Keys
from holdfast.ports.store import Store
from holdfast.stores.sealed.opening import Opener


class SealedJobs:
    """The jobs of another store."""

    def __init__(self, inner: Store, keys: Keys | None) -> None:
        self._inner, self._opener = inner, Opener(keys, {})

    async def claim(self, claim: JobClaim) -> ClaimedJobs:
        """Take jobs. One whose key is not here is left out: it goes on with its holder's lease."""
        claimed = await self._inner.jobs.claim(claim)
        return claimed._replace(
            jobs=tuple(self._opened(claimed.jobs)), held=tuple(self._opened(claimed.held))
        )

    async def find(self, wanted: JobFilter) -> list[Job]:
        """Return jobs; the arguments of one whose key is not here stay as they are."""
        found = await self._inner.jobs.find(wanted)
        known = {job.place: job for job in self._opened(found)}
        return [known.get(job.place, job) for job in found]

    def _opened(self, jobs: Iterable[Job]) -> list[Job]:
        opened: list[Job] = []
        for job in jobs:
            try:
                opened.append(self._opener.job(job))
            except UNREADABLE:
                continue
        return opened
