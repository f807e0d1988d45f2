"""Who breaks things: one fault after the other from a shuffled deck, so that all kinds come."""

from __future__ import annotations

import asyncio
import fcntl
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import BinaryIO

from chaos import journal
from chaos.evidence import UNTIL_TAKEN, Fault
from chaos.fleet import Fleet, Host
from chaos.flows import WORKED
from chaos.places import Place
from chaos.plan import Plan

PAUSE = (0.2, 1.6)
"""Seconds between two faults; less when a round is short."""
BACKENDS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name LIKE 'holdfast {purpose}%'"
)
PURPOSES = ("writes", "claims", "reads", "heartbeat", "worker", "")
"""Whose sessions are ended: those for one purpose, of all hosts; or all of them."""
SWALLOWED = ("writes", "writes", "claims", "heartbeat")
SWALLOW_WITHIN = 3.0
FREEZES = ((0.8, 1.2), (1.2, 2.0))
"""How many leases a freeze lasts: until just when others take over, or well after that."""
TAKEN_WITHIN = 5.0
"""How many leases it may take until others have what a frozen host held."""
FROZEN_WRITING = 0.2
"""How often a host may be frozen while it writes to a SQLite file."""
ZOMBIE = 1.0
"""Seconds that a host which was frozen is left alone."""
PATIENCE = 5.0
"""Seconds to wait for hosts that can be hit: those hit before must start again first."""

Break = Callable[[], Awaitable[None]]


class Nemesis:
    """Breaks what it can in one place. `faults` is what it did."""

    def __init__(self, place: Place, fleet: Fleet, path: Path, plan: Plan) -> None:
        self._place, self._fleet, self._lease = place, fleet, plan.lease
        self._path = path
        self._chance = Random(f"{plan.seed} nemesis")
        self._lasting: set[asyncio.Task[None]] = set()
        self._busy: set[str] = set()
        self.faults: list[Fault] = []

    @property
    def kinds(self) -> Mapping[str, Break]:
        """What can be broken here."""
        hosts: dict[str, Break] = {
            "SIGKILL": self._kill, "SIGKILL of all": self._kill_all,
            "SIGSTOP": self._freeze, "SIGSTOP of all": self._freeze_all,
            UNTIL_TAKEN: self._freeze_until_taken,
            "SIGTERM": self._leave, "SIGTERM of all": self._leave_all,
        }  # fmt: skip
        wires: dict[str, Break] = {
            "delay": self._delay, "cut": self._cut, "black hole": self._black_hole,
            "reply swallowed": self._swallow, "backends terminated": self._terminate,
        }  # fmt: skip
        crash: dict[str, Break] = {"server crash": self._crash}
        gates, ours = self._place.gates, self._place.is_ours
        return {**hosts, **(wires if gates else {}), **(crash if ours else {})}

    async def rage(self, seconds: float) -> None:
        """Break things for so long, then mend all that is broken."""
        # What must show that commits are refused comes first, so that it does in short rounds too.
        until, deck = time.monotonic() + seconds, [UNTIL_TAKEN]
        pace = min(1.0, seconds / 30)
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, pace * self._chance.uniform(*PAUSE)))
            if not deck:
                deck = list(self.kinds)
                self._chance.shuffle(deck)
            await self.kinds[deck.pop()]()
        for lasting in self._lasting:
            lasting.cancel()
        await asyncio.gather(*self._lasting, return_exceptions=True)
        for gate in self._place.gates:
            gate.heal()

    @property
    def counted(self) -> Counter[str]:
        """How often each kind came."""
        return Counter(kind for kind, _ in {(fault.kind, fault.at) for fault in self.faults})

    async def _victim(self) -> Host | None:
        """Choose a host that is at work; None if there is none for a while."""
        at_work = await self._at_work(1)
        return self._chance.choice(at_work) if at_work else None

    async def _at_work(self, count: int) -> list[Host]:
        """Return the hosts that have steps under way, when there are so many, or after a while."""
        until = time.monotonic() + PATIENCE
        while True:
            pids = journal.busy(self._path)
            free = [host for host in self._fleet.hosts if host.name not in self._busy]
            found = [host for host in free if host.is_ready.is_set() and host.pid in pids]
            if len(found) >= count or time.monotonic() > until:
                return found
            await asyncio.sleep(0.02)

    def _note(self, kind: str, *hosts: Host, at: int = 0) -> Fault:
        pids = tuple(host.pid for host in hosts if host.is_ready.is_set())
        fault = Fault(kind, at or _now(), pids)
        self.faults.append(fault)
        return fault

    def _over(self, fault: Fault, until: int) -> None:
        """Note when something was over that lasted."""
        self.faults[self.faults.index(fault)] = fault._replace(until=until)

    def _while(self, work: Awaitable[None]) -> None:
        """Let something last while other things break."""
        task = asyncio.ensure_future(work)
        self._lasting.add(task)
        task.add_done_callback(self._lasting.discard)

    # --- hosts

    async def _kill(self) -> None:
        if (host := await self._victim()) is not None:
            self._note("SIGKILL", host)
            host.kill()

    async def _kill_all(self) -> None:
        await self._at_work(len(self._fleet.hosts))
        self._note("SIGKILL of all", *self._fleet.hosts)
        for host in self._fleet.hosts:
            host.kill()

    async def _freeze(self) -> None:
        if (host := await self._victim()) is not None:
            self._frozen_for_a_while("SIGSTOP", [host])

    async def _freeze_all(self) -> None:
        """Stop all; whoever goes on first finds that the leases of the others are over."""
        self._frozen_for_a_while("SIGSTOP of all", await self._at_work(len(self._fleet.hosts)))

    async def _freeze_until_taken(self) -> None:
        """Stop one until others do what it has begun: when it goes on, it is surely a zombie.

        Nothing else is broken meanwhile, or nobody might dare to take anything.
        """
        if (host := await self._victim()) is not None:
            taken = partial(self._taken, host.pid, self._path.stat().st_size - journal.TAIL)
            await self._frozen(host, self._note(UNTIL_TAKEN, host), taken, writing=0.0)

    async def _taken(self, pid: int, start: int) -> None:
        until = time.monotonic() + self._lease * TAKEN_WITHIN
        while not journal.is_taken(self._path, pid, start, WORKED):
            if time.monotonic() > until:
                return
            await asyncio.sleep(0.02)

    def _frozen_for_a_while(self, kind: str, hosts: Sequence[Host]) -> None:
        at = _now()
        for host in hosts:
            leases = self._chance.uniform(*self._chance.choice(FREEZES))
            fault, sleep = (
                self._note(kind, host, at=at),
                partial(asyncio.sleep, self._lease * leases),
            )
            self._while(self._frozen(host, fault, sleep, writing=FROZEN_WRITING))

    async def _frozen(
        self,
        host: Host,
        fault: Fault,
        meanwhile: Callable[[], Awaitable[None]],
        *,
        writing: float,
    ) -> None:
        """Stop a host past its lease, then let it go on with what it has in hand."""
        pid = host.pid
        self._busy.add(host.name)
        try:
            async with self._beside_writes(writing):
                host.freeze()
            await meanwhile()
            woken = _now()
            host.thaw(pid)
            # A zombie needs a moment to do what it must not.
            await asyncio.sleep(ZOMBIE)
            if host.is_ready.is_set() and host.pid == pid:
                self._over(fault, woken)
        finally:
            host.thaw(pid)
            self._busy.discard(host.name)

    @asynccontextmanager
    async def _beside_writes(self, unless: float) -> AsyncGenerator[None]:
        """See to it that nobody writes to a SQLite file meanwhile, but for so often.

        Whoever is frozen while it writes holds up all others until it goes on, and is no zombie.
        """
        if self._place.lock is None or self._chance.random() < unless:
            yield
            return
        with self._place.lock.open("rb") as file:
            until = time.monotonic() + PATIENCE
            while not _locked(file) and time.monotonic() < until:  # noqa: ASYNC110  (not ours)
                await asyncio.sleep(0.001)
            yield

    async def _leave(self) -> None:
        if (host := await self._victim()) is not None:
            self._note("SIGTERM", host)
            self._leaving(host)

    async def _leave_all(self) -> None:
        if hosts := await self._at_work(len(self._fleet.hosts)):
            self._note("SIGTERM of all", *hosts)
        for host in hosts:
            self._leaving(host)

    def _leaving(self, host: Host) -> None:
        self._busy.add(host.name)
        self._while(self._left(host))

    async def _left(self, host: Host) -> None:
        try:
            await host.leave()
        finally:
            self._busy.discard(host.name)

    # --- the wire and the server

    def _wire(self) -> tuple[Host | None, int]:
        """Choose a way to break: that of a host, or now and then the driver's."""
        place = self._chance.randrange(len(self._place.gates))
        return (self._fleet.hosts[place] if place < len(self._fleet.hosts) else None), place

    async def _delay(self) -> None:
        host, place = self._wire()
        self._note("delay", *filter(None, [host]))
        self._while(self._delayed(place, self._chance.uniform(0.005, 0.1)))

    async def _delayed(self, place: int, seconds: float) -> None:
        gate = self._place.gates[place]
        gate.delay = seconds
        try:
            await asyncio.sleep(self._chance.uniform(0.5, 2.0))
        finally:
            gate.delay = 0.0

    async def _cut(self) -> None:
        host, place = self._wire()
        self._note("cut", *filter(None, [host]))
        self._place.gates[place].cut()

    async def _black_hole(self) -> None:
        host, place = self._wire()
        fault = self._note("black hole", *filter(None, [host]))
        self._while(self._in_black_hole(fault, place))

    async def _in_black_hole(self, fault: Fault, place: int) -> None:
        """Hold everything back past the lease; then it passes after all, or all is lost."""
        gate, is_lost = self._place.gates[place], self._chance.random() < 0.5
        gate.hold()
        try:
            await asyncio.sleep(self._lease * self._chance.uniform(0.5, 2.0))
        finally:
            if is_lost:
                gate.cut()
            gate.heal()
            self._over(fault, _now())

    async def _swallow(self) -> None:
        host, place = self._wire()
        purpose = f"holdfast {self._chance.choice(SWALLOWED) if host else 'writes'}"
        if await self._place.gates[place].swallow(purpose, SWALLOW_WITHIN):
            self._note("reply swallowed", *filter(None, [host]))

    async def _terminate(self) -> None:
        server = self._place.server
        assert server is not None
        asked = BACKENDS.format(purpose=self._chance.choice(PURPOSES))
        self._note("backends terminated", *self._fleet.hosts)
        await asyncio.to_thread(server.execute, asked, url=self._place.url)

    async def _crash(self) -> None:
        server = self._place.server
        assert server is not None
        self._note("server crash", *self._fleet.hosts)
        await asyncio.to_thread(server.restart, "immediate")


def _locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _now() -> int:
    return time.time_ns() // 1_000
