"""The store around a store.

Everything above sees payloads as they were given, everything below as they are sealed. Without
keys, and until there is a large payload in the process, `write` is the other store's own. Blobs
are put before the write that names them: if that is refused, or never made, nobody names them, and
they are collected in time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from holdfast.errors import UNREADABLE
from holdfast.model import sizes
from holdfast.model.annotations import LogFilter, LogLine
from holdfast.model.events import Event
from holdfast.model.exports import Export
from holdfast.model.labels import Labels
from holdfast.model.limits import QueueState
from holdfast.model.run import Loaded, Posted, Run
from holdfast.model.schedules import Scheduled, ScheduleFilter
from holdfast.model.secrets import Sealed
from holdfast.model.waits import Wait, WaitFilter
from holdfast.model.writes import Advance, Claim, Claimed, Filter, Notice, Outcome, Page, Write
from holdfast.ports.blobs import BlobStore
from holdfast.ports.jobs import Jobs
from holdfast.ports.keys import Keys
from holdfast.ports.store import Hear, Store
from holdfast.ports.transaction import Work
from holdfast.stores.sealed.blobs import Blobs, Uploads
from holdfast.stores.sealed.inspection import Inspection, codec_of
from holdfast.stores.sealed.jobs import SealedJobs
from holdfast.stores.sealed.opening import Opener, references
from holdfast.stores.sealed.sealing import Sealer, is_any_longer


class Carry(Protocol):
    """What carries writes out."""

    def __call__(self, batch: Sequence[Write]) -> Awaitable[list[Outcome]]:
        """Carry them out."""
        ...


class SealedStore(Inspection):
    """Another store, whose payloads are encrypted with `keys`, and kept in `blobs` from `inline`
    bytes on. Without one of the two, that is not done; what was done before is still read.
    """

    def __init__(
        self,
        inner: Store,
        *,
        keys: Keys | None = None,
        blobs: BlobStore | None = None,
        inline: int = sizes.INLINE,
    ) -> None:
        self.inner, self.keys = inner, keys
        self.now: Callable[[], int] = inner.now  # asked at every turn: without a step in between
        self.jobs: Jobs = inner.jobs if keys is None else SealedJobs(inner, keys)
        self.blobs = None if blobs is None else Blobs(blobs, inner.now)
        self._inline = inline
        looks = keys is not None or inline < sizes.INLINE
        self.write: Carry = self._seal_and_write if looks else inner.write

    # --- the port

    async def open(self) -> None:
        """Open both stores."""
        if self.blobs is not None:
            await self.blobs.store.open()
        await self.inner.open()
        if self.blobs is not None:
            sizes.allow_large(self)

    async def close(self) -> None:
        """Close both stores."""
        sizes.forbid_large(self)
        await self.inner.close()
        if self.blobs is not None:
            await self.blobs.store.close()

    def expect_large(self) -> None:
        """Look for large payloads from now on."""
        self.write = self._seal_and_write

    def _seal_and_write(self, batch: Sequence[Write]) -> Awaitable[list[Outcome]]:
        """Seal the batch, put its blobs, and carry it out."""
        if self.keys is None and not is_any_longer(batch, self._inline):
            return self.inner.write(batch)
        uploads = None if self.blobs is None else self.blobs.uploads()
        sealer = Sealer(self.keys, self._inline, None if uploads is None else uploads.add)
        sealed = [sealer.write(write) for write in batch]
        if uploads is not None and uploads.waiting:
            return self._write_after(uploads, sealed)
        if len(batch) == 1 and type(batch[0]) is Advance:
            return self.inner.write(sealed)  # whoever makes turns reads no row from their outcome
        return self._written(sealed)

    async def _write_after(self, uploads: Uploads, sealed: Sequence[Write]) -> list[Outcome]:
        await uploads.put()
        return await self._written(sealed)

    async def _written(self, sealed: Sequence[Write]) -> list[Outcome]:
        outcomes = await self.inner.write(sealed)
        opener = Opener(self.keys, {})
        return [
            outcome if outcome.run is None else outcome._replace(run=opener.row(outcome.run))
            for outcome in outcomes
        ]

    async def transact(self, work: Work, seconds: float | None = None) -> Outcome:
        """Seal the turn that is made in the transaction; its payloads stay in their rows."""
        if self.keys is None:
            return await self.inner.transact(work, seconds)
        sealer = Sealer(self.keys, self._inline, None)
        outcome = await self.inner.transact(lambda given: sealer.advance(work(given)), seconds)
        row = outcome.run
        return outcome if row is None else outcome._replace(run=Opener(self.keys, {}).row(row))

    async def claim(self, claim: Claim) -> Claimed:
        """Take runs; a first event that cannot be opened is left to whoever loads the run."""
        claimed = await self.inner.claim(claim)
        if self.keys is None and not any(map(codec_of, claimed.first_events.values())):
            return claimed
        opener = await self._opener(references(claimed.first_events.values()))
        first: dict[str, Event] = {}
        for run, event in claimed.first_events.items():
            try:
                first[run] = opener.event(claim.ns, run, event)
            except UNREADABLE:
                continue
        runs, convicts = (tuple(map(opener.row, rows)) for rows in (claimed.runs, claimed.convicts))
        return claimed._replace(runs=runs, convicts=convicts, first_events=first)

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        """Return a run, opened. Raises `CannotDecrypt` or `BlobMissing`."""
        return await self.opened(await self.inner.load(ns, run, after), after)

    async def message(self, ns: str, run: str, id: str) -> Posted | None:
        """Return a message, opened."""
        posted = await self.inner.message(ns, run, id)
        if posted is None:
            return None
        if posted.message is None:
            return posted._replace(run=Opener(self.keys, {}).row(posted.run))
        opener = await self._opener(references(mail=(posted.message,)))
        return Posted(opener.row(posted.run), opener.message(ns, run, posted.message))

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        """Return runs."""
        return list(map(Opener(self.keys, {}).row, await self.inner.find(filter, page)))

    async def labels(self, ns: str, runs: Sequence[str]) -> Mapping[str, Labels]:
        """Return tags and attributes, which are never sealed."""
        return await self.inner.labels(ns, runs)

    async def export(self, ns: str, run: str) -> Export | None:
        """Return everything of a run, opened: it may be read elsewhere."""
        export = await self.inner.export(ns, run)
        if export is None:
            return None
        opener = await self._opener(references(export.events, export.inbox))
        return export._replace(
            run=opener.row(export.run),
            events=opener.events(ns, run, export.events),
            inbox=tuple(opener.message(ns, run, message) for message in export.inbox),
        )

    async def queues(self, ns: str) -> list[QueueState]:
        """Return the managed queues."""
        return await self.inner.queues(ns)

    async def schedules(self, wanted: ScheduleFilter) -> list[Scheduled]:
        """Return schedules; a worker is not given one whose key is not here."""
        found = await self.inner.schedules(wanted)
        opener, opened = Opener(self.keys, {}), list[Scheduled]()
        for row in found:
            try:
                opened.append(opener.schedule(row))
            except UNREADABLE:
                if not wanted.workflows:
                    opened.append(row)
        return opened

    async def secrets(self, ns: str, run: str) -> tuple[Sealed, ...]:
        """Return what a run was given for its steps, encrypted: who uses them has the keys."""
        return await self.inner.secrets(ns, run)

    async def logs(self, wanted: LogFilter) -> list[LogLine]:
        """Return lines, opened."""
        opener = Opener(self.keys, {})
        lines = await self.inner.logs(wanted)
        return [opener.line(wanted.ns, wanted.run, line) for line in lines]

    async def waits(self, wanted: WaitFilter) -> list[Wait]:
        """Return what runs wait for, opened."""
        opener = Opener(self.keys, {})
        found = await self.inner.waits(wanted)
        return [opener.wait(wait, is_listed=not wanted.run) for wait in found]

    def listen(
        self, hear: Hear, *, worker: str = "", near: bool = False, turns: bool = True
    ) -> Callable[[], None]:
        """Have notices heard with their events opened, if no blob is to be fetched for that."""
        if self.keys is None:
            return self.inner.listen(hear, worker=worker, near=near, turns=turns)

        def hear_opened(notices: Sequence[Notice]) -> None:
            hear(
                [each if each.event is None else self._opened(each, each.event) for each in notices]
            )

        return self.inner.listen(hear_opened, worker=worker, near=near, turns=turns)

    def _opened(self, notice: Notice, event: Event) -> Notice:
        known: Mapping[str, bytes] = {} if self.blobs is None else self.blobs.known
        try:
            return notice._replace(
                event=Opener(self.keys, known).event(notice.ns, notice.run, event)
            )
        except UNREADABLE:
            return notice  # whoever waits for the run looks for itself
