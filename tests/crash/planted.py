"""Bugs planted on purpose. Each must turn the sweep red; if one does not, the sweep is too weak."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from holdfast.engines.local import answering
from holdfast.hosts.worker import Worker
from holdfast.hosts.worker import worker as worker_module
from holdfast.hosts.worker.family import Family
from holdfast.hosts.worker.hands import Hands
from holdfast.hosts.worker.session import Session
from holdfast.kernel import answer, dispatch
from holdfast.kernel.dispatch import Rule
from holdfast.machine.afterwards import call_afterwards
from holdfast.machine.sagas import Block, Saga
from holdfast.machine.signals import Mailbox
from holdfast.model import failures
from holdfast.model.annotations import LogFilter, LogLine
from holdfast.model.cache import CachedResult, CachedStep, CacheFilter, CacheKey
from holdfast.model.commands import AnswerRun
from holdfast.model.deeds import Deed
from holdfast.model.events import Event
from holdfast.model.exports import Export
from holdfast.model.labels import Labels
from holdfast.model.limits import QueueState
from holdfast.model.run import Loaded, Message, Posted, Run
from holdfast.model.schedules import Scheduled, ScheduleFilter
from holdfast.model.secrets import Sealed
from holdfast.model.status import CLOSED
from holdfast.model.waits import Wait, WaitFilter
from holdfast.model.writes import (
    Advance,
    Claim,
    Claimed,
    Create,
    Filter,
    Move,
    Notice,
    Outcome,
    Page,
    Put,
    Reschedule,
    SetQueue,
    Write,
)
from holdfast.ports.store import Hear, Store
from holdfast.ports.transaction import Transaction, Work
from holdfast.stores.sealed import SealedStore
from holdfast.stores.sealed.blobs import Uploads
from holdfast.testing.crash_world import Plant
from holdfast.witnesses.sqlite import SqliteWitness
from tests.crash import exact
from tests.crash.limits import SLOTS

ROW_ONLY = 1 << 62


class Wrapper:
    """A store that does what another does."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.jobs = inner.jobs

    async def open(self) -> None:
        await self.inner.open()

    async def close(self) -> None:
        await self.inner.close()

    def now(self) -> int:
        return self.inner.now()

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        return await self.inner.write(batch)

    async def transact(self, work: Work, seconds: float | None = None) -> Outcome:
        return await self.inner.transact(work, seconds)

    async def claim(self, claim: Claim) -> Claimed:
        return await self.inner.claim(claim)

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        return await self.inner.load(ns, run, after)

    async def message(self, ns: str, run: str, id: str) -> Posted | None:
        return await self.inner.message(ns, run, id)

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        return await self.inner.find(filter, page)

    async def labels(self, ns: str, runs: Sequence[str]) -> Mapping[str, Labels]:
        return await self.inner.labels(ns, runs)

    async def export(self, ns: str, run: str) -> Export | None:
        return await self.inner.export(ns, run)

    async def logs(self, wanted: LogFilter) -> list[LogLine]:
        return await self.inner.logs(wanted)

    async def schedules(self, wanted: ScheduleFilter) -> list[Scheduled]:
        return await self.inner.schedules(wanted)

    async def waits(self, wanted: WaitFilter) -> list[Wait]:
        return await self.inner.waits(wanted)

    async def queues(self, ns: str) -> list[QueueState]:
        return await self.inner.queues(ns)

    async def secrets(self, ns: str, run: str) -> tuple[Sealed, ...]:
        return await self.inner.secrets(ns, run)

    async def recall(self, ns: str, wanted: Sequence[CacheKey]) -> Mapping[CacheKey, CachedResult]:
        return await self.inner.recall(ns, wanted)

    async def cached(self, wanted: CacheFilter) -> list[CachedStep]:
        return await self.inner.cached(wanted)

    def listen(
        self, hear: Hear, *, worker: str = "", near: bool = False, turns: bool = True
    ) -> Callable[[], None]:
        return self.inner.listen(hear, worker=worker, near=near, turns=turns)


class NoFence(Wrapper):
    """Appends to whatever is there, whoever holds the run by now."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        return await self.inner.write([await self._unfenced(write) for write in batch])

    async def _unfenced(self, write: Write) -> Write:
        if not isinstance(write, Advance):
            return write
        loaded = await self.inner.load(write.ns, write.run, ROW_ONLY)
        if loaded is None or loaded.run.status != "running":
            return write
        run = loaded.run
        moved = run.seq - write.seq
        events = tuple(event._replace(seq=event.seq + moved) for event in write.events)
        return write._replace(owner=run.owner or "", epoch=run.epoch, seq=run.seq, events=events)


class KeepsRefused(Wrapper):
    """Keeps what a transaction wrote whose turn was refused, whoever holds the run by now."""

    async def transact(self, work: Work, seconds: float | None = None) -> Outcome:
        outcome = await self.inner.transact(work, seconds)
        run = outcome.run
        if run is not None and run.status == "running":

            def again(given: Transaction) -> Advance:
                turn = work(given)._replace(events=(), epoch=run.epoch)
                return turn._replace(seq=run.seq, owner=run.owner or "")

            await self.inner.transact(again, seconds)
        return outcome


class WritesThenRecords(Wrapper):
    """Commits what a transaction wrote, and then its record."""

    async def transact(self, work: Work, seconds: float | None = None) -> Outcome:
        turns: list[Advance] = []

        def bare(given: Transaction) -> Advance:
            turns[:] = [work(given)]
            return turns[0]._replace(events=())

        outcome = await self.inner.transact(bare, seconds)
        return (await self.inner.write(turns))[0] if outcome.applied else outcome


class FiresBlindly(Wrapper):
    """Moves a schedule on from whatever it is by now, and starts a run for the slot in any case."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        return await self.inner.write([await self._unguarded(write) for write in batch])

    async def _unguarded(self, write: Write) -> Write:
        if not isinstance(write, Reschedule) or not write.sends or write.row is None:
            return write
        rows = await self.inner.schedules(ScheduleFilter(write.ns, ids=(write.id,)))
        sends = [await self._anew(send) for send in write.sends]
        return write._replace(revision=rows[0].revision, sends=tuple(sends))

    async def _anew(self, send: Create | Put | Move) -> Create | Put | Move:
        if not isinstance(send, Create):
            return send
        found = await self.inner.load(send.ns, send.id, ROW_ONLY)
        return send if found is None else send._replace(id=f"{send.id}, again")


class FenceFirst(Wrapper):
    """Looks at the epoch, and then writes: two statements instead of one."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        for write in batch:
            if isinstance(write, Advance):
                loaded = await self.inner.load(write.ns, write.run, ROW_ONLY)
                if loaded is None or loaded.run.epoch != write.epoch:
                    return [Outcome(False, loaded and loaded.run)]
        return await self.inner.write(batch)


class ParksBlindly(Wrapper):
    """Parks a run without looking whether a message has come."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        return await self.inner.write(
            [
                write._replace(inbox_seq=None) if isinstance(write, Advance) else write
                for write in batch
            ]
        )


class Adopts(Wrapper):
    """Takes a run back, and leaves the old outcome of the step in place."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        return await self.inner.write([self._adopting(write) for write in batch])

    def _adopting(self, write: Write) -> Write:
        if not isinstance(write, Move) or write.rewind is None:
            return write
        return write._replace(supersedes=write.supersedes[1:])


class DoublesSignals(Wrapper):
    """Takes a signal that it has already for another one."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        outcomes = await self.inner.write(batch)
        return [
            await self._again(write)
            if isinstance(write, Put) and write.message.kind == "signal" and outcome.total
            else outcome
            for write, outcome in zip(batch, outcomes, strict=True)
        ]

    async def _again(self, write: Put) -> Outcome:
        other = write.message._replace(id=f"{write.message.id} again")
        [outcome] = await self.inner.write([write._replace(message=other)])
        return outcome


class TellsFirst(Wrapper):
    """Tells callers of a run's end while its commit is still on its way."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._hearers: list[Hear] = []

    def listen(
        self, hear: Hear, *, worker: str = "", near: bool = False, turns: bool = True
    ) -> Callable[[], None]:
        self._hearers.append(hear)
        return super().listen(hear, worker=worker, near=near, turns=turns)

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        for write in batch:
            if isinstance(write, Advance) and write.status in CLOSED:
                for hear in self._hearers:
                    hear([Notice(write.ns, write.run, "closed", write.events[-1])])
        return await super().write(batch)


class _Recorder:
    """Takes what a machine would be fed."""

    def __init__(self, machine: Any) -> None:
        self.asks, self.ended = machine.asks, machine.ended
        self.fed: list[tuple[Any, ...]] = []
        self.notes = ()

    def feed(self, *fed: Any) -> None:
        self.fed.append(fed)


class FeedsLate(Session):
    """Records results first, and lets the body see them after the commit."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.late: list[tuple[Any, ...]] = []

    def _feed_result(self, draft: Any, result: Any) -> None:
        machine, recorder = self.machine, _Recorder(self.machine)
        self.machine = recorder  # type: ignore[assignment]
        super()._feed_result(draft, result)
        self.machine = machine
        self.late += recorder.fed

    def _is_busy(self, turn: Any) -> bool:
        return bool(self.late) or super()._is_busy(turn)

    def _go_on(self, draft: Any, turn: Any, outcome: Any) -> None:
        late, self.late = self.late, []
        super()._go_on(draft, turn, outcome)
        if not late or self.state != "held":
            return
        for fed in late:
            self.machine.feed(*fed)
        following = self.machine.take_turn()
        for key in following.dropped:
            if key in self.running:
                self.running.pop(key).stop()
        self._start(following.asks)
        self.poke()


class StartsFirst(Session):
    """Starts the next steps while the commit that asks for them is still on its way."""

    def _commit(self, draft: Any, turn: Any, results: Any) -> None:
        if draft.status == "running":
            self._start(turn.asks)
            turn.asks = []
        super()._commit(draft, turn, results)


class ObservedFirst(Session):
    """Tells observers of a turn while its commit is still on its way."""

    def _commit(self, draft: Any, turn: Any, results: Any) -> None:
        if self._worker.observing is not None:
            self._worker.observing.committed(self.run, draft.events, draft.at)
        super()._commit(draft, turn, results)


class ProgressFirst(Session):
    """Tells of progress while its commit is still on its way."""

    def _commit(self, draft: Any, turn: Any, results: Any) -> None:
        call_afterwards(self.machine)
        super()._commit(draft, turn, results)


def collects(hands: Hands) -> None:
    """Leave evicted machines to the garbage collector."""
    hands.parked.pop(next(iter(hands.parked)))
    gc.collect()


@contextmanager
def plain(plant: Plant) -> Iterator[Plant]:
    yield plant


async def unchecked(*_: object) -> None:
    """Stands for the check of every turn by a second machine, which the planted bugs escape."""


@contextmanager
def session(kind: type[Session]) -> Iterator[Plant]:
    swapped = patch.object(worker_module, "Exact", kind)
    with swapped, patch.object(Worker, "check_replay", unchecked):
        yield Plant()


async def forgetful(saga: Saga, block: Block, error: BaseException) -> None:
    """Undoes only what it did itself, and nothing that was done before a crash."""
    if saga._machine.past is None:
        await COMPENSATE(saga, block, error)


COMPENSATE = Saga._compensate


@contextmanager
def forgetting() -> Iterator[Plant]:
    swapped = patch.object(Saga, "_compensate", forgetful)
    with swapped, patch.object(Worker, "check_replay", unchecked):
        yield Plant()


@contextmanager
def without(owner: type[object], name: str, instead: Callable[..., object]) -> Iterator[Plant]:
    """Do something else instead of one method."""
    with patch.object(owner, name, instead), patch.object(Worker, "check_replay", unchecked):
        yield Plant()


@contextmanager
def taken_twice() -> Iterator[Plant]:
    """Tells everybody who answers what was open a moment ago that theirs counts."""

    async def a_moment_ago(*asked: Any) -> Wait | None:
        row = await look(*asked)
        return None if row is None else row._replace(state="open")

    look = answering._row
    rule = Rule(answer.decide, lambda command, outcome: outcome.run is not None)
    changed = patch.dict(dispatch.RULES, {AnswerRun: rule})
    with changed, patch.object(answering, "_row", a_moment_ago):
        yield Plant()


def knows_no_end(family: Family, message: Message, at: int) -> Event | None:
    """Takes each message about the end of a child for news, however often it comes."""
    known = dict(family._open)
    found = CLOSED_BY(family, message, at)
    family._open = known
    return found


CLOSED_BY = Family.closed_by


class TellsEndsTwice(Wrapper):
    """Has the message about a child's end come again, under another id."""

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        loaded = await self.inner.load(ns, run, after)
        if loaded is None:
            return None
        mail = [each for message in loaded.mail for each in _doubled(message)]
        return loaded._replace(mail=tuple(mail))


def _doubled(message: Message) -> tuple[Message, ...]:
    return (message, message) if message.kind == "child" else (message,)


@contextmanager
def doubling_ends() -> Iterator[Plant]:
    swapped = patch.object(Family, "closed_by", knows_no_end)
    with swapped, patch.object(Worker, "check_replay", unchecked):
        yield Plant(below=TellsEndsTwice)


class CountsNothing(Wrapper):
    """Admits whatever it is asked for."""

    async def write(self, batch: Sequence[Write]) -> list[Outcome]:
        return await self.inner.write([_unlimited(write) for write in batch])


def _unlimited(write: Write) -> Write:
    if not isinstance(write, SetQueue) or write.limits is None:
        return write
    return write._replace(limits=write.limits._replace(concurrency=None))


class CountsFirst(Wrapper):
    """Looks how many slots are free, and then claims: two statements instead of one."""

    async def claim(self, claim: Claim) -> Claimed:
        states = await self.inner.queues(claim.ns)
        free = min((SLOTS - state.held for state in states), default=claim.limit)
        return await self.inner.claim(claim._replace(limit=max(min(claim.limit, free), 0)))


class Leaks(Worker):
    """Forgets that a run has a slot when it takes it over."""

    def _take(self, run: Run, first: Event | None, ticketed: bool) -> None:
        super()._take(run, first, ticketed and run.epoch == 1)


@contextmanager
def telling_secrets() -> Iterator[Plant]:
    """Writes failures down as they come."""
    with patch.object(failures, "redact", str):
        yield Plant()


async def names_first(
    store: SealedStore, uploads: Uploads, sealed: Sequence[Write]
) -> list[Outcome]:
    """Put blobs when the write that names them is stored."""
    outcomes = await store._written(sealed)
    await uploads.put()
    return outcomes


Planted = Callable[[], AbstractContextManager[Plant]]


@contextmanager
def unwitnessed() -> Iterator[Plant]:
    """Does what a step does in the user's database without a look at whether it was done."""

    def again(_: SqliteWitness, deed: Deed, work: Callable[[Any], bytes]) -> bytes:
        return work(exact.BOOKS.connection)

    with patch.object(SqliteWitness, "once", again):
        yield Plant()


PLANTED: dict[str, Planted] = {
    "done without a witness": unwitnessed,
    "rows kept of a refused turn": lambda: plain(Plant(below=KeepsRefused)),
    "rows before their record": lambda: plain(Plant(above=WritesThenRecords)),
    "child outcome doubled": doubling_ends,
    "no fence": lambda: plain(Plant(below=NoFence)),
    "fence read before the write": lambda: plain(Plant(above=FenceFirst, below=NoFence)),
    "park without the inbox check": lambda: plain(Plant(below=ParksBlindly)),
    "signal doubled": lambda: plain(Plant(below=DoublesSignals)),
    "answer told before the commit": lambda: plain(Plant(above=TellsFirst)),
    "observers told before the commit": lambda: session(ObservedFirst),
    "progress told before the commit": lambda: session(ProgressFirst),
    "steps started before the commit": lambda: session(StartsFirst),
    "feed after the commit": lambda: session(FeedsLate),
    "eviction by garbage collection": lambda: without(Hands, "_evict", collects),
    "compensation skipped after a crash": forgetting,
    "rerun that adopts the old outcome": lambda: plain(Plant(below=Adopts)),
    "messages left behind by a continuation": lambda: without(Mailbox, "unread", lambda _: []),
    "results of a former generation adopted": lambda: without(
        Session, "_begin_generation", lambda *_: None
    ),
    "answer taken twice": taken_twice,
    "slot leaked after a crash": lambda: plain(Plant(worker=Leaks)),
    "slots counted before the write": lambda: plain(Plant(above=CountsFirst, below=CountsNothing)),
    "slot fired twice": lambda: plain(Plant(below=FiresBlindly)),
    "secret in a failure": telling_secrets,
    "begun without a record": lambda: without(Session, "_start_one", Session._begin),
    "blob named before it is put": lambda: without(SealedStore, "_write_after", names_first),
}
