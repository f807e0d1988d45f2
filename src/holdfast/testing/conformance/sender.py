"""The commands as short calls, with everything filled in that a case does not care about."""

from __future__ import annotations

from typing import Any

from holdfast.model.commands import (
    CancelRun,
    Command,
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
from holdfast.model.run import Run
from holdfast.model.writes import Claim, Claimed
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.access import Access

LEASE = 30 * SECOND


class Sender(Access):
    """Sends what clients and workers send."""

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

    async def retry(self, run: str = "r", ns: str = "default", reason: str = "") -> Run:
        """Let a failed, blocked or quarantined run try again."""
        loaded = await self.load(run, ns)
        row, events = loaded.run, loaded.events
        at = self.store.now()
        command = RetryRun(ns, run, row.status, events, at, reason, row.deadline)
        retried: Run = await self.send(command)
        return retried

    async def renew(self, worker: str = "A", lease: int = LEASE) -> bool:
        """Say that a worker lives; False means that its lease began anew."""
        return bool(await self.send(RenewLease(worker, lease)))

    async def reap(self, worker: str = "A", *, known_dead: bool = False) -> int:
        """Take the runs of a worker; return how many."""
        return int(await self.send(ReapLeases(worker, known_dead)))

    async def claim(self, worker: str = "A", **fields: Any) -> Claimed:
        """Claim runs and look at the rest, as a worker does; `fields` are those of Claim."""
        given: dict[str, Any] = {"ns": "default", "workflows": ("w",), "limit": 100, **fields}
        claim = Claim(worker=worker, lease=LEASE, **given)
        taken = await self.store.claim(claim)
        if taken.held is not None:
            return taken
        seen = await self.store.claim(claim._replace(limit=0, eager=False, reaps=()))
        return seen._replace(
            runs=taken.runs, first_events=taken.first_events, reaped=taken.reaped,
            convicts=taken.convicts, ticketed=taken.ticketed,
        )  # fmt: skip
