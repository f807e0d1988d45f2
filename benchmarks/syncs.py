"""Disk syncs a step, counted by strace.

The same driver runs a small and a larger number of chains; the difference of the two counts
belongs to the chains alone, without opening, migrating and closing the database.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence

from benchmarks.contenders import Contender
from benchmarks.driver import ROOT, scratch
from benchmarks.rounds import command_for
from benchmarks.work import STEPS

FEW, MANY = 20, 60
CROWD_FEW, CROWD_MANY = 100, 400
MISSING = "not measured: install strace"
Counts = Mapping[str, Mapping[str, float | str]]  # contender -> way -> syncs a step


def count(
    contenders: Sequence[Contender], interpreters: Mapping[str, str], say: Callable[[str], None]
) -> Counts:
    """Return syncs a step of every contender on disk; ours also with 50 chains at a time."""
    counts: dict[str, dict[str, float | str]] = {}
    for contender in contenders:
        if contender.store == "memory":
            continue
        counts[contender.name] = ways = {}
        for way, few, many in ways_of(contender):
            ways[way] = per_step(command_for(contender, interpreters), way, few, many)
            say(f"syncs   {way:<6} {contender.title:<17} {ways[way]} a step")
    return counts


def ways_of(contender: Contender) -> list[tuple[str, int, int]]:
    alone = ("chain", FEW, MANY)
    return [alone, ("crowd", CROWD_FEW, CROWD_MANY)] if contender.engine == "holdfast" else [alone]


def per_step(command: list[str], way: str, few: int, many: int) -> float | str:
    if shutil.which("strace") is None:
        return MISSING
    counted = [syncs_of([*command, "--work", way, "--count", str(n)]) for n in (few, many)]
    if None in counted:
        return "not measured: strace or the driver failed"
    less, more = (n or 0 for n in counted)
    return round((more - less) / (many - few) / STEPS, 3)


def syncs_of(command: list[str]) -> int | None:
    """Return how often the command and its children synced, or None if it failed."""
    with scratch() as directory:
        report = directory / "strace.txt"
        # With seccomp-bpf the other system calls run at full speed.
        strace = ["strace", "-f", "--seccomp-bpf", "-c", "-e", "trace=fdatasync,fsync"]
        traced = [*strace, "-o", str(report), *command]
        ended = subprocess.run(traced, cwd=ROOT, capture_output=True, check=False)
        if ended.returncode != 0 or not report.exists():
            return None
        return total_calls(report.read_text())


def total_calls(report: str) -> int:
    """Add up the calls of strace's summary, whose columns end in `calls [errors] syscall`."""
    lines = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s.*\b(f\w*sync)$", report, re.MULTILINE)
    return sum(int(calls) for calls, _ in lines)
