"""The hosts: real processes, each started again when it has ended.

A host may end because it was killed or told to leave. Every other end is a violation: an outage of
the store must not take a process down, nor keep one from starting.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from chaos.host import READY

ROOT = Path(__file__).parents[1]
LEAVES_WITHIN = 40.0
"""Seconds: a host that drains may have to wait for an answer that never comes."""
STARTS_WITHIN = 60.0


class Host:
    """A place for one process at a time."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name, self._command, self._log = name, command, log
        self.pid = 0
        self.is_ready = asyncio.Event()
        self.violations: list[str] = []
        self._process: asyncio.subprocess.Process | None = None
        self._ended = asyncio.Event()
        self._is_over = False
        self._may_end: set[int] = set()

    async def live(self) -> None:
        """Have a process here until `end`."""
        while not self._is_over:
            await self._one_life()

    async def _one_life(self) -> None:
        self._may_end, was_ready = set(), False
        self._ended.clear()
        with self._log.open("ab") as log:
            process = self._process = await asyncio.create_subprocess_exec(
                *self._command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=log
            )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(STARTS_WITHIN):
                was_ready = (await process.stdout.readline()).decode().strip() == READY
        except TimeoutError:
            self._send(signal.SIGKILL)
        if was_ready:
            self.pid = process.pid
            self.is_ready.set()
            if self._is_over:
                self._send(signal.SIGTERM, 0)
        code = await process.wait()
        self.is_ready.clear()
        self._ended.set()
        if code not in self._may_end:
            what = "ended by itself" if was_ready else "did not start"
            self.violations.append(f"host {self.name} ({process.pid}) {what}, with {code}")

    def kill(self) -> None:
        """End the process without a word to it."""
        self._send(signal.SIGKILL, -signal.SIGKILL)

    def freeze(self) -> None:
        """Stop the process where it stands."""
        self._send(signal.SIGSTOP)

    def thaw(self, pid: int) -> None:
        """Let a frozen process go on, if it is still this one."""
        if self.pid == pid:
            self._send(signal.SIGCONT)

    async def leave(self) -> None:
        """Ask the process to leave, and see that it does."""
        ended = self._ended
        # One that has not begun yet knows no better than to die of it.
        self._send(signal.SIGTERM, 0, *(() if self.is_ready.is_set() else (-signal.SIGTERM,)))
        try:
            async with asyncio.timeout(LEAVES_WITHIN):
                await ended.wait()
        except TimeoutError:
            self.violations.append(f"host {self.name} ({self.pid}) did not leave when told to")
            self.kill()

    async def end(self) -> None:
        """Ask the process to leave; no other takes its place."""
        self._is_over = True
        await self.leave()

    def _send(self, number: int, *codes: int) -> None:
        self._may_end.update(codes)
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)


class Fleet:
    """All hosts of a round. Leaving the block means that none is left."""

    def __init__(self, urls: Sequence[str], journal: Path, log: Path, lease: float) -> None:
        command = (sys.executable, "-m", "chaos.host")
        self.hosts = [
            # Every other one on a machine of its own.
            Host(
                chr(ord("a") + n),
                (*command, url, str(journal), str(lease), *(["apart"] if n % 2 == 0 else [])),
                log,
            )
            for n, url in enumerate(urls)
        ]
        self._living: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._living = [asyncio.create_task(host.live()) for host in self.hosts]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            for host in self.hosts:
                host.kill()
        await asyncio.gather(*(host.end() for host in self.hosts))
        await asyncio.gather(*self._living)

    async def ready(self) -> None:
        """Return when all of them work."""
        await asyncio.gather(*(host.is_ready.wait() for host in self.hosts))

    @property
    def violations(self) -> list[str]:
        """What hosts did that they must not."""
        return [text for host in self.hosts for text in host.violations]
