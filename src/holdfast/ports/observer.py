"""The Observer port: who is told of what was committed, and what they may ask meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

# `typing` has no defaults of type variables before Python 3.13.
from typing_extensions import TypeVar

from holdfast.model.backlog import Backlog
from holdfast.model.events import Event
from holdfast.model.executed import ExecutionEvent
from holdfast.model.labels import Labels
from holdfast.model.observed import ObservedEvent, Retried
from holdfast.model.run import Run

E = TypeVar("E", bound=ObservedEvent | ExecutionEvent, contravariant=True, default=ObservedEvent)


class Observer(Protocol[E]):
    """Is told of every event that a worker of this process commits; of a graph, of what it led to.

    After the commit, each event once, the events of one run in their order. Never of what is
    replayed, and never of what was not stored. A slow or failing observer holds up nobody but
    itself. One of graphs, an `Observer[ExecutionEvent]`, may be told again of a run that was in
    the hands of another process.
    """

    async def on_event(self, event: E) -> None:
        """Take one event. What it raises is counted and logged, and changes nothing."""
        ...


class Source(Protocol):
    """What an observer may ask the worker that tells it. Every method may raise `StoreError`."""

    async def history(
        self, run: str, after: int, retried: Retried
    ) -> Sequence[ObservedEvent] | None:
        """Return the run's living events with a seq above `after`; None if there is no run.

        Begin with 0 and an empty `retried`, and give it again with the next: so it is known which
        attempt of a step has completed.
        """
        ...

    async def whole(self, run: str) -> tuple[Run, Sequence[Event]] | None:
        """Return a run and all its events, those too that no longer count; None if there is none.

        Waits for a store that is away.
        """
        ...

    async def labels(self, run: str) -> Labels:
        """Return the tags and attributes of a run."""
        ...

    async def backlog(self) -> Sequence[Backlog]:
        """Return what waits for workers, by workflow and queue."""
        ...

    def now(self) -> int:
        """Return the store's clock in microseconds."""
        ...

    def facts(self) -> Mapping[str, int]:
        """Return what the worker counts: its runs, its steps, what it took over, was refused."""
        ...


class Follower(Observer, Protocol):
    """An observer that also asks."""

    def follow(self, source: Source) -> Callable[[], None]:
        """Know whom to ask; return the way to forget it, called when the worker stops."""
        ...


class Selective(Observer[ExecutionEvent], Protocol):
    """An observer of graphs that does not want everything."""

    def hears(self, event: ObservedEvent) -> bool:
        """Tell whether it wants to know what an event of a history led to."""
        ...


class Entering(Observer, Protocol):
    """An observer that also prepares the context in which attempts run."""

    def enter_step(self, ns: str, run: str, generation: int, key: str, number: int) -> None:
        """Change the current context, which is the attempt's own. Must not fail."""
        ...


def is_entering(observer: Observer) -> bool:
    """Tell whether an observer, or one of those it stands for, prepares the context of attempts."""
    inner: Sequence[Observer] = getattr(observer, "observers", ())
    return any(map(is_entering, inner)) if inner else hasattr(observer, "enter_step")


class Carrying(Observer, Protocol):
    """An observer that also sends something along with each start."""

    def carry(self) -> Mapping[str, str]:
        """Return attributes for a run that is about to be started here."""
        ...
