"""Bugs in the handling of cached results, planted on purpose."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from holdfast.model.cache import CachedResult, CacheKey
from holdfast.model.writes import Advance, Outcome, Remember, Write
from holdfast.testing.crash_world import Plant
from tests.crash.planted import Wrapper


class KeepsFirst(Wrapper):
    """Keeps a result for others in a commit of its own, before the one that records it."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        return [await self._apart(write) for write in batch]

    async def _apart(self, write: Write) -> Outcome:
        if isinstance(write, Advance) and write.status == "running":
            kept = tuple(send for send in write.sends if isinstance(send, Remember))
            if kept:
                await self.inner.write([write._replace(events=(), sends=kept)])
                rest = tuple(send for send in write.sends if send not in kept)
                write = write._replace(sends=rest)
        (outcome,) = await self.inner.write([write])
        return outcome


@contextmanager
def never_expiring() -> Iterator[Plant]:
    """Uses for ever what was kept once."""
    known: dict[CacheKey, CachedResult] = {}

    class Stale(Wrapper):
        async def write(self, batch: Sequence[Write]) -> list[Outcome]:
            for write in batch:
                sends = write.sends if isinstance(write, Advance) else ()
                known.update(
                    (each.kept.at, each.kept) for each in sends if isinstance(each, Remember)
                )
            return await self.inner.write(batch)

        async def recall(
            self, ns: str, wanted: Sequence[CacheKey]
        ) -> Mapping[CacheKey, CachedResult]:
            found = await self.inner.recall(ns, wanted)
            return {key: found.get(key, known[key]) for key in wanted if key in known}

    yield Plant(below=Stale)
