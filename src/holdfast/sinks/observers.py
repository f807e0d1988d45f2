"""The general observers: into a log, to several, to whoever iterates."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Generic, cast

from typing_extensions import TypeVar

from holdfast.errors import BadDefinition, RunNotFound, StoreError
from holdfast.model.executed import ExecutionEvent
from holdfast.model.observed import ObservedEvent, Retried
from holdfast.ports.observer import (
    Carrying,
    Entering,
    Follower,
    Observer,
    Source,
    is_entering,
)

log = logging.getLogger("holdfast.observers")

E = TypeVar("E", bound=ObservedEvent | ExecutionEvent, default=ObservedEvent)

POLL = 1.0
"""Seconds between two looks at a run that is followed, if nothing was heard of it."""

LEVELS = {
    "step.retrying": logging.WARNING, "step.failed": logging.WARNING,
    "run.failed": logging.WARNING, "run.blocked": logging.WARNING,
    "run.quarantined": logging.WARNING, "run.timed_out": logging.WARNING,
    "run.compensation_failed": logging.ERROR,
}  # fmt: skip
GRAPH_LEVELS = {
    "graph.start": logging.INFO, "graph.complete": logging.INFO, "graph.cancelled": logging.INFO,
    "graph.paused": logging.INFO, "graph.resumed": logging.INFO, "checkpoint.load": logging.INFO,
    "checkpoint.resume": logging.INFO, "cycle.detected": logging.INFO,
    "graph.failed": logging.WARNING, "graph.blocked": logging.WARNING,
    "node.retry": logging.WARNING,
}  # fmt: skip
"""Of what graphs do; the rest, each node and each edge, is for debugging."""
SHOWN = (
    "within", "node", "iteration", "error", "duration_ms", "attempt", "status", "visit_count",
    "from", "to", "predicate_name", "item_index", "step_index", "route",
)  # fmt: skip
"""What is logged of the data of an event of a graph: never a state, which may hold anything."""


class LoggingObserver:
    """Leaves one line a event in a logger of the standard library.

    The record's `extra` holds the fields by name: `event`, `run`, `workflow`, `queue`, `seq`,
    `key`, and what there is of `took`, `cached`, `attempt` and `error`. No payload is ever logged,
    and of an error only its type, because its message may quote one; with `messages` that is added.
    """

    def __init__(
        self, logger: logging.Logger | str = "holdfast.events", *, messages: bool = False
    ) -> None:
        self.logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self.messages = messages

    async def on_event(self, event: ObservedEvent | ExecutionEvent) -> None:
        """Leave its line."""
        if isinstance(event, ExecutionEvent):
            level = GRAPH_LEVELS.get(event.type, logging.DEBUG)
        else:
            level = LEVELS.get(event.kind, logging.INFO)
        if not self.logger.isEnabledFor(level):
            return
        if isinstance(event, ExecutionEvent):
            fields = self._graphs_fields(event)
        else:
            fields = self._fields(event)
        text = " ".join(f"{name}={value}" for name, value in fields.items() if value != "")
        self.logger.log(level, "%s", text, extra=fields)

    def hears(self, event: ObservedEvent) -> bool:
        """Tell whether what an event led to in a graph could leave a line."""
        return self.logger.isEnabledFor(logging.INFO) or LEVELS.get(event.kind, 0) > logging.INFO

    def _fields(self, event: ObservedEvent) -> dict[str, object]:
        fields: dict[str, object] = {
            "event": event.kind, "run": event.run, "workflow": event.workflow,
            "queue": event.queue, "seq": event.seq, "key": event.key,
        }  # fmt: skip
        if event.event.ran_for is not None:
            fields["took"] = event.event.ran_for
        if event.cached:
            fields["cached"] = True
        if event.attempt:
            fields["attempt"] = event.attempt
        if (failure := event.failure).type:
            told = f"{failure.type}: {failure.message}" if self.messages else failure.type
            fields["error"] = told
        return fields

    def _graphs_fields(self, event: ExecutionEvent) -> dict[str, object]:
        fields: dict[str, object] = {
            "event": event.type, "graph": event.source, "run": event.run_id, "id": event.id,
        }  # fmt: skip
        shown = (*SHOWN, "error_message") if self.messages else SHOWN
        return fields | {name: event.data[name] for name in shown if name in event.data}


class MultiObserver(Generic[E]):
    """Tells several, one after the other; one that fails does not keep the others from it."""

    def __init__(self, *observers: Observer[E]) -> None:
        self.observers = tuple(checked(each) for each in observers)

    async def on_event(self, event: E) -> None:
        """Tell all of them. Raises what they raised, together."""
        failed: list[Exception] = []
        for observer in self.observers:
            try:
                await observer.on_event(event)
            except Exception as error:
                failed.append(error)
        if len(failed) == 1:
            raise failed[0]
        if failed:
            raise ExceptionGroup(f"{len(failed)} observers failed", failed)

    def follow(self, source: Source) -> Callable[[], None]:
        """Let those ask that can."""
        followers = [each for each in self.observers if hasattr(each, "follow")]
        ways = [cast("Follower", each).follow(source) for each in followers]

        def unfollow() -> None:
            for way in ways:
                way()

        return unfollow

    def enter_step(self, ns: str, run: str, generation: int, key: str, number: int) -> None:
        """Let those prepare the context of an attempt that do."""
        for each in self.observers:
            if is_entering(cast("Observer", each)):
                cast("Entering", each).enter_step(ns, run, generation, key, number)

    def carry(self) -> Mapping[str, str]:
        """Send along what they send along."""
        return carried(cast("Sequence[Observer]", self.observers))


class StreamingObserver(Generic[E]):
    """Gives events to whoever iterates over `events()`: of histories, or of graphs.

    Nothing is dropped. A stream that is not read holds `buffer_size` events; then this observer
    waits, and what it missed is read from the history when it goes on.
    """

    def __init__(self, buffer_size: int = 100) -> None:
        if type(buffer_size) is not int or buffer_size < 1:
            raise BadDefinition(
                what=f"buffer_size is {buffer_size!r:.40}",
                hint="Give the number of events to hold for each reader: 1 or more.",
            )
        self.buffer_size = buffer_size
        self._streams: list[_Stream[E]] = []
        self._changes: dict[str, list[asyncio.Event]] = {}
        self._sources: list[Source] = []
        self._followed = asyncio.Event()

    async def on_event(self, event: E) -> None:
        """Pass it on, when there is room for it."""
        run = event.run_id if isinstance(event, ExecutionEvent) else event.run
        for change in self._changes.get(run, ()):
            change.set()
        for stream in tuple(self._streams):
            await stream.put(event, self.buffer_size)

    def follow(self, source: Source) -> Callable[[], None]:
        """Read histories from this worker's store, until it stops."""
        self._sources.append(source)
        self._followed.set()

        def unfollow() -> None:
            self._sources.remove(source)
            if not self._sources:
                self._followed.clear()
                for stream in tuple(self._streams):
                    stream.end()

        return unfollow

    def events(self, run: str | None = None, *, after: int = 0) -> AsyncIterator[E]:
        """Yield what this process commits from now on, of all runs, until its worker stops.

        With `run`, yield that run's events with a seq above `after`, from its history and then as
        they come, whoever commits them, until it is closed: a reader that was cut off goes on
        after the last `seq` it has. Raises `RunNotFound`.
        """
        if run is not None:
            return self._events_of(run, after)
        stream = _Stream[E]()
        self._streams.append(stream)
        return self._all(stream)

    async def _all(self, stream: _Stream[E]) -> AsyncIterator[E]:
        try:
            while (event := await stream.get()) is not None:
                yield event
        finally:
            self._streams.remove(stream)
            stream.end()

    async def _events_of(self, run: str, after: int) -> AsyncIterator[E]:
        change, retried = asyncio.Event(), Retried()
        self._changes.setdefault(run, []).append(change)
        seen = 0
        try:
            while True:
                change.clear()
                for event in await self._history(run, seen, retried):
                    seen = event.seq
                    if seen > after:
                        yield event
                    if event.closes:
                        return
                try:
                    async with asyncio.timeout(POLL):
                        await change.wait()
                except TimeoutError:
                    pass
        finally:
            self._changes[run].remove(change)
            if not self._changes[run]:
                del self._changes[run]

    async def _history(self, run: str, after: int, retried: Retried) -> Sequence[E]:
        await self._followed.wait()
        try:
            found = await self._sources[0].history(run, after, retried)
        except StoreError:
            return ()  # the next look is a second away
        if found is None:
            raise RunNotFound(run=run)
        return cast("Sequence[E]", found)  # whoever tells of graphs is asked of graphs


class _Stream(Generic[E]):
    """The events that one reader has not read yet."""

    def __init__(self) -> None:
        self._events: deque[E] = deque()
        self._is_over = False
        self._changed = asyncio.Event()

    async def put(self, event: E, room: int) -> None:
        """Add an event when there is room; one whose reader has left takes none."""
        while len(self._events) >= room and not self._is_over:
            self._changed.clear()
            await self._changed.wait()
        if not self._is_over:
            self._events.append(event)
            self._changed.set()

    async def get(self) -> E | None:
        """Return the next event, when it has come; None when there will be no more."""
        while not self._events and not self._is_over:
            self._changed.clear()
            await self._changed.wait()
        if not self._events:
            return None
        event = self._events.popleft()
        self._changed.set()
        return event

    def end(self) -> None:
        """Take no more."""
        self._is_over = True
        self._changed.set()


def carried(observers: Sequence[Observer]) -> dict[str, str]:
    """Return the attributes that observers send along with a start."""
    sent: dict[str, str] = {}
    for each in observers:
        try:
            sent |= cast("Carrying", each).carry() if hasattr(each, "carry") else {}
        except Exception:  # whoever starts a run has no part in it
            log.warning("observer %s sent nothing along", type(each).__name__, exc_info=True)
    return sent


def checked(observer: Observer[E]) -> Observer[E]:
    """Return the observer if it is one. Raises `BadDefinition`."""
    on_event = getattr(observer, "on_event", None)
    if isinstance(observer, type) or not callable(on_event):
        raise BadDefinition(
            what=f"{observer!r:.60} is no observer",
            hint="Give an object with `async def on_event(self, event)`, as hf.Observer says.",
        )
    if not inspect.iscoroutinefunction(on_event):
        raise BadDefinition(
            what=f"on_event of {type(observer).__name__} is no async function",
            hint="Write `async def on_event`; call what blocks by `await asyncio.to_thread(...)`.",
        )
    return observer
