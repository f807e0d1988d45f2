"""Who in this process waits for which run, and how they hear of it.

Notices of the store wake waiters at once; because notices are only hints, everything waited for
is also looked up once a second. Now and then it is also asked whether the runs are still there.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from holdfast.errors import UNREADABLE, RunNotFound, StoreError, StoreMoved, StoreUnavailable
from holdfast.model.events import Event
from holdfast.model.run import END_ONLY, Run
from holdfast.model.status import OPEN
from holdfast.model.writes import Filter, Notice, Page
from holdfast.ports.store import Store

T = TypeVar("T")

POLL = 1.0
MOVED_POLLS = 5
"""At every so many-th look in vain, whoever waits asks whether the store was moved."""
FEW = 8
"""Up to so many runs are looked up one by one, in one read each."""

BLOCKED_AS = tuple(f"{error.blocked_as}:" for error in UNREADABLE)
"""How the reason begins for which a run that cannot be read is blocked."""
REMEMBERED = 1_024
"""How many closings are kept for callers who ask right after."""


class Hub:
    """The waiting room of one client."""

    def __init__(self, store: Store, ns: str, poll: float = POLL) -> None:
        self._store, self._ns, self._every = store, ns, poll
        self._closings: dict[str, list[asyncio.Future[Event]]] = {}
        self._changes: dict[str, list[asyncio.Future[None]]] = {}
        self._closed: OrderedDict[str, Event] = OrderedDict()
        self._fresh: set[str] = set()
        self.heard = 0
        """How often others have said that there is something to see."""
        self._unlisten: Callable[[], None] | None = None
        self._hears_far = False
        self._readable: dict[str, int] = {}
        """How long blocked runs were when their histories could be read."""
        self._poller: asyncio.Task[None] | None = None
        self._look = asyncio.Event()
        self._vain = 0
        self._is_closed = False

    def open(self, *, near: bool = False) -> None:
        """Begin to listen, if not done yet: for closings here, or for everything everywhere.

        Raises `StoreUnavailable` if the client is closed.
        """
        if self._is_closed:
            raise closed()
        if self._unlisten is not None:
            if near or self._hears_far:
                return
            self._unlisten()
        self._unlisten = self._store.listen(self._hear, near=near, turns=not near)
        self._hears_far = not near

    def started(self, run: str, heard: int) -> None:
        """Know that this process started the run when it had `heard` so much: it is not closed.

        Whoever closes it will ring. So long as nobody has, it need not be looked up.
        """
        if self._hears_far and heard == self.heard:
            if len(self._fresh) >= REMEMBERED:
                self._fresh.clear()
            self._fresh.add(run)

    async def close(self) -> None:
        """Stop listening; whoever still waits, or comes later, is refused."""
        self._is_closed = True
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)
        if self._unlisten is not None:
            self._unlisten()
        waiting: list[asyncio.Future[Any]] = []
        waiting += (future for futures in self._closings.values() for future in futures)
        waiting += (future for futures in self._changes.values() for future in futures)
        for future in waiting:
            if not future.done():
                future.set_exception(closed())
                future.exception()  # whoever waited may be gone, and is not missed

    async def closing(self, run: str, held: Run | None) -> Event:
        """Return the event that closes the run, when it has come.

        If this process has `held` the run, it will hear of its close in any case; what it remembers
        of another epoch, or from before the run, is of another time. Else the store is asked.
        Raises `RunNotFound`, or `StoreMoved` if the run will end elsewhere.
        """
        known = self._closed.get(run)
        if known is not None and held is not None and _is_of(known, held):
            return known
        self.open(near=held is not None)
        future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._closings.setdefault(run, []).append(future)
        self._start_polling()
        if held is None and run not in self._fresh:
            self._look.set()
        try:
            return await future
        finally:
            _forget(self._closings, run, future)
            if run not in self._closings:
                self._readable.pop(run, None)

    @contextmanager
    def watch(self, run: str) -> Generator[Callable[[], Awaitable[None]]]:
        """Give the wait for a change of the run since this was entered, one poll at most.

        Look at the run inside: a change between the look and the wait is not missed. The wait
        raises `StoreMoved` if the runs have gone elsewhere.
        """
        self.open()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes.setdefault(run, []).append(future)

        async def change() -> None:
            try:
                async with asyncio.timeout(self._every):
                    await future
            except TimeoutError:
                await self._must_be_here()

        try:
            yield change
        finally:
            _forget(self._changes, run, future)

    def _hear(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            if notice.what in ("events", "replied") and not self._changes:
                continue  # what is remembered of a run that was reopened went with its `moved`
            if not notice.run:
                self.heard += 1
                self._fresh.clear()
                self._look.set()
                self._closed.clear()  # another process may have reopened any of them
                for run in tuple(self._changes):
                    self._wake(run)
            elif notice.ns == self._ns:
                self._fresh.discard(notice.run)
                if notice.event is not None and not notice.event.codec:
                    self._settle(notice.run, notice.event)
                else:
                    self._closed.pop(notice.run, None)
                    if notice.event is not None:
                        self._look.set()  # it has closed, and its end has to be fetched
                self._wake(notice.run)

    def _wake(self, run: str) -> None:
        for future in self._changes.get(run, ()):
            if not future.done():
                future.set_result(None)

    def _settle(self, run: str, event: Event) -> None:
        self._closed[run] = event
        if len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)
        for future in self._closings.get(run, ()):
            if not future.done():
                future.set_result(event)

    def _start_polling(self) -> None:
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        while self._closings:
            is_in_vain = False
            try:
                async with asyncio.timeout(self._every):
                    await self._look.wait()
            except TimeoutError:
                is_in_vain = True
            self._look.clear()
            try:
                await self._look_up(tuple(self._closings))
                if is_in_vain and self._closings:
                    await self._must_be_here()
            except StoreMoved as moved:
                for run in tuple(self._closings):
                    self._refuse(run, partial(StoreMoved, role=moved.role, place=moved.place))
            except StoreError:
                continue  # the next look is a second away

    async def _must_be_here(self) -> None:
        """Ask now and then whether the runs went elsewhere. Raises `StoreMoved` if they did."""
        went_to: Callable[[], Awaitable[str]] | None = getattr(self._store, "went_to", None)
        self._vain += 1
        if went_to is None or self._vain % MOVED_POLLS != 1:
            return
        with suppress(StoreUnavailable):
            if place := await went_to():
                raise StoreMoved(role="source", place=place)

    async def _look_up(self, runs: tuple[str, ...]) -> None:
        if len(runs) > FEW:
            runs = await self._closed_among(runs)
        for run in runs:
            try:
                loaded = await self._store.load(self._ns, run, END_ONLY)
            except UNREADABLE as unreadable:
                self._refuse(run, partial(_same, unreadable))
                continue
            if loaded is None:
                self._refuse(run, partial(RunNotFound, run=run))
            elif loaded.events:
                self._settle(run, loaded.events[-1])
            elif _seems_unreadable(loaded.run) and self._readable.get(run) != loaded.run.seq:
                await self._read(run)

    async def _read(self, run: str) -> None:
        """Tell who waits for a blocked run if that is because it cannot be read, here either."""
        try:
            loaded = await self._store.load(self._ns, run)
        except UNREADABLE as unreadable:
            self._refuse(run, partial(_same, unreadable))
        else:
            self._readable[run] = 0 if loaded is None else loaded.run.seq

    async def _closed_among(self, runs: tuple[str, ...]) -> tuple[str, ...]:
        """Return those runs that are closed or do not exist, by one query for many."""
        open_runs: set[str] = set()
        for start in range(0, len(runs), 500):
            some = runs[start : start + 500]
            statuses = tuple(sorted(OPEN))
            filter = Filter(self._ns, statuses=statuses, ids=some)
            open_runs.update(row.id for row in await self._store.find(filter, Page(limit=500)))
        return tuple(run for run in runs if run not in open_runs)

    def _refuse(self, run: str, error: Callable[[], Exception]) -> None:
        for future in self._closings.get(run, ()):
            if not future.done():
                future.set_exception(error())


def closed() -> StoreUnavailable:
    """Return what is raised to who uses a client that is closed."""
    return StoreUnavailable("This client is closed. Open another with `app.open(url)`.")


def _seems_unreadable(run: Run) -> bool:
    return run.status == "blocked" and run.reason.startswith(BLOCKED_AS)


def _same(error: Exception) -> Exception:
    return error


def _forget(
    waiting: dict[str, list[asyncio.Future[T]]], run: str, future: asyncio.Future[T]
) -> None:
    kept = [other for other in waiting.get(run, ()) if other is not future]
    if kept:
        waiting[run] = kept
    else:
        waiting.pop(run, None)


def _is_of(closing: Event, run: Run) -> bool:
    """Tell whether this is how the run ended: not an earlier time, nor a former run of its id."""
    return run.epoch <= closing.epoch and run.created_at <= closing.at
