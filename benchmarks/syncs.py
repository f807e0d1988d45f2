"""Disk syncs a step, beside the commits or round trips the engine itself counted.

On SQLite the engine's own process syncs, and strace counts; on PostgreSQL the server counts. The
same driver runs a small and a larger number of chains; the difference of the two counts belongs
to the chains alone, without opening, migrating and closing the database.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import postgres
from benchmarks.contenders import Contender
from benchmarks.driver import ROOT, scratch
from benchmarks.rounds import command_for
from benchmarks.rows import from_line
from benchmarks.work import STEPS

WAYS = {"chain": (20, 60), "crowd": (100, 400)}  # few and many chains, alone and 50 at a time
MISSING = "not measured: install strace"
FAILED = "not measured: strace or the driver failed"
ONLY_PICKED_UP = ("pgqueuer", "procrastinate")  # they have no chains


@dataclass(frozen=True, slots=True)
class Count:
    """What one contender did in one way; `commits` is None for who does not count them."""

    contender: str
    way: str
    syncs: float | str  # a step, or why it is not known
    commits: float | None


@dataclass(frozen=True, slots=True)
class Trace:
    syncs: int
    commits: float | None


def count(
    contenders: Sequence[Contender], interpreters: Mapping[str, str], say: Callable[[str], None]
) -> list[Count]:
    """Return the counts of every contender on disk; ours also with 50 chains at a time."""
    counts = []
    for contender in contenders:
        ways = ["chain", "crowd"] if contender.engine == "holdfast" else ["chain"]
        for way in ways if is_counted(contender) else []:
            got = per_step(contender, command_for(contender, interpreters), way)
            say(f"syncs   {way:<6} {contender.title:<17} {got.syncs} a step")
            counts.append(got)
    return counts


def is_counted(contender: Contender) -> bool:
    return contender.store != "memory" and contender.engine not in ONLY_PICKED_UP


def per_step(contender: Contender, command: list[str], way: str) -> Count:
    watch = told_by_server if contender.store == postgres.STORE else traced
    if watch is traced and shutil.which("strace") is None:
        return Count(contender.name, way, MISSING, None)
    few, many = WAYS[way]
    less, more = (watch([*command, "--work", way, "--count", str(n)]) for n in (few, many))
    if less is None or more is None:
        return Count(contender.name, way, FAILED, None)
    syncs = round((more.syncs - less.syncs) / (many - few) / STEPS, 3)
    return Count(contender.name, way, syncs, more.commits)


def told_by_server(command: list[str]) -> Trace | None:
    """Return by how much the server's own count of syncs grew with a command."""
    before = postgres.syncs()
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        return None
    return Trace(postgres.syncs() - before, commits_told(ended.stdout))


def traced(command: list[str]) -> Trace | None:
    """Count the syncs of a command and its children, or return None if it failed."""
    with scratch() as directory:
        report = directory / "strace.txt"
        # With seccomp-bpf the other system calls run at full speed.
        strace = ["strace", "-f", "--seccomp-bpf", "-c", "-e", "trace=fdatasync,fsync"]
        whole = [*strace, "-o", str(report), *command]
        ended = subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, check=False)
        if ended.returncode != 0 or not report.exists():
            return None
        return Trace(total_calls(report.read_text()), commits_told(ended.stdout))


def total_calls(report: str) -> int:
    """Add up the calls of strace's summary, whose columns end in `calls [errors] syscall`."""
    lines = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s.*\b(f\w*sync)$", report, re.MULTILINE)
    return sum(int(calls) for calls, _ in lines)


def commits_told(output: str) -> float | None:
    rows = [row for line in output.splitlines() if (row := from_line(line, 0))]
    return rows[-1].figures.get("commits_step") if rows else None
