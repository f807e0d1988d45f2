"""Bugs in the handling of jobs, planted on purpose."""

from collections.abc import Sequence

from holdfast.model.jobs import JobFilter
from holdfast.model.writes import Advance, Outcome, Put, Write
from tests.crash.planted import Wrapper


class TakesFromAnybody(Wrapper):
    """Takes the outcome of a job from whoever brings it, whoever holds the job by now."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        return await self.inner.write([await self._unfenced(write) for write in batch])

    async def _unfenced(self, write: Write) -> Write:
        if not isinstance(write, Put) or write.ends is None:
            return write
        for job in await self.inner.jobs.find(JobFilter(write.ns, write.run)):
            if job.key == write.ends.key:
                held = write.ends._replace(owner=job.owner, epoch=job.epoch)
                return write._replace(ends=held)
        return write


class LeavesGhosts(Wrapper):
    """Leaves a job in its queue that its run no longer waits for."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        return await self.inner.write([_undropped(write) for write in batch])


def _undropped(write: Write) -> Write:
    if isinstance(write, Advance) and write.waits is not None:
        return write._replace(waits=write.waits._replace(drops=()))
    return write
