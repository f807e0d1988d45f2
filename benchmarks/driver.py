"""What every driver shares: its command line, its scratch files, its child processes.

A driver measures one engine on one store. It runs in that engine's own interpreter:

    python -m benchmarks.peers.dbos --store sqlite-wal --work w1 [--quick]
    python -m benchmarks.ours --store sqlite --work chain --count 40     under strace, see syncs.py
    python -m benchmarks.ours --role worker URL                          a child of the driver
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import postgres
from benchmarks.work import FULL, QUICK, Size

ROOT = Path(__file__).resolve().parent.parent
RESUMES = 3  # after one SIGKILL; with five, a run counts as one that kills its workers


@dataclass(frozen=True, slots=True)
class Task:
    """What a driver is asked for: the store, how much of the work, or a fixed count of chains."""

    store: str
    size: Size
    count: int = 0


Piece = Callable[[Task], None]
Role = Callable[..., None]


def main(pieces: Mapping[str, Piece], roles: Mapping[str, Role]) -> None:
    """Run the piece of work, or play the part in one, that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", default="sqlite")
    parser.add_argument("--work", choices=sorted(pieces))
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--role", choices=sorted(roles))
    parser.add_argument("rest", nargs="*")
    asked = parser.parse_args()
    if asked.role:
        roles[asked.role](*asked.rest)
    elif asked.work:
        task = Task(asked.store, QUICK if asked.quick else FULL, asked.count)
        pieces[asked.work](task)
    else:
        parser.error("give --work or --role")


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Lend a directory for databases and remove it afterwards."""
    path = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def child(module: str, role: str, *rest: object) -> Iterator[subprocess.Popen[str]]:
    """Play `role` of a driver in another process; kill it when the block is left."""
    command = [sys.executable, "-m", module, "--role", role, *map(str, rest)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def hear(process: subprocess.Popen[str], word: str) -> str:
    """Return what a child says after `word`, passing over its engine's own chatter."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word + ":"):
            return line.partition(":")[2].strip()
    raise RuntimeError(f"the child ended (status {process.wait()}) without saying {word!r}")


def say(word: str, value: object = "") -> None:
    sys.stdout.write(f"{word}:{value}\n")
    sys.stdout.flush()


def killed_and_resumed(
    module: str, first: tuple[object, ...], again: tuple[object, ...], roles: str = ""
) -> str:
    """SIGKILL a child that has reached its last step; return what those say that come after it.

    Each of them ends when it has come to the same step, so the next finds what the first has
    found. It is the one in the middle that counts: a single one is at the mercy of its neighbours.
    """
    with child(module, f"{roles}crash", *first) as process:
        hear(process, "reached")
        process.send_signal(signal.SIGKILL)
        process.wait()
    os.sync()  # what was written before is not of this measurement
    told = [_resumed(module, again, f"{roles}resume") for _ in range(RESUMES)]
    return sorted(told, key=lambda each: float(each.split()[0]))[RESUMES // 2]


def _resumed(module: str, again: tuple[object, ...], role: str) -> str:
    with child(module, role, *again) as process:
        return hear(process, "resumed")


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def disk_bytes(url: str) -> int:
    """Return the size of a database; of SQLite with all beside it, its WAL folded back first."""
    if not url.startswith("sqlite"):
        return postgres.disk_bytes(url)
    database = Path(url.removeprefix("sqlite:///"))
    with contextlib.closing(sqlite3.connect(database, timeout=30)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    files = (path for path in database.parent.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files)


def sqlite_settings(pragma: Callable[[str], object]) -> dict[str, str]:
    """Read the durability settings back through the engine's own connection."""
    level = {"0": "OFF", "1": "NORMAL", "2": "FULL", "3": "EXTRA"}
    synchronous = str(pragma("PRAGMA synchronous"))
    return {
        "journal_mode": str(pragma("PRAGMA journal_mode")).upper(),
        "synchronous": level.get(synchronous, synchronous),
    }
