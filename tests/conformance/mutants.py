"""Stores that are broken on purpose. The suite must turn red on each of them.

Each is the memory store with one classic mistake; its docstring says which.
"""

import json
from collections.abc import Callable, Sequence

from holdfast.model.run import Loaded, Run
from holdfast.model.writes import (
    Advance,
    Annotate,
    Claim,
    Claimed,
    Create,
    Filter,
    Import,
    Move,
    Outcome,
    Page,
    Put,
    Reap,
    Renew,
    Write,
)
from holdfast.stores.memory import MemoryStore
from holdfast.stores.notices import notices_of


class Mutant(MemoryStore):
    """Changes writes on their way in, or outcomes on their way out."""

    def change(self, write: Write) -> Write:
        return write

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        return await super().write([self.change(write) for write in batch])

    def row(self, ns: str, run: str) -> Run | None:
        return self._tables.runs.get((ns, run))


class NoFence(Mutant):
    """A commit is accepted whatever epoch it was made under."""

    def change(self, write: Write) -> Write:
        run = self.row(write.ns, write.run) if isinstance(write, Advance) else None
        if isinstance(write, Advance) and run is not None:
            return write._replace(owner=run.owner or "", epoch=run.epoch)
        return write


class FencesByEpoch(Mutant):
    """A commit is accepted whoever held the run, if only the epoch is that of the row."""

    def change(self, write: Write) -> Write:
        run = self.row(write.ns, write.run) if isinstance(write, Advance | Annotate) else None
        if isinstance(write, Advance | Annotate) and run is not None:
            return write._replace(owner=run.owner or "")
        return write


class HearsZombies(Mutant):
    """Log lines and heartbeats are kept whoever says them."""

    def change(self, write: Write) -> Write:
        run = self.row(write.ns, write.run) if isinstance(write, Annotate) else None
        if isinstance(write, Annotate) and run is not None:
            return write._replace(owner=run.owner or "", epoch=run.epoch)
        return write


class NoSequenceCheck(Mutant):
    """A commit made on an older history is renumbered and accepted."""

    def change(self, write: Write) -> Write:
        run = self.row(write.ns, write.run) if isinstance(write, Advance) else None
        if isinstance(write, Advance) and run is not None:
            events = tuple(e._replace(seq=run.seq + n) for n, e in enumerate(write.events, start=1))
            return write._replace(seq=run.seq, events=events)
        return write


class ParksWithMail(Mutant):
    """Parking does not look whether a message came: the wake-up is lost."""

    def change(self, write: Write) -> Write:
        return write._replace(inbox_seq=None) if isinstance(write, Advance) else write


class FiresEarly(Mutant):
    """Timers trust the host's clock instead of the store's."""

    def change(self, write: Write) -> Write:
        return write._replace(not_before=0) if isinstance(write, Advance) else write


class IgnoresCancel(Mutant):
    """Commits that do not take the cancel are recorded all the same."""

    def change(self, write: Write) -> Write:
        return write._replace(takes_cancel=True) if isinstance(write, Advance) else write


class DoublesMessages(Mutant):
    """Every message gets a fresh id: a repeat is taken for a new one."""

    count = 0

    def change(self, write: Write) -> Write:
        if not isinstance(write, Put):
            return write
        self.count += 1
        return write._replace(message=write.message._replace(id=f"{write.message.id}{self.count}"))


class ReapsTheLiving(Mutant):
    """Reaping does not look at the lease again inside the write."""

    def change(self, write: Write) -> Write:
        return write._replace(known_dead=True) if isinstance(write, Reap) else write


class ForgetsLeases(Mutant):
    """Renewals are acknowledged and not stored."""

    def change(self, write: Write) -> Write:
        return write._replace(lease=0) if isinstance(write, Renew) else write


class OverwritesClosed(Mutant):
    """Terminal is not terminal: a move works from any status."""

    def change(self, write: Write) -> Write:
        if not isinstance(write, Move):
            return write
        run = self.row(write.ns, write.run)
        return write._replace(origins=frozenset({run.status}) if run else write.origins)


class SupersedesTooMuch(Mutant):
    """A retry takes every event back instead of those that led to the failure."""

    def change(self, write: Write) -> Write:
        if not (isinstance(write, Move) and write.reopens):
            return write
        run = self.row(write.ns, write.run)
        return write._replace(supersedes=tuple(range(1, run.seq + 1)) if run else ())


class OneNamespace(Mutant):
    """The namespace is left out of the runs' key."""

    def change(self, write: Write) -> Write:
        if isinstance(write, Create | Put | Advance | Move):
            return write._replace(ns="default")
        return write

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        return await super().load("default", run, after)


class ForgetsTheFirstMessage(Mutant):
    """A start makes the run without the message it was to bring."""

    def change(self, write: Write) -> Write:
        return write._replace(message=None) if isinstance(write, Create) else write


class RepliesTooLate(Mutant):
    """What a turn says to a message is lost."""

    def change(self, write: Write) -> Write:
        return write._replace(replies=()) if isinstance(write, Advance) else write


class ForgetsTheUndecided(Mutant):
    """An update that was read is not given to whoever takes the run over."""

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        loaded = await super().load(ns, run, after)
        if loaded is None:
            return None
        mail = tuple(each for each in loaded.mail if each.n > loaded.run.inbox_read)
        return loaded._replace(mail=mail)


class NoRollback(Mutant):
    """A batch that fails in the middle leaves its first half."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        return [outcome for each in batch for outcome in await super(Mutant, self).write([each])]


class KeepsEpoch(Mutant):
    """A claim does not raise the epoch."""

    async def claim(self, claim: Claim) -> Claimed:
        claimed = await super().claim(claim)
        kept = tuple(run._replace(epoch=run.epoch - 1) for run in claimed.runs)
        for run in kept:
            self._tables.runs[run.ns, run.id] = run
        return claimed._replace(runs=kept)


class ClaimsTwice(Mutant):
    """A held run that has not moved yet is given to a second worker too."""

    async def claim(self, claim: Claim) -> Claimed:
        held = [run for run in self._tables.runs.values() if run.owner and run.seq == 1]
        claimed = await super().claim(claim)
        return claimed._replace(runs=claimed.runs + tuple(held[: claim.limit]))


class ServesAll(Mutant):
    """A claim takes from every queue, whatever it names."""

    async def claim(self, claim: Claim) -> Claimed:
        return await super().claim(claim._replace(queues=None))


class NoPriority(Mutant):
    """Runs go in the order of their age alone."""

    def change(self, write: Write) -> Write:
        return write._replace(priority=3) if isinstance(write, Create) else write


class PagesByNumber(Mutant):
    """Pages are cut by offset, so that a run started meanwhile shifts them."""

    pages: dict[Filter, int]

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        if page.before_at is None:
            self.pages = {filter: 0}
        offset = self.pages.get(filter, 0)
        runs = await super().find(filter, Page(limit=10_000))
        self.pages[filter] = offset + page.limit
        return runs[offset : offset + page.limit]


class AnyTermWillDo(Mutant):
    """A filter is taken for a choice: one of its conditions is enough."""

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        found: dict[str, Run] = {}
        for term in filter.terms or (None,):
            terms = (term,) if term else ()
            runs = await super().find(filter._replace(terms=terms), page)
            found.update({run.id: run for run in runs})
        return sorted(found.values(), key=lambda run: (run.created_at, run.id), reverse=True)


class KeepsTags(Mutant):
    """Tags of a forgotten run stay, and fall to the next of its id."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        labels = dict(self._tables.labels)
        outcomes = await super().write(batch)
        self._tables.labels.update(labels)
        return outcomes


class ImportsAwake(Mutant):
    """An imported run that was open goes on by itself."""

    def change(self, write: Write) -> Write:
        if not isinstance(write, Import):
            return write
        run = write.export.run
        if run.reason != "imported":
            return write
        awake = run._replace(status="pending", wake_at=1)
        return write._replace(export=write.export._replace(run=awake))


class LosesMail(Mutant):
    """Messages of a run that goes back are not given back to it."""

    def change(self, write: Write) -> Write:
        if isinstance(write, Move) and write.rewind is not None:
            return write._replace(rewind=write.rewind._replace(messages=()))
        return write


class StaysCancelled(Mutant):
    """A run that goes back before its cancel can never be cancelled again."""

    def change(self, write: Write) -> Write:
        if isinstance(write, Move) and write.rewind is not None:
            return write._replace(rewind=write.rewind._replace(forgets_cancel=False))
        return write


class ForksTheUnknown(Mutant):
    """A fork of a run that was forgotten shares the history of the next of that id."""

    def change(self, write: Write) -> Write:
        if not isinstance(write, Import) or write.origin is None:
            return write
        origin = self.row(write.export.run.ns, write.origin.run)
        at = write.origin.created_at if origin is None else origin.created_at
        return write._replace(origin=write.origin._replace(created_at=at))


class SharesThePresent(Mutant):
    """A fork sees what its origin takes back later."""

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        loaded = await super().load(ns, run, after)
        events = self._tables.events.get((ns, run), [])
        forked = next((event for event in events if event.kind == "run.forked"), None)
        if loaded is None or forked is None:
            return loaded
        origin = json.loads(forked.payload or b"{}")["origin"]
        gone = {e.seq for e in self._tables.events.get((ns, origin), ()) if e.superseded_by}
        kept = tuple(e for e in loaded.events if e.seq >= forked.seq or e.seq not in gone)
        return loaded._replace(events=kept)


class LoadsTheDead(Mutant):
    """Superseded events are loaded with the living."""

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        loaded = await super().load(ns, run, after)
        if loaded is None:
            return None
        return loaded._replace(events=tuple(self._tables.events[ns, run][after:]))


class ReplaysAll(Mutant):
    """What came before a continuation is loaded to be replayed."""

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        return await super().load(ns, run, max(after, 0))


class ClockGoesBack(Mutant):
    """Time is whatever the machine says."""

    def now(self) -> int:
        return self._clock()


class TellsBeforeTheCommit(Mutant):
    """Listeners hear of a write before it is known whether it was accepted."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        hopeful = [Outcome(True) for _ in batch]
        self._tell(notices_of(batch, hopeful))
        hearers, self._hearers = self._hearers, []
        try:
            return await super().write(batch)
        finally:
            self._hearers = hearers


MUTANTS: tuple[Callable[[Callable[[], int]], MemoryStore], ...] = (
    ForgetsTheFirstMessage,
    RepliesTooLate,
    ForgetsTheUndecided,
    NoFence, FencesByEpoch, HearsZombies, NoSequenceCheck, ParksWithMail, FiresEarly, IgnoresCancel,
    DoublesMessages,
    ReapsTheLiving, ForgetsLeases, OverwritesClosed, SupersedesTooMuch, OneNamespace, NoRollback,
    KeepsEpoch, ClaimsTwice, ServesAll, NoPriority, PagesByNumber, AnyTermWillDo, KeepsTags,
    ImportsAwake, LosesMail, StaysCancelled, ForksTheUnknown, SharesThePresent, LoadsTheDead,
    ReplaysAll, ClockGoesBack, TellsBeforeTheCommit,
)  # fmt: skip
