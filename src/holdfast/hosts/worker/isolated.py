"""The process in which isolated steps run: one call at a time, until it is killed.

It is a program of its own, started by `isolating.py`: `python -m holdfast.hosts.worker.isolated`.
It imports the module of a step, as the worker has it, and calls the function with arguments that it
decodes itself. A thread of its own reads what the worker says: a cancel, and that it is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import io
import os
import signal
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from queue import SimpleQueue
from typing import Any

from holdfast.errors import RetryAfter
from holdfast.fronts.function.completing import CompleteLater
from holdfast.fronts.function.context import CURRENT, Attempt
from holdfast.fronts.function.logs import capture
from holdfast.hosts.worker.frames import bytes_of, framed, read, text_of
from holdfast.model.annotations import LogLine
from holdfast.model.failures import encode_failure, failure_of
from holdfast.model.jobs import kinds_of
from holdfast.model.secrets import Secret

PR_SET_PDEATHSIG = 1
INFO, WARNING = 20, 30


class Line:
    """The way to the worker; any thread may use it."""

    def __init__(self, file: int) -> None:
        self._file, self._lock = file, threading.Lock()

    def send(self, **fields: Any) -> None:
        """Say something; a worker that is gone hears nothing."""
        left = framed(fields)
        with self._lock, contextlib.suppress(OSError):
            while left:
                left = left[os.write(self._file, left) :]


class Called(Attempt):
    """The attempt as its code sees it: what it says goes to the worker."""

    __slots__ = ("_asked", "_line", "_secrets", "loop", "task")

    def __init__(self, asked: Mapping[str, Any], line: Line) -> None:
        super().__init__(
            asked["ns"], asked["run"], asked["generation"], asked["key"], asked["number"]
        )
        self._asked, self._line = asked, line
        self._secrets = {name: Secret(value) for name, value in asked["secrets"].items()}
        self.stopped = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[Any] | None = None

    @property
    def secrets(self) -> Mapping[str, Secret]:
        """What the step lists, by name."""
        return self._secrets

    @property
    def keyed_as(self) -> int:
        """The generation in its idempotency key."""
        return int(self._asked["keyed_as"])

    def beat(self, details: bytes | None) -> None:
        """Say that this attempt is alive, and how far it is."""
        self._line.send(beat=text_of(details))

    def say(self, line: LogLine) -> None:
        """Leave a line in the run's log."""
        self._line.send(line=[line.level, line.logger, line.message, text_of(line.fields)])

    def earlier(self) -> bytes | None:
        """Return the details that an earlier attempt left."""
        return bytes_of(self._asked["earlier"])

    def token(self) -> str:
        """Return what names this attempt to whoever completes it; empty if nobody can."""
        return str(self._asked["token"])

    def callbacks(self) -> str:
        """Return the address at which outcomes are taken; empty if there is none."""
        return str(self._asked["callbacks"])

    def cancel(self) -> None:
        """Have its code know that nobody waits for it any more; called by another thread."""
        if self.stopped is not None:
            self.stopped.set()
        loop, task = self.loop, self.task
        if loop is not None and task is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(task.cancel)


class Printed(io.TextIOBase):
    """What takes the place of standard output: whole lines go to the log of the run."""

    def __init__(self, line: Line, name: str, level: int) -> None:
        self._line, self._name, self._level = line, name, level
        self._rest = ""

    def writable(self) -> bool:
        """It is for writing."""
        return True

    def write(self, text: str) -> int:
        """Take a piece of text."""
        *lines, self._rest = (self._rest + text).split("\n")
        for each in lines:
            self._line.send(line=[self._level, self._name, each, None])
        return len(text)

    def end(self) -> None:
        """Send what has no end of line."""
        if self._rest:
            self.write("\n")


def main(commands: int, answers: int, parent: int) -> None:
    """Carry out calls until the worker is gone."""
    _die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever stops the worker stops it through it
    line, calls = Line(answers), SimpleQueue[dict[str, Any]]()
    current: list[Called] = []
    threading.Thread(target=_listen, args=(commands, calls, current), daemon=True).start()
    line.send(ready=True)
    while True:
        asked = calls.get()
        called = Called(asked, line)
        current[:] = [called]
        told = _carried_out(asked, called, line)
        current.clear()
        line.send(**told)


def _listen(commands: int, calls: SimpleQueue[dict[str, Any]], current: list[Called]) -> None:
    while (said := read(commands)) is not None:
        if "cancel" in said:
            for called in tuple(current):
                called.cancel()
        else:
            calls.put(said)
    os._exit(0)  # the worker is gone: nobody waits for anything


def _carried_out(asked: dict[str, Any], called: Called, line: Line) -> dict[str, Any]:
    out, err = Printed(line, "stdout", INFO), Printed(line, "stderr", WARNING)
    step: Any = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            step = _found(asked)
            payload = _call(step, asked, called)
        except CompleteLater:
            return {"later": True}
        except BaseException as error:
            return _failed(step, error, called.number)
        finally:
            out.end()
            err.end()
    return {"done": text_of(payload)}


def _call(step: Any, asked: dict[str, Any], called: Called) -> bytes | None:
    args, kwargs = step.signature.decode(bytes_of(asked["args"]))
    token, uncapture = CURRENT.set(called), capture(asked["loggers"])
    try:
        found = step.function(*args, **kwargs)
        if step.is_async:
            found = asyncio.run(_awaited(found, called))
    finally:
        uncapture()
        CURRENT.reset(token)
    where = f"result of step {called.key}"
    payload: bytes | None = step.signature.result.cross(found, where=where)[0]
    return payload


async def _awaited(call: Any, called: Called) -> Any:
    called.loop, called.task = asyncio.get_running_loop(), asyncio.current_task()
    return await call


def _failed(step: Any, error: BaseException, number: int) -> dict[str, Any]:
    failure = failure_of(error) if step is None else step.describe(error, number)
    delay = round(error.delay.total_seconds() * 1e6) if isinstance(error, RetryAfter) else None
    told = encode_failure(failure).decode()
    return {"failed": told, "kinds": kinds_of(error), "delay": delay}


def _found(asked: dict[str, Any]) -> Any:
    """Return the step, from its module as the worker has it."""
    name, file = asked["module"], asked["file"]
    for folder in reversed(asked["path"]):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    found: Any = sys.modules.get(name)
    if found is None:
        try:
            found = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name or not file:
                raise
            found = _from_file(name, file)
    for part in asked["attribute"].split("."):
        found = getattr(found, part)
    return found


def _from_file(name: str, file: str) -> Any:
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _die_with(parent: int) -> None:
    """Have the system end this process with its parent, where it can; else the pipe tells."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
