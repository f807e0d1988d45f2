"""The part of a store in which jobs live: those who do them take them from here."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.jobs import ClaimedJobs, Job, JobClaim, JobFilter


class Jobs(Protocol):
    """Keeps jobs. Both methods may raise `StoreUnavailable`: then nothing was written."""

    async def claim(self, claim: JobClaim) -> ClaimedJobs:
        """Take jobs for a worker, renewing its lease in the same commit, and look at the rest.

        Those of the highest priority first, and of those the ones that have been due longest; none
        of a run that is paused. Writes nothing if there is nothing to take.
        Raises `OutcomeUnknown`.
        """
        ...

    async def find(self, wanted: JobFilter) -> list[Job]:
        """Return jobs, those first that are taken first."""
        ...
