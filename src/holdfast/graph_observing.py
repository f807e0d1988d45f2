"""Telling observers of graphs what runs did, in the words of graphs.

    a commit -> the observers of the history, by a queue each -> `GraphTeller` -> node.start, ...

The teller is an observer of the history, and reads it as `graph_events` does, with a view. So it
holds up nobody, drops nothing, and tells only what is stored. Whoever takes up a run that another
process held cannot know how far that one came, and tells it from the beginning: each event has its
`id`, and who keeps the last one drops what is not after it. `StoreObserver` does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from holdfast.fronts.graph.view import View, place_of
from holdfast.graph_streams import graph_events, view_of
from holdfast.model.events import BEGINNINGS, Event
from holdfast.model.executed import ExecutionEvent
from holdfast.model.observed import ObservedEvent, Retried
from holdfast.ports.observer import Follower, Observer, Selective, Source

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.client import Client

log = logging.getLogger("holdfast.observers")

MOST_VIEWS = 100
"""Runs that one observer is told of without reading them anew, the latest of them."""
MOST_PLACES = 100_000
"""Runs of which it is known how far they were told."""

Place = tuple[int, int]
NOWHERE: Place = (0, 0)


class GraphTeller:
    """Tells one observer of the runs of one workflow, or of all graphs of an app."""

    def __init__(
        self, app: App, observer: Observer[ExecutionEvent], workflow: str | None = None
    ) -> None:
        self._app, self.tells, self._workflow = app, observer, workflow
        self._source: Source | None = None
        self._readings: OrderedDict[str, _Reading] = OrderedDict()
        self._places: OrderedDict[str, Place] = OrderedDict()

    async def on_event(self, event: ObservedEvent) -> None:
        """Tell what an event of a history led to. Raises what the observer raised."""
        if not self._is_meant(event):
            return
        reading = self._readings.pop(event.run, None) or _Reading(self._app)
        after = self._places.get(event.run, NOWHERE)
        is_over = True
        try:
            told = await reading.upto(event, self._asked)
            is_over = event.closes
        finally:
            if is_over:
                reading.close()
            else:
                _keep(self._readings, event.run, reading, MOST_VIEWS)
        await self._tell([each for each in told if each.place > after])

    def follow(self, source: Source) -> Callable[[], None]:
        """Read histories from this worker's store, until it stops."""
        self._source = source
        inner: Callable[[], None] | None = None
        if hasattr(self.tells, "follow"):
            follower = cast("Follower", self.tells)
            inner = follower.follow(cast("Source", _GraphSource(self._app, source)))

        def unfollow() -> None:
            if inner is not None:
                inner()
            while self._readings:
                self._readings.popitem()[1].close()

        return unfollow

    @property
    def _asked(self) -> Source:
        assert self._source is not None  # noqa: S101 - whoever tells us has let us follow
        return self._source

    def _is_meant(self, event: ObservedEvent) -> bool:
        if self._workflow is None and not is_graph(self._app, event):
            return False
        if self._workflow is not None and self._workflow != event.workflow:
            return False
        if not hasattr(self.tells, "hears"):
            return True
        return cast("Selective", self.tells).hears(event)

    async def _tell(self, told: Sequence[ExecutionEvent]) -> None:
        failed: list[Exception] = []
        for each in told:
            _keep(self._places, each.run_id, each.place, MOST_PLACES)
            try:
                await self.tells.on_event(each)
            except Exception as error:
                failed.append(error)
        if failed:
            raise failed[0]


class _Reading:
    """A view of a run, and the history it has read."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._view: View | None = None
        self._history: list[Event] = []

    async def upto(self, event: ObservedEvent, source: Source) -> Sequence[ExecutionEvent]:
        """Return what the history led to since it was last read."""
        if event.seq <= len(self._history):
            return ()
        if event.seq == len(self._history) + 1 != 1 and event.kind not in BEGINNINGS:
            self._history.append(event.event)
        elif (whole := await source.whole(event.run)) is not None:
            row, events = whole
            self._history = [*events]
            self._view = self._view or view_of(self._app, row, events[0])
        return () if self._view is None else self._view.read(self._history)

    def close(self) -> None:
        """Let go of the body."""
        if self._view is not None:
            self._view.close()


class _GraphSource:
    """What an observer of graphs may ask: what a worker tells, in the words of graphs."""

    def __init__(self, app: App, source: Source) -> None:
        self._app, self._source = app, source

    async def history(
        self, run: str, after: int, retried: Retried | None = None
    ) -> Sequence[ExecutionEvent] | None:
        """Return what the run did after that event of its history; None if there is no run."""
        del retried  # of attempts, the events of a graph tell nothing
        whole = await self._source.whole(run)
        if whole is None:
            return None
        with view_of(self._app, whole[0], whole[1][0]) as view:
            return [each for each in view.read(whole[1]) if each.seq > after]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def is_graph(app: App, event: ObservedEvent) -> bool:
    """Tell whether an event is of a run of a graph."""
    from holdfast.factories import FactoryWorkflow
    from holdfast.graphs import GraphWorkflow

    workflow = app.versions.of_run(event.workflow, event.version)
    return isinstance(workflow, GraphWorkflow | FactoryWorkflow)


def _keep(kept: OrderedDict[str, Any], run: str, value: Any, most: int) -> None:
    """Keep a value of a run; beyond `most`, let go of the one that was used least lately."""
    kept[run] = value
    kept.move_to_end(run)
    if len(kept) > most:
        _, dropped = kept.popitem(last=False)
        if isinstance(dropped, _Reading):
            dropped.close()


class EventStore(Protocol):
    """Where a `StoreObserver` puts events: tables of your own, a file, another service."""

    async def last(self, run_id: str) -> str:
        """Return the `id` of the last event of the run that is here; "" if there is none."""
        ...

    async def save(self, events: Sequence[ExecutionEvent]) -> None:
        """Keep these events of one run, all or none of them."""
        ...


class MendingStore(EventStore, Protocol):
    """An `EventStore` that knows which of its runs have not come to an end in it."""

    async def unfinished(self) -> Sequence[str]:
        """Return the runs that have events here, and none that `closes`."""
        ...


class StoreObserver:
    """Puts what runs of graphs did into a store of yours, after its commit, in order and once.

    The store knows how far it is, by `last`. What it has is dropped; what it lacks, after a crash
    or because it could not be saved, is read from the history with the next event of the run. If it
    can tell what is `unfinished`, that is looked at when a worker starts.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._source: _GraphSource | None = None
        self._places: OrderedDict[str, Place] = OrderedDict()
        self._saving = asyncio.Lock()

    async def on_event(self, event: ExecutionEvent) -> None:
        """Save it, unless it is there. Raises what the store raised."""
        run = event.run_id
        async with self._saving:
            place = self._places.pop(run, None)
            if place is None:
                await self._mend(run, (event,))
                return
            if event.place > place:
                await self._store.save((event,))
            _keep(self._places, run, max(event.place, place), MOST_PLACES)

    def follow(self, source: Source) -> Callable[[], None]:
        """Read histories from this worker's store, until it stops."""
        self._source = cast("_GraphSource", source)
        mending: asyncio.Task[None] | None = None
        if hasattr(self._store, "unfinished"):
            mending = asyncio.get_running_loop().create_task(self._mend_all())

        def unfollow() -> None:
            self._source = None
            if mending is not None:
                mending.cancel()

        return unfollow

    async def _mend_all(self) -> None:
        """Save what is missing of runs that may have ended unheard."""
        try:
            for run in await cast("MendingStore", self._store).unfinished():
                async with self._saving:
                    await self._mend(run)
        except Exception:  # the next worker looks again
            told = "store %s of events was not mended"
            log.warning(told, type(self._store).__name__, exc_info=True)

    async def _mend(self, run: str, told: Sequence[ExecutionEvent] = ()) -> None:
        """Save what the store lacks of a run, by its history, or else of what was told."""
        last = await self._store.last(run)
        place = place_of(last) if last else NOWHERE
        if self._source is not None:
            told = await self._source.history(run, max(place[0] - 1, 0)) or ()
        if new := tuple(each for each in told if each.place > place):
            await self._store.save(new)
        _keep(self._places, run, new[-1].place if new else place, MOST_PLACES)

    async def catch_up(self, client: Client, run: str) -> None:
        """Save what the store lacks of a run, from its history, until it is closed.

        For what nobody was told of: the process that closed the run died before it told.
        """
        async for event in graph_events(client, run, after=await self._store.last(run) or 0):
            await self._store.save((event,))
