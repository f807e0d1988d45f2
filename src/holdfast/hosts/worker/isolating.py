"""Steps in processes of their own: for CPU work, and for what must be killable.

A few processes are kept and used again, one call at a time. An attempt that is cancelled or times
out is told so; if its process does not answer in time it is killed, with all it started. A process
that dies takes nothing with it but the attempt that ran in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import ProcessDied
from holdfast.fronts.function.completing import CompleteLater
from holdfast.fronts.function.logs import captured
from holdfast.hosts.worker.frames import bytes_of, framed, received, text_of
from holdfast.model.annotations import LogLine
from holdfast.model.failures import decode_failure
from holdfast.model.jobs import Reported

if TYPE_CHECKING:
    from holdfast.hosts.worker.steps import StepRun

log = logging.getLogger("holdfast.worker")

GRACE = 2.0
"""Seconds that a cancelled step may take to end before its process is killed."""
PROGRAM = "holdfast.hosts.worker.isolated"


class Process:
    """One process that carries out calls."""

    def __init__(self) -> None:
        theirs_in, self._commands = os.pipe()
        self._answers, theirs_out = os.pipe()
        files = (theirs_in, theirs_out)
        program = [sys.executable, "-m", PROGRAM, *map(str, (*files, os.getpid()))]
        try:
            # In a session of its own, so that all it starts can be killed with it.
            self._popen = subprocess.Popen(  # noqa: S603 - our own program
                program, stdin=subprocess.DEVNULL, pass_fds=files, start_new_session=True
            )
        finally:
            for file in files:
                os.close(file)
        self.is_alive, self.is_at_rest, self.is_over = True, True, False
        self._transport: asyncio.BaseTransport | None = None
        self._reader = asyncio.StreamReader()

    async def meet(self) -> None:
        """Wait until it listens."""
        if self._transport is None:
            loop, file = asyncio.get_running_loop(), os.fdopen(self._answers, "rb")
            self._transport, _ = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(self._reader, loop=loop), file
            )
            await received(self._reader)

    async def call(self, run: StepRun) -> Any:
        """Carry out one attempt, and return its value.

        Raises what became of it: `Reported`, `ProcessDied`, `CompleteLater`.
        """
        self.is_at_rest = False
        self._say(**_asked(run))
        while (said := await received(self._reader)) is not None:
            if "beat" in said:
                run.beat(bytes_of(said["beat"]))
            elif "line" in said:
                level, logger, message, fields = said["line"]
                run.say(LogLine(0, level, logger, message, fields=bytes_of(fields)))
            else:
                self.is_at_rest = True
                return _value(run, said)
        raise ProcessDied(step=run.key, how=_how(await self.ended()))

    async def rest(self) -> None:
        """Have the attempt end that nobody waits for any more; if it does not, kill it."""
        self._say(cancel=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                while (said := await received(self._reader)) is not None:
                    if "beat" not in said and "line" not in said:
                        self.is_at_rest = True
                        return
        log.info("a step did not end when it was cancelled: its process is killed")
        await self.ended()

    def kill(self) -> None:
        """End it, and all it started."""
        if self.is_alive:
            self.is_alive = False
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            if self._transport is None:
                os.close(self._answers)
            else:
                self._transport.close()
            os.close(self._commands)

    async def ended(self) -> int:
        """Return how it ended, once it is dead."""
        self.kill()
        code = await asyncio.to_thread(self._popen.wait)
        self.is_over = True
        return code

    def _say(self, **fields: Any) -> None:
        left = framed(fields)
        with contextlib.suppress(OSError):  # it is gone: its silence tells
            while left:
                left = left[os.write(self._commands, left) :]


class Processes:
    """The processes of one worker, kept between calls."""

    def __init__(self) -> None:
        self._idle: list[Process] = []
        self._all: set[Process] = set()
        self._leaving: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncGenerator[Process]:
        """Give one that has nothing else to do."""
        process = self._idle.pop() if self._idle else Process()
        self._all.add(process)
        try:
            await process.meet()
            yield process
        finally:
            if process.is_alive and not process.is_at_rest:
                self._leave(process)
            else:
                self._put_back(process)

    async def stop(self) -> None:
        """Kill all of them."""
        leaving = tuple(self._leaving)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        for process in tuple(self._all):
            await process.ended()
        self._all.clear()
        self._idle.clear()

    def _put_back(self, process: Process) -> None:
        if process.is_alive:
            self._idle.append(process)
        elif process.is_over:
            self._all.discard(process)

    def _leave(self, process: Process) -> None:
        task = asyncio.get_running_loop().create_task(self._see_off(process))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _see_off(self, process: Process) -> None:
        try:
            await process.rest()
        finally:
            self._put_back(process)


def _value(run: StepRun, told: dict[str, Any]) -> Any:
    if "later" in told:
        raise CompleteLater
    if "failed" in told:
        failure = decode_failure(told["failed"].encode())
        raise Reported(failure, told["kinds"], delay=told["delay"])
    result = run.ask.step.signature.result
    return result.decode(bytes_of(told["done"]) or b"null", where=f"result of step {run.key}")


def _asked(run: StepRun) -> dict[str, Any]:
    function = run.ask.step.function
    module, file = _module_of(function)
    return {
        "ns": run.ns, "run": run.run, "generation": run.generation, "key": run.key,
        "number": run.number, "keyed_as": run.keyed_as, "token": run.token(),
        "callbacks": run.callbacks(), "earlier": text_of(run.earlier()),
        "secrets": {name: secret.reveal() for name, secret in run.secrets.items()},
        "args": text_of(run.ask.args), "module": module, "file": file, "path": sys.path,
        "attribute": function.__qualname__, "loggers": captured(),
    }  # fmt: skip


def _module_of(function: Any) -> tuple[str, str]:
    """Return by which name and from which file a process imports what defines a function."""
    name: str = function.__module__
    file = str(getattr(sys.modules.get(name), "__file__", "") or "")
    if name == "__main__":
        # Under another name, so that what a script does when it is run is not done again.
        return f"__mp_main__{Path(file).stem}", file
    return name, file


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
