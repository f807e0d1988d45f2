"""What a case of the suite is given: a store, a clock moved by hand, the commands as short calls.

Every call goes the way a host's does: `kernel.decide`, `store.write`, `kernel.read`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from holdfast.model.commands import CommitTurn, RenewLease
from holdfast.model.events import Event, EventKind
from holdfast.model.run import Run
from holdfast.model.status import CLOSED, RunStatus
from holdfast.testing.conformance.access import Make
from holdfast.testing.conformance.sender import LEASE, Sender

__all__ = [
    "LEASE", "Capability", "Harness", "Make", "answer", "event", "ids", "needed_by", "needs",
    "refused",
]  # fmt: skip

Capability = Literal["durable", "shared", "rings", "knows_dead", "keeps_time", "counts"]
"""What a store may lack.

`durable`: what was written is there when the store is opened again. `shared`: several stores may
be open on the same data. `rings`: a listener hears of other stores' changes without polling.
`knows_dead`: a worker whose process ended is reported at once, before its lease is over.
`counts`: it can tell how many runs wait for workers (`backlog`).
`keeps_time`: its clock is that of each process's machine, so it remembers the latest time of all.
"""

Body = TypeVar("Body", bound=Callable[..., Awaitable[None]])

_NEEDS = "holdfast_needs"


def needs(*capabilities: Capability) -> Callable[[Body], Body]:
    """Mark a case that only stores with these capabilities run."""

    def mark(function: Body) -> Body:
        setattr(function, _NEEDS, frozenset(capabilities))
        return function

    return mark


def needed_by(function: Callable[..., Any]) -> frozenset[Capability]:
    """Return the capabilities a case was marked with."""
    return getattr(function, _NEEDS, frozenset[Capability]())


@contextmanager
def refused(error: type[BaseException]) -> Generator[None]:
    """Hold that the block raises `error`."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


def event(kind: EventKind, key: str = "", **fields: Any) -> Event:
    """Return an event that `Harness.commit` numbers and stamps."""
    return Event(kind, 0, key, **fields)


def answer(key: str = "a#1", payload: bytes = b"1", **fields: Any) -> Event:
    """Return a step's result."""
    return event("step.completed", key, payload=payload, **fields)


class Harness(Sender):
    """Makes turns as a worker does, and brings runs to any status."""

    def turn(self, run: Run, *events: Event, **fields: Any) -> CommitTurn:
        """Return a turn of the held `run`, its events numbered on from the row."""
        at = self.store.now()
        numbered = tuple(
            each._replace(at=at, seq=run.seq + n, epoch=run.epoch, generation=run.generation)
            for n, each in enumerate(events, start=1)
        )
        command = CommitTurn(
            run.ns, run.id, run.owner or "nobody", run.epoch, run.seq, numbered, at,
            known_inbox=run.inbox_seq,
        )  # fmt: skip
        return command._replace(**fields)

    async def commit(self, run: Run, *events: Event, **fields: Any) -> str:
        """Commit a turn; return what became of it."""
        return str(await self.send(self.turn(run, *events, **fields)))

    async def held(self, id: str = "r", worker: str = "A", **fields: Any) -> Run:
        """Start a run, born claimed by a worker whose lease is fresh."""
        command = self.starting(id, owner=worker, **fields)
        [_, run] = await self.send_all([RenewLease(worker, LEASE), command])
        return Run._make(run)

    async def park(self, run: Run, wake_at: int | None = None) -> Run:
        """Let a held run wait, for a time or (None) for a message."""
        parked = await self.commit(
            run, status="waiting", wake_at=wake_at, inbox_seq=run.inbox_seq, reason="waits"
        )
        assert parked == "applied", parked
        return await self.row(run.id, run.ns)

    async def end(self, run: Run, status: RunStatus = "completed", payload: bytes = b"1") -> Run:
        """Close a held run."""
        closing = Event(f"run.{status}", 0, payload=payload)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        assert status in CLOSED
        ended = await self.commit(run, closing, status=status)
        assert ended == "applied", ended
        return await self.row(run.id, run.ns)

    async def closed(self, id: str = "r", status: RunStatus = "completed", **fields: Any) -> Run:
        """Start a run and close it."""
        return await self.end(await self.held(id, **fields), status)

    async def in_status(self, status: RunStatus, id: str = "r") -> Run:
        """Bring a fresh run to `status`, by the ways a run really gets there."""
        if status == "pending":
            return await self.start(id)
        run = await self.held(id)
        if status == "running":
            return run
        if status == "quarantined":
            await self.park(run)
            return Run._make(await self.move("quarantine", id))
        if status == "terminated":
            return Run._make(await self.move("terminate", id))
        if status in CLOSED:
            return await self.end(run, status, b'{"type":"E","message":"m"}')
        marks: dict[RunStatus, tuple[Event, ...]] = {
            "paused": (event("run.paused"),),
            "blocked": (event("run.blocked"),),
        }
        assert await self.commit(run, *marks.get(status, ()), status=status) == "applied"
        return await self.row(id)


def ids(runs: Iterable[Run]) -> list[str]:
    """Return the ids of runs, in their order."""
    return [run.id for run in runs]
