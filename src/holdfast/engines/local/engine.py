"""The local engine: commands in, replies out, through the kernel and a store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from typing import TYPE_CHECKING, Any, Protocol, cast

from holdfast.engines.local.hub import POLL, Hub, closed
from holdfast.engines.local.vault import Vault
from holdfast.errors import RunNotFound, StoreError
from holdfast.kernel import dispatch
from holdfast.model.annotations import LogFilter, LogLine
from holdfast.model.commands import Command, RenewLease, RetryRun, StartRun
from holdfast.model.events import Event
from holdfast.model.exports import Export
from holdfast.model.labels import Labels
from holdfast.model.run import Loaded, Posted, Run
from holdfast.model.status import CLOSED
from holdfast.model.writes import Filter, Page
from holdfast.ports.store import Store

if TYPE_CHECKING:
    from holdfast.machine.looking import Look, Seen


DONE = frozenset({"rejected", "completed", "failed"})
DECIDED = DONE | {"accepted"}


class LeaseLike(Protocol):
    """What the engine needs of a worker's lease."""

    @property
    def is_fresh(self) -> bool:
        """Tell whether a run may be born in the worker's hands without a renewal."""
        ...

    @property
    def command(self) -> RenewLease:
        """The renewal."""
        ...

    def note(self) -> None:
        """Remember that the lease was renewed."""
        ...


class Host(Protocol):
    """A worker in this process: runs started here are born in its hands, in one commit."""

    @property
    def lease(self) -> LeaseLike:
        """Its lease."""
        ...

    @property
    def vault(self) -> Vault:
        """The secrets it has for its steps."""
        ...

    def offer(self, queue: str) -> AbstractContextManager[str] | None:
        """Return a place for one more run of that queue, if it has one.

        It is kept for the length of a block, which gets the worker's id.
        """
        ...

    def adopt(self, run: Run, event: Event) -> None:
        """Hold a run that was born in its hands."""
        ...

    async def visit(self, run: str, look: Look) -> Seen | None:
        """Look at the body of a run that it has, when all that it has seen is stored."""
        ...

    def held(self, run: str) -> Run | None:
        """Return the row of a run that it holds now, as it was when it took it."""
        ...


class Closed:
    """Where the store of an engine was that is closed: whatever it is asked, it refuses."""

    def __getattr__(self, name: str) -> Any:
        """Raise `StoreUnavailable`."""
        raise closed()


class LocalEngine:
    """What a client talks to when the kernel runs on one of our own stores."""

    def __init__(
        self, store: Store, ns: str, host: Host | None = None, *, poll: float = POLL
    ) -> None:
        self.store, self.ns, self.host = store, ns, host
        self._hub = Hub(store, ns, poll)
        self._defined: set[tuple[str, str, bytes | None]] = set()
        self.vault = Vault(store, ns) if host is None else host.vault

    def open(self) -> None:
        """Be ready to hear of closings here; others are heard when somebody waits for them."""
        if self.host is not None:
            self._hub.open(near=True)

    async def close(self) -> None:
        """Let go of whoever waits; who asks for something later is refused, and does not wait."""
        await self._hub.close()
        self.store = cast("Store", Closed())

    async def do(self, command: Command) -> Any:
        """Carry a command out. Raises what the kernel makes of its refusal."""
        (outcome,) = await self.store.write([dispatch.decide(command)])
        return dispatch.read(command, outcome)

    async def start(self, command: StartRun, *, is_known: bool) -> tuple[Run, bool]:
        """Start a run, or find it; tell whether it is new.

        `is_known` says that a worker here can run its workflow.
        """
        host = self.host
        is_now = command.wake_at <= command.at and command.place is None
        place = host.offer(command.queue) if host is not None and is_known and is_now else None
        if place is None:
            return await self._start(command, None)
        with place as owner:
            return await self._start(command, owner)

    async def _start(self, command: StartRun, owner: str | None) -> tuple[Run, bool]:
        """Start a run, in the hands of the worker here if that is its owner."""
        host = self.host
        # The first start of a definition in this process keeps its shape, in the same commit.
        definition = (command.workflow, command.version, command.shape)
        command = command._replace(owner=owner, defines=definition not in self._defined)
        commands: list[Command] = [command]
        if host is not None and owner is not None and not host.lease.is_fresh:
            commands.insert(0, host.lease.command)
        writes = [dispatch.decide(each) for each in commands]
        heard = self._hub.heard
        outcomes = await self.store.write(writes)
        if host is not None and len(commands) > 1:
            host.lease.note()
        if owner is not None and outcomes[-1].run is None and not outcomes[-1].applied:
            # Its queue is managed, so it has to stand in line.
            return await self._start(command, None)
        run: Run = dispatch.read(command, outcomes[-1])
        if outcomes[-1].applied:
            self._defined.add(definition)
            if host is not None and owner is not None:
                host.adopt(run, writes[-1].event)  # type: ignore[union-attr]
            else:
                self._hub.started(run.id, heard)
        return run, outcomes[-1].applied

    async def visit(self, run: str, look: Look) -> Seen | None:
        """Look at the body of a run that a worker here has; else None."""
        return None if self.host is None else await self.host.visit(run, look)

    async def decided(self, run: str, message: str, *, is_done: bool) -> Posted:
        """Return an update when the run has decided on it, or has carried it out if `is_done`.

        Also when the run is closed, which may be before that. Raises `RunNotFound`.
        """
        wanted = DONE if is_done else DECIDED
        while True:
            with self._hub.watch(run) as change:
                try:
                    posted = await self.store.message(self.ns, run, message)
                except StoreError:
                    posted = None  # it is stored: the next look is a second away
                else:
                    if posted is None:
                        raise RunNotFound(run=run)
                    told = posted.message and posted.message.state
                    if told in wanted or posted.run.status in CLOSED:
                        return posted
                await change()

    async def retry(self, run: str, at: int, reason: str = "") -> Run:
        """Let a failed, blocked or quarantined run try again."""
        loaded = await self.load(run)
        deadline = loaded.run.deadline
        command = RetryRun(self.ns, run, loaded.run.status, loaded.events, at, reason, deadline)
        reopened: Run = await self.do(command)
        return reopened

    async def load(self, run: str, after: int = 0) -> Loaded:
        """Return a run with its living events. Raises `RunNotFound`."""
        loaded = await self.store.load(self.ns, run, after)
        if loaded is None:
            raise RunNotFound(run=run)
        return loaded

    async def find(self, filter: Filter, page: Page) -> list[Run]:
        """Return runs, newest first."""
        return await self.store.find(filter, page)

    async def labels(self, runs: Sequence[str]) -> Mapping[str, Labels]:
        """Return the tags and attributes of those runs that have some."""
        return await self.store.labels(self.ns, runs) if runs else {}

    async def export(self, run: str) -> Export:
        """Return everything of a run. Raises `RunNotFound`."""
        export = await self.store.export(self.ns, run)
        if export is None:
            raise RunNotFound(run=run)
        return export

    async def closing(self, run: str) -> Event:
        """Return the event that closed the run, when it has come. Raises `RunNotFound`."""
        held = None if self.host is None else self.host.held(run)
        return await self._hub.closing(run, held)

    async def events(self, run: str, after: int) -> AsyncIterator[Event]:
        """Yield living events as they come, until the run is closed and all are told."""
        async with aclosing(self.growth(run, after)) as growth:
            async for loaded in growth:
                for event in loaded.events:
                    yield event

    async def growth(self, run: str, after: int) -> AsyncGenerator[Loaded, None]:
        """Yield a run with the living events that are new, whole commits at a time, until closed.

        Raises `RunNotFound`.
        """
        while True:
            with self._hub.watch(run) as change:
                loaded = await self.load(run, after)
                if not loaded.events and loaded.run.status not in CLOSED:
                    await change()
            if loaded.events:
                after = loaded.events[-1].seq
                yield loaded
            if loaded.run.status in CLOSED and after >= loaded.run.seq:
                return

    async def logs(self, wanted: LogFilter, *, follow: bool = False) -> AsyncIterator[LogLine]:
        """Yield lines of a run's log, oldest first; `follow` it until the run is closed.

        Raises `RunNotFound`.
        """
        while True:
            with self._hub.watch(wanted.run) as change:
                row = (await self.load(wanted.run, 1 << 62)).run
                lines = await self.store.logs(wanted)
                is_over = not follow or row.status in CLOSED
                if not lines and not is_over:
                    await change()
            for line in lines:
                yield line
            if lines:
                wanted = wanted._replace(after=lines[-1].at)
            elif is_over:
                return
