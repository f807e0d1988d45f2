"""A store, a clock moved by hand, and the commands as short calls.

Every call goes the way a host's does: `kernel.decide`, `store.write`, `kernel.read`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from holdfast.kernel.dispatch import decide, read
from holdfast.model.commands import (
    CancelRun,
    Command,
    CommitTurn,
    PauseRun,
    QuarantineRun,
    ReapLeases,
    RenewLease,
    ResumeRun,
    RetryRun,
    SignalRun,
    StartRun,
    TerminateRun,
)
from holdfast.model.events import Event, EventKind
from holdfast.model.run import Loaded, Run
from holdfast.model.status import CLOSED, RunStatus
from holdfast.model.writes import Claim, Claimed
from holdfast.ports.store import Store
from holdfast.testing.clock import SECOND, ManualClock

Make = Callable[[Callable[[], int]], Store]

Capability = Literal["durable", "shared", "rings", "knows_dead"]
"""What a store may lack.

`durable`: what was written is there when the store is opened again. `shared`: several stores may
be open on the same data. `rings`: a listener hears of other stores' changes without polling.
`knows_dead`: a worker whose process ended is reported at once, before its lease is over.
"""

Body = TypeVar("Body", bound=Callable[..., Awaitable[None]])

LEASE = 30 * SECOND
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


class Harness:
    """What a case is given."""

    def __init__(self, make: Make, *, remote: str = "") -> None:
        self.clock = ManualClock()
        self.remote = remote
        self._make = make
        self._opened: list[Store] = []
        self.store: Store = make(self.clock)

    async def __aenter__(self) -> Harness:
        await self._open(self.store)
        return self

    async def __aexit__(self, *_: object) -> None:
        for store in self._opened:
            await store.close()

    async def another(self) -> Store:
        """Open a second store on the same data."""
        return await self._open(self._make(self.clock))

    async def reopen(self) -> None:
        """Close the store and open it again, as a new process would."""
        self._opened.remove(self.store)
        await self.store.close()
        self.store = await self._open(self._make(self.clock))

    async def _open(self, store: Store) -> Store:
        await store.open()
        self._opened.append(store)
        return store

    # --- commands

    async def send(self, command: Command, store: Store | None = None) -> Any:
        """Carry one command out and return its reply, or raise why it was refused."""
        [outcome] = await (store or self.store).write([decide(command)])
        return read(command, outcome)

    async def send_all(self, commands: Iterable[Command]) -> list[Any]:
        """Carry commands out as one batch and return their replies."""
        listed = list(commands)
        outcomes = await self.store.write([decide(command) for command in listed])
        return [read(command, outcome) for command, outcome in zip(listed, outcomes, strict=True)]

    def starting(self, id: str = "r", **fields: Any) -> StartRun:
        """Return a start; `fields` are those of StartRun."""
        given: dict[str, Any] = {"workflow": "w", "version": "1", "input": b"{}", "ns": "default"}
        given.update(fields)
        given.setdefault("input_digest", b"digest of " + given["input"])
        return StartRun(id=id, at=self.store.now(), **given)

    def signalling(self, id: str, run: str = "r", **fields: Any) -> SignalRun:
        """Return a signal; `fields` are those of SignalRun."""
        given: dict[str, Any] = {"name": "go", "payload": b"null", "ns": "default", **fields}
        return SignalRun(run=run, id=id, at=self.store.now(), **given)

    def cancelling(self, id: str, run: str = "r", ns: str = "default") -> CancelRun:
        """Return a cancel."""
        return CancelRun(ns, run, id, self.store.now())

    async def start(self, id: str = "r", **fields: Any) -> Run:
        """Start a run, or find it."""
        run: Run = await self.send(self.starting(id, **fields))
        return run

    async def signal(self, id: str, run: str = "r", **fields: Any) -> bool:
        """Send a signal; tell whether it is new."""
        return bool(await self.send(self.signalling(id, run, **fields)))

    async def cancel(self, run: str = "r", id: str = "c1", ns: str = "default") -> bool:
        """Ask a run to stop; tell whether this was the first time."""
        return bool(await self.send(self.cancelling(id, run, ns)))

    async def move(self, what: str, run: str = "r", ns: str = "default") -> Any:
        """Terminate, pause, resume or quarantine a run."""
        at = self.store.now()
        commands: dict[str, Command] = {
            "terminate": TerminateRun(ns, run, at, "tired"),
            "pause": PauseRun(ns, run, "p1", at, "lunch"),
            "resume": ResumeRun(ns, run, at),
            "quarantine": QuarantineRun(ns, run, at, "it kills"),
        }
        return await self.send(commands[what])

    async def retry(self, run: str = "r", ns: str = "default") -> Run:
        """Let a failed, blocked or quarantined run try again."""
        loaded = await self.load(run, ns)
        command = RetryRun(ns, run, loaded.run.status, loaded.events, self.store.now())
        retried: Run = await self.send(command)
        return retried

    async def renew(self, worker: str = "A", lease: int = LEASE) -> bool:
        """Say that a worker lives; False means that its lease began anew."""
        return bool(await self.send(RenewLease(worker, lease)))

    async def reap(self, worker: str = "A", *, known_dead: bool = False) -> int:
        """Take the runs of a worker; return how many."""
        return int(await self.send(ReapLeases(worker, known_dead)))

    async def claim(self, worker: str = "A", **fields: Any) -> Claimed:
        """Claim runs; `fields` are those of Claim."""
        given: dict[str, Any] = {"ns": "default", "workflows": ("w",), "limit": 100, **fields}
        return await self.store.claim(Claim(worker=worker, lease=LEASE, **given))

    # --- turns

    def turn(self, run: Run, *events: Event, **fields: Any) -> CommitTurn:
        """Return a turn of the held `run`, its events numbered on from the row."""
        at = self.store.now()
        numbered = tuple(
            each._replace(at=at, seq=run.seq + n, epoch=run.epoch, generation=run.generation)
            for n, each in enumerate(events, start=1)
        )
        owner = run.owner if fields.get("status", "running") == "running" else None
        command = CommitTurn(run.ns, run.id, run.epoch, run.seq, numbered, at, owner=owner)
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

    # --- reads

    async def load(self, run: str = "r", ns: str = "default", after: int = 0) -> Loaded:
        """Return a run that must be there."""
        loaded = await self.store.load(ns, run, after)
        assert loaded is not None, f"{ns}/{run} is not there"
        return loaded

    async def row(self, run: str = "r", ns: str = "default") -> Run:
        """Return the row of a run that must be there."""
        return (await self.load(run, ns)).run

    async def kinds(self, run: str = "r") -> list[str]:
        """Return the kinds of the living events."""
        return [each.kind for each in (await self.load(run)).events]


def ids(runs: Iterable[Run]) -> list[str]:
    """Return the ids of runs, in their order."""
    return [run.id for run in runs]
