"""Real worker processes, and what they leave behind."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import psutil

from holdfast.compose import store_of
from holdfast.model.dump import Dump, Journal, Started
from holdfast.testing import invariants
from holdfast.testing.crash_homes import Observed

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0


class Line(NamedTuple):
    """One execution of a step, as the journal has it."""

    run: str
    key: str
    attempt: int
    pid: int
    step: str


class Yard:
    """A folder with one store file, one journal, and the processes that work on them.

    With a `url` the runs are kept there instead of in the file.
    """

    def __init__(self, folder: Path, url: str = "") -> None:
        self.path = folder / "shop.db"
        self.journal = folder / "journal"
        self.journal.touch()
        self.url = url or f"sqlite:///{self.path}"

    @contextmanager
    def worker(self, **settings: object) -> "Iterator[subprocess.Popen[str]]":
        """Start a worker; it is killed at the end if it still lives."""
        process = self.start(**settings)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, **settings: object) -> "subprocess.Popen[str]":
        """Start a worker and return when it looks for work."""
        given = [f"{name}={value}" for name, value in settings.items()]
        command = [sys.executable, "-m", "tests.e2e.shop", self.url, str(self.journal)]
        process = subprocess.Popen(
            [*command, *given], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", process.communicate()[1]
        return process

    def lines(self) -> list[Line]:
        """Return every execution so far; a line that is still being written is none."""
        whole = self.journal.read_text().rpartition("\n")[0]
        found = (line.split() for line in whole.splitlines())
        return [Line(run, key, int(n), int(pid), step) for run, key, n, pid, step in found]

    def executions(self) -> Counter[tuple[str, str, int]]:
        """Return how often each attempt was executed; above 1, a process died before its commit."""
        return Counter((line.run, line.key, line.attempt) for line in self.lines())

    async def dump(self, starts: tuple[Started, ...] = ()) -> Dump:
        """Return all the store holds, and check the invariants on it."""
        store = cast("Observed", store_of(self.url))
        await store.open()
        try:
            held = (await store.dump())._replace(journal=Journal(starts=starts))
        finally:
            await store.close()
        assert invariants.check(held) == []
        return held


def until(holds: Callable[[], bool], what: str = "it") -> float:
    """Return how long it took until `holds` was true, in seconds."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < PATIENCE, f"{what} did not happen"
        time.sleep(0.002)
    return time.monotonic() - began


def is_stopped(process: "subprocess.Popen[str]") -> bool:
    """Tell whether SIGSTOP has stopped the process."""
    return psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
