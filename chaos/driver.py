"""Whoever uses the engine: starts runs, signals and cancels them, and remembers what it was told.

An error of the store means that nothing is known: the same call is made again with the same key.
Only what was acknowledged counts, and all of it must hold.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, TypeVar

import holdfast as hf
from chaos import flows
from holdfast.machine.values import digest
from holdfast.model.dump import Sent, Started
from holdfast.model.status import OPEN

T = TypeVar("T")
NS = "default"
AGAIN = 0.1
"""Seconds before a call is repeated."""
PAUSE = (0.0, 0.06)
"""Seconds between two starts."""

Cancel = Literal["accepted", "too late", "in doubt"]
"""What a cancel came to. In doubt: it is too late now, and an earlier try may be why."""


@dataclass
class Told:
    """What the driver was told of one run."""

    workflow: str
    n: int
    start: Started
    signals: list[Sent] = field(default_factory=list)
    cancel: Cancel | None = None
    status: str = ""
    """How it ended, by the client's word; empty as long as it has not."""
    ending: flows.Ending | None = None


class Driver:
    """Keeps a number of runs open for a while, then waits until all have ended."""

    def __init__(self, client: hf.Client, seed: int, *, window: int) -> None:
        self._client, self._seed = client, seed
        self._room = asyncio.Semaphore(window)
        self.told: dict[str, Told] = {}
        self.repeated = 0
        """How many calls had to be made again."""
        self.violations: list[str] = []
        """What calls raised that is no error of the store."""

    async def drive(self, seconds: float, drain: float) -> None:
        """Start runs for so long; return when all are over, or when `drain` is."""
        chance, number = Random(f"{self._seed} driver"), 0
        until = time.monotonic() + seconds
        playing: set[asyncio.Task[None]] = set()
        while time.monotonic() < until:
            await self._room.acquire()
            playing.add(asyncio.create_task(self._one(number, Random(f"{self._seed} {number}"))))
            number += 1
            await asyncio.sleep(chance.uniform(*PAUSE))
        playing.add(asyncio.create_task(self._stop_the_clock()))
        _, late = await asyncio.wait(playing, timeout=drain)
        for task in late:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)

    async def _stop_the_clock(self) -> None:
        """Have no more runs started by the schedule, and wait for those that were."""
        await self._surely(lambda: self._client.schedules.pause(flows.TICK))
        wanted = f"workflow:{flows.ticked.name} status:{','.join(sorted(OPEN))}"
        while True:
            found, _ = await self._surely(lambda: self._client.list(filter=wanted, limit=1))
            if not found.runs:
                return
            await asyncio.sleep(AGAIN)

    async def _one(self, n: int, chance: Random) -> None:
        try:
            shape = flows.SHAPES[n % len(flows.SHAPES)]
            bound, id = shape.bind(n), f"{shape.name}-{n}"
            key = flows.key_of(n) if shape.name == flows.NARROW else None
            run, _ = await self._surely(lambda: self._client.start(bound, id=id, queue_key=key))
            start = Started(NS, id, shape.name, digest(bound.input))
            told = self.told[id] = Told(shape.name, n, start)
            await self._play(run, told, chance)
            await self._end(run, told)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.violations.append(f"run {n}: a call raised {error!r} at {where}")
        finally:
            self._room.release()

    async def _play(self, run: hf.RunHandle[flows.Ending], told: Told, chance: Random) -> None:
        if told.workflow == "mail":
            for place, value in enumerate(flows.signalled(told.n)):
                await asyncio.sleep(chance.uniform(0, 0.3))
                await self._signal(run, told, f"s{place}", value)
        elif told.workflow in ("stopped", "raced"):
            await asyncio.sleep(chance.uniform(0, 1.0))
            await self._cancel(run, told)

    async def _signal(self, run: hf.RunHandle[Any], told: Told, id: str, value: int) -> None:
        await self._surely(lambda: run.signal(flows.go, value, id=id))
        told.signals.append(Sent(NS, run.id, id))

    async def _cancel(self, run: hf.RunHandle[Any], told: Told) -> None:
        async def cancel() -> bool:
            try:
                await run.cancel("by the driver")
            except hf.RunClosed:
                return False
            return True

        is_accepted, tries = await self._surely(cancel)
        told.cancel = "accepted" if is_accepted else "too late" if tries == 1 else "in doubt"

    async def _end(self, run: hf.RunHandle[flows.Ending], told: Told) -> None:
        async def end() -> tuple[str, flows.Ending | None]:
            try:
                return "completed", await run.result()
            except hf.RunCancelled:
                return "cancelled", None
            except hf.RunFailed as failure:
                return f"failed: {failure}", None

        (told.status, told.ending), _ = await self._surely(end)

    async def _surely(self, call: Callable[[], Awaitable[T]]) -> tuple[T, int]:
        """Return what the call gives, and how many tries it took."""
        tries = 0
        while True:
            tries += 1
            try:
                return await call(), tries
            except hf.StoreError:
                self.repeated += 1
                await asyncio.sleep(AGAIN)
